"""Attention over chosen blocks: MoBA and NSA by the words of their papers, and softmax attention where a branch sees all."""

from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant


def moba(N: int, topk: int) -> Call:
    problem = Problem(B=2, H=3, N=N, D=6, causal=True, dtype="float64")
    return Call(Variant("blocks.moba", {"block": 8, "topk": topk}), problem)


def nsa(N: int, block: int = 8, selected: int = 4, window: int = 10, kv_heads: int = 2) -> Call:
    problem = Problem(B=2, H=4, kv_heads=kv_heads, N=N, D=6, causal=True, dtype="float64")
    return Call(Variant("blocks.nsa", {"block": block, "selected": selected, "window": window}), problem)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    o: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
    return o


def moba_by_words(q: Tensor, k: Tensor, v: Tensor, block: int, topk: int) -> tuple[Tensor, list[set[int]]]:
    """One head, [N, D]: the output, and the sets of blocks that the queries see."""
    outputs, seen = [], []
    for i in range(len(q)):
        scores = {c: float(q[i] @ k[c * block : (c + 1) * block].mean(0)) for c in range(i // block)}
        blocks = {i // block, *sorted(scores, key=lambda c: -scores[c])[: topk - 1]}
        keys = [j for j in range(i + 1) if j // block in blocks]
        outputs.append(attend(q[i], k[keys], v[keys]))
        seen.append(blocks)
    return torch.stack(outputs), seen


def nsa_by_words(q: Tensor, k: Tensor, v: Tensor, gates: Tensor, options: Any) -> tuple[Tensor, list[set[int]]]:
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


def seen_by(choices: Tensor) -> list[set[int]]:
    """The blocks of each token: its own, and those that it chose."""
    return [{*row, i // 8} - {-1} for i, row in enumerate(choices.tolist())]


@pytest.mark.parametrize("topk", [1, 2, 4, 100])
def test_moba_is_the_paper_query_by_query(topk: int) -> None:
    call = moba(37, topk)
    q, k, v = (x.detach() for x in call.inputs)
    choices, (o, *_) = call.choices, call.results("reference")
    assert choices is not None
    for b, h in product(range(2), range(3)):
        want, blocks = moba_by_words(q[b, h], k[b, h], v[b, h], 8, topk)
        torch.testing.assert_close(o[b, h], want, rtol=0, atol=1e-12)
        assert seen_by(choices[b, h]) == blocks


@pytest.mark.parametrize(("selected", "kv_heads"), [(3, 1), (4, 2), (5, 4)])
def test_nsa_is_the_paper_query_by_query(selected: int, kv_heads: int) -> None:
    call = nsa(57, selected=selected, kv_heads=kv_heads)
    q, k, v, *gates = (x.detach() for x in call.inputs)
    choices, (o, *_) = call.choices, call.results("reference")
    assert choices is not None
    R, g = 4 // kv_heads, torch.stack(gates)
    for b, h in product(range(2), range(kv_heads)):
        heads = slice(h * R, (h + 1) * R)
        want, blocks = nsa_by_words(q[b, heads], k[b, h], v[b, h], g[:, b, heads], call.method.options)
        torch.testing.assert_close(o[b, heads], want, rtol=0, atol=1e-12)
        assert seen_by(choices[b, h]) == blocks


def test_all_may_choose_one_block() -> None:
    call = moba(64, 2)
    choices = torch.zeros(2, 3, 64, 1, dtype=torch.int64)
    choices[:, :, :8] = -1
    # but of one head none does
    choices[1, 1] = -1
    same(call.results(choices=choices), call.exact(choices=choices), 1e-10)


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
    call = nsa(N, **params)
    q, k, v, *gates = call.inputs
    inputs = q, k, v, *(torch.full_like(g, float(i == gate)) for i, g in enumerate(gates))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    same([call.forward(*inputs), call.method.exact(*inputs)], [want, want], 1e-10)


def test_a_ring_is_filled_at_once_however_long_the_window_is() -> None:
    call = Call(Variant("blocks.hca", {"window": 300}), Problem(N=400, D=4, causal=True))
    with torch.autograd.profiler.profile() as made:
        call.method.state_after(*call.inputs, capacity=400)
    assert len(made.function_events) < 300


@pytest.mark.parametrize("name", ["blocks.nsa", "blocks.msa", "sparse.fixed"])
def test_a_later_call_copies_no_numbers_to_the_device_which_it_would_wait_for(name: str) -> None:
    call = Call(Variant(name), Problem(H=2, N=200, D=8, causal=True))
    for _ in range(2):
        with patch.object(torch, "tensor", wraps=torch.tensor) as copied:
            call.forward()
            call.decoded(198)
    copied.assert_not_called()
