"""Sparse attention: windows of a package, dense masks, and what is kept."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import saved_for_backward
from tests.impls.contract.calls import inputs_of
from tests.impls.sparse.strategies import Shape, factorised, neighbours

package: Any = import_module("attnbench_impls.sparse.peers.local_attention")
plans: Any = import_module("attnbench_impls.sparse.eager.plan")
masked: Any = import_module("attnbench_impls.sparse.library.masked")
topk: Any = import_module("attnbench_impls.sparse.chosen.topk")
selection: Any = import_module("attnbench_impls.sparse.chosen.selection")

Local, TopK = package.LocalAttentionWindow, topk.TopKAttention
FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD


@given(N=st.integers(1, 50), window=st.integers(1, 20), causal=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_window_pattern_sees_the_same_keys(N: int, window: int, causal: bool) -> None:
    method = Local(Problem(B=1, H=1, N=N, D=2, causal=causal, dtype="float64"), window=window)
    # with keys of zeros and values of one token each, an output tells who was seen
    q = torch.zeros(1, 1, N, 2, dtype=torch.float64)
    seen = method(q, q, torch.eye(N, dtype=torch.float64)[None, None])[0, 0] > 0
    same = neighbours.Window(window + 1 if causal else 2 * window)
    assert torch.equal(seen, same.seen(Shape(N, 1, causal))[0])


NAMES = ["strided", "fixed", "local", "atrous", "window", "longformer"]


def test_scores_that_are_in_memory_are_bounded_too() -> None:
    for stride in (16, 256):
        shape = Shape(2**15, 8, True)
        ways = plans.plan(factorised.Strided(stride), shape, False)
        for walk in (*ways.forward, *ways.backward):
            most = max(walk.rows * r.queries.count * r.queries.length * r.keys.length for r in walk.rectangles)
            assert most <= plans.SCORES


@pytest.mark.parametrize("name", NAMES)
def test_only_the_output_and_one_number_for_each_query_are_kept(name: str) -> None:
    p = Problem(B=1, H=2, N=600, D=16, causal=True)
    method = build(f"sparse.{name}", p)
    q, k, v = (x.requires_grad_() for x in type(method).inputs(p, torch.Generator().manual_seed(1)))
    method(q, k, v)
    kept = saved_for_backward(lambda: method(q, k, v)).bytes
    assert kept is not None
    assert kept <= p.H * p.N * 4


PATTERNS: list[tuple[str, dict[str, Any]]] = [
    ("Strided", {}),
    ("Strided", {"stride": 5, "mode": "per_head", "convention": "code"}),
    ("Fixed", {}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1, "distinct": False}),
    ("Local", {"stride": 9}),
    ("Atrous", {"stride": 7, "reach": 3}),
    ("Window", {"window": 20}),
    ("Longformer", {"window": 12, "dilation": 2, "globals": 3, "dilated_heads": 1}),
]


def masked_by(name: str, problem: Problem, **params: Any) -> Any:
    return getattr(masked, f"Masked{name}")(problem, **params)


def test_a_kernel_whose_empty_rows_are_no_numbers_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of the mask that a kernel is given is empty."""
    given: list[torch.Tensor] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def watched(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor, **rest: Any) -> torch.Tensor:
        given.append(attn_mask)
        return fused(q, k, v, attn_mask, **rest)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    method = masked_by("Fixed", Problem(B=2, H=2, N=30, D=8, causal=True), stride=6, c=2, mode="by_layer", layer=1)
    o = method(*inputs_of(method))
    method(*inputs_of(method), key_mask=torch.zeros(2, 30, dtype=torch.bool))
    assert all(bool(mask.any(-1).all()) for mask in given)
    assert not o[:, 0, :4].any()
    assert o[:, 0, 5:].any()


@pytest.mark.parametrize(
    ("name", "params", "heads"),
    [
        ("Strided", {}, 1),
        ("Strided", {"mode": "per_head"}, 4),
        ("Fixed", {"c": 2}, 4),
        ("Fixed", {"distinct": False}, 1),
        ("Fixed", {"distinct": False, "mode": "by_layer", "layer": 1}, 1),
        ("Fixed", {"stride": 8, "c": 8}, 1),
        ("Longformer", {"dilation": 2}, 1),
        ("Longformer", {"dilation": 2, "dilated_heads": 1}, 4),
        ("Longformer", {"dilation": 1, "dilated_heads": 1}, 1),
    ],
)
def test_one_mask_is_kept_for_a_length_and_one_head_of_it_where_all_are_alike(
    name: str, params: dict[str, Any], heads: int
) -> None:
    method = masked_by(name, Problem(B=1, H=4, N=64, D=8, causal=True), **params)
    inputs = [x.detach() for x in inputs_of(method)]
    method(*inputs)
    first = method._mask(inputs[0])
    method(*inputs)
    assert method._mask(inputs[0]) is first
    assert first.seen.shape == (heads, 64, 64)
    assert method(*(x[:, :, :30] for x in inputs)).shape == (1, 4, 30, 8)


