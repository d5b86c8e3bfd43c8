"""MoBA: the definition is the paper, query by query, and all may choose one block."""

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant


def called(N: int, topk: int) -> Call:
    problem = Problem(B=2, H=3, N=N, D=6, causal=True, dtype="float64")
    return Call(Variant("blocks.moba", {"block": 8, "topk": topk}), problem)


def by_loops(q: Tensor, k: Tensor, v: Tensor, block: int, topk: int) -> tuple[Tensor, list[set[int]]]:
    """One head, [N, D]: the sets of blocks that the queries see, and the output, from the words of the paper."""
    outputs, seen = [], []
    for i in range(len(q)):
        scores = {c: float(q[i] @ k[c * block : (c + 1) * block].mean(0)) for c in range(i // block)}
        blocks = {i // block, *sorted(scores, key=lambda c: -scores[c])[: topk - 1]}
        keys = [j for j in range(i + 1) if j // block in blocks]
        outputs.append((q[i] @ k[keys].mT / q.shape[1] ** 0.5).softmax(-1) @ v[keys])
        seen.append(blocks)
    return torch.stack(outputs), seen


@pytest.mark.parametrize("topk", [1, 2, 4])
def test_the_definition_is_the_paper_query_by_query(topk: int) -> None:
    call = called(37, topk)
    q, k, v = (x.detach() for x in call.inputs)
    choices, (o, *_) = call.choices, call.results("reference")
    assert choices is not None
    for b in range(2):
        for h in range(3):
            want, blocks = by_loops(q[b, h], k[b, h], v[b, h], 8, topk)
            torch.testing.assert_close(o[b, h], want, rtol=0, atol=1e-12)
            assert [{*row, i // 8} - {-1} for i, row in enumerate(choices[b, h].tolist())] == blocks


def test_all_may_choose_one_block() -> None:
    call = called(64, 2)
    choices = torch.zeros(2, 3, 64, 1, dtype=torch.int64)
    choices[:, :, :8] = -1
    # but of one head none does
    choices[1, 1] = -1
    same(call.results(choices=choices), call.exact(choices=choices), 1e-10)
