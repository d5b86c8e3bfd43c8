"""NSA: its three branches by their words in the paper, and softmax attention where a branch sees all."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant


def called(N: int, block: int = 8, selected: int = 4, window: int = 10, kv_heads: int = 2) -> Call:
    problem = Problem(B=2, H=4, kv_heads=kv_heads, N=N, D=6, causal=True, dtype="float64")
    return Call(Variant("blocks.nsa", {"block": block, "selected": selected, "window": window}), problem)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    o: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
    return o


def by_words(q: Tensor, k: Tensor, v: Tensor, gates: Tensor, options: Any) -> tuple[Tensor, list[set[int]]]:
    """One head of k, queries [R, N, D], gates [3, R, N]: the output [R, N, M], and the blocks selected by each token."""
    L, outputs, selected = options.block, [], []
    means = [torch.stack([x[a : a + L].mean(0) for a in range(0, len(x) - L + 1, L)] or [x[:0].sum(0)]) for x in (k, v)]
    for i in range(len(k)):
        complete, own = (i + 1) // L, i // L
        weights = (q[:, i] @ means[0][:complete].mT / q.shape[-1] ** 0.5).softmax(-1).sum(0)
        ranking = sorted(range(own), key=lambda c: -(9.0 if c in {0, own - 1} else float(weights[c])))
        blocks = {own, *ranking[: options.selected - 1]}
        keys = [j for j in range(i + 1) if j // L in blocks]
        near = slice(max(0, i - options.window + 1), i + 1)
        branches = (
            attend(q[:, i], *(x[:complete] for x in means)) if complete else torch.zeros_like(q[:, i, :1] * v[:1]),
            attend(q[:, i], k[keys], v[keys]),
            attend(q[:, i], k[near], v[near]),
        )
        outputs.append(sum(g[:, i, None] * o for g, o in zip(gates, branches, strict=True)))
        selected.append(blocks)
    return torch.stack(outputs, 1), selected


@pytest.mark.parametrize(("selected", "kv_heads"), [(3, 1), (4, 2), (5, 4)])
def test_the_definition_is_the_paper_query_by_query(selected: int, kv_heads: int) -> None:
    call = called(57, selected=selected, kv_heads=kv_heads)
    q, k, v, *gates = (x.detach() for x in call.inputs)
    choices, (o, *_) = call.choices, call.results("reference")
    assert choices is not None
    R, g = 4 // kv_heads, torch.stack(gates)
    for b in range(2):
        for h in range(kv_heads):
            heads = slice(h * R, (h + 1) * R)
            want, blocks = by_words(q[b, heads], k[b, h], v[b, h], g[:, b, heads], call.method.options)
            torch.testing.assert_close(o[b, heads], want, rtol=0, atol=1e-12)
            assert [{*row, i // 8} - {-1} for i, row in enumerate(choices[b, h].tolist())] == blocks


def only(which: int, call: Call) -> list[Tensor]:
    """The same q, k and v; one gate open, two shut."""
    return [*call.inputs[:3], *(torch.full_like(g, float(i == which)) for i, g in enumerate(call.inputs[3:]))]


ENDS: list[tuple[int, int, dict[str, Any]]] = [
    # blocks of one token; all blocks selected; a window of all tokens
    (0, 40, {"block": 1}),
    *((1, N, {"selected": selected}) for N, selected in ((30, 4), (64, 8), (65, 9), (65, 40))),
    (2, 70, {"window": 70}),
]


@pytest.mark.parametrize(("gate", "N", "params"), ENDS, ids=str)
def test_with_all_tokens_in_a_branch_and_its_gate_alone_it_is_softmax_attention(
    gate: int, N: int, params: dict[str, int]
) -> None:
    call = called(N, **params)
    q, k, v, *_ = inputs = only(gate, call)
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    same([call.forward(*inputs), call.method.exact(*inputs)], [want, want], 1e-10)