def test_a_mask_that_inference_made_serves_training() -> None:
    method = masked_by("Fixed", Problem(B=1, H=2, N=64, D=8), c=2, mode="by_layer", layer=1)
    inputs = inputs_of(method)
    with torch.inference_mode():
        method(*inputs)
    (slope,) = torch.autograd.grad(method(*inputs).sum(), inputs[0])
    assert slope.any()


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_padding_lessens_what_is_needed_and_never_what_is_executed(name: str, params: dict[str, Any]) -> None:
    problem = Problem(B=3, H=4, N=50, D=8, M=8, causal=True, padding=0.6)
    method = masked_by(name, problem, **params)
    needed = sum(int(method.pattern.seen(method.shape(50))[..., :n].sum()) for n in problem.lengths)
    for workload, passes, products in ((Workload.FORWARD, 1, 2), (BOTH, 3, 7)):
        cost = type(method).cost(problem, params, workload)
        assert cost.exact_flops == pytest.approx(passes * 4 * 8 * needed)
        assert cost.executed_flops == products * 2 * 8 * 3 * 4 * 50 * 50


def topk_of(N: int, k: int = 8, **fields: Any) -> Any:
    return TopK(Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": "float64", **fields}), k=k)


def scores_of(method: Any, q: Tensor, k: Tensor) -> Tensor:
    """Of all pairs, [B, H, N, N], -inf where hidden."""
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf) if method.causal else scores


@given(N=st.integers(1, 40), k=st.integers(1, 50), causal=st.booleans(), block=st.sampled_from([1, 100, 1 << 20]))
@settings(max_examples=60, deadline=None)
def test_the_largest_are_kept_each_once_and_as_many_as_there_are(N: int, k: int, causal: bool, block: int) -> None:
    method = topk_of(N, k, causal=causal, kv_heads=2)
    q, key, v = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "SCORES", block)
        kept = method.choose(q, key, v)
    scores = scores_of(method, q, key)
    seen = (scores > -torch.inf).sum(-1)
    assert torch.equal((kept >= 0).sum(-1), seen.clamp(max=k))
    mask = torch.zeros(2, 4, N, N + 1, dtype=torch.bool).scatter_(3, kept % (N + 1), True)[..., :-1]
    assert torch.equal(mask.sum(-1), seen.clamp(max=k))
    lowest = scores.masked_fill(~mask, torch.inf).amin(-1)
    assert (scores.masked_fill(mask, -torch.inf).amax(-1) <= lowest).all()


def test_of_equal_scores_no_more_than_k_are_kept() -> None:
    method = topk_of(50, 8, causal=True)
    q, k, v = (torch.ones_like(x) for x in inputs_of(method))
    kept = method.choose(q, k, v)
    assert torch.equal((kept >= 0).sum(-1), torch.arange(1, 51).clamp(max=8).expand(2, 4, 50))
    assert (kept <= torch.arange(50)[:, None]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_work_is_that_of_the_scores_and_of_what_is_kept(causal: bool) -> None:
    problem = Problem(B=2, H=4, N=100, D=8, M=6, causal=causal)
    method = TopK(problem, k=8)
    scores = scores_of(method, torch.zeros(2, 4, 100, 8), torch.zeros(2, 4, 100, 8))
    seen, kept = int((scores == 0).sum()), int((method.choose(*TopK.inputs(problem, torch.Generator())) >= 0).sum())
    cost = TopK.cost(problem, {}, FORWARD)
    assert cost.exact_flops == 2 * (8 * seen + 6 * kept)
    assert TopK.cost(problem, {}, BOTH).exact_flops == cost.exact_flops + 2 * kept * 2 * (8 + 6)
    # one block of queries: nothing of the square is skipped
    assert cost.executed_flops == 2 * (8 * 2 * 4 * 100 * 100 + (8 + 6) * kept)
