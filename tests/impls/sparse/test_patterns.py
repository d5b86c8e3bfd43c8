"""Patterns: the sets that are printed are the bands that are counted, and attended by rectangles or by a dense mask."""

from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import saved_for_backward
from tests.impls.contract.calls import evaluated, inputs_of, same
from tests.impls.contract.families.sparse import PATTERNS as PARAMS
from tests.impls.sparse.strategies import PATTERNS, Shape, factorised, neighbours

# by name: installed under another name than that of its folder
cover: Any = import_module("attnbench_impls.sparse.eager.cover")
plans: Any = import_module("attnbench_impls.sparse.eager.plan")
reference: Any = import_module("attnbench_impls.sparse.reference")
rows: Any = import_module("attnbench_impls.sparse.eager.rows")
softmax: Any = import_module("attnbench_impls.partial.softmax")
union: Any = import_module("attnbench_impls.sparse.eager.union")
work: Any = import_module("attnbench_impls.sparse.work")

SHAPES = st.builds(Shape, st.integers(1, 50), st.sampled_from([1, 2, 4]), st.booleans())
SMALL = cover.Lengths(sliding=((4, 2), (0, 3)), masked=4, free=5)
"""Tiles so short that a short sequence has many of them."""


@given(PATTERNS, st.builds(Shape, st.integers(1, 33), st.integers(1, 4), st.booleans()))
@settings(max_examples=400, deadline=None)
def test_the_bands_hold_each_pair_of_the_definition_once_and_count_them_without_walking(p: Any, shape: Any) -> None:
    seen, parts, count = p.seen(shape), p.parts(shape), torch.full((shape.H, shape.N, shape.N), -1)
    for part in parts:
        count[list(part.heads)] = part.dense(shape.N)
    assert torch.equal(count, seen.long())
    assert sum(part.pairs() * len(part.heads) for part in parts) == int(seen.sum())
    assert work.last_row(p, shape) == int(seen[:, -1].sum())


@pytest.mark.parametrize("N", [1, 7, 64, 100])
def test_the_counts_are_those_of_the_formulas(N: int) -> None:
    i, stride, c = torch.arange(N), 8, 3
    keys = {
        # conventions differ by the token one stride before
        factorised.Strided(stride, "by_layer", 0): i.clamp(max=stride) + 1,
        factorised.Strided(stride, "by_layer", 0, "code"): i.clamp(max=stride - 1) + 1,
        factorised.Strided(stride, "by_layer", 1): i // stride + 1,
        factorised.Fixed(stride, "by_layer", 0, c): i % stride + 1,
        factorised.Fixed(stride, "by_layer", 1, c): c * (i // stride) + (i % stride - (stride - c) + 1).clamp(min=0),
    }
    for pattern, want in keys.items():
        assert torch.equal(pattern.seen(Shape(N, 1, causal=True))[0].sum(-1), want)


@pytest.mark.parametrize("p", [*map(factorised.Strided, (1, 64)), factorised.Fixed(8, c=8), factorised.Fixed(64, c=1)])
def test_at_its_limits_a_pattern_is_full_causal_attention(p: Any) -> None:
    assert torch.equal(p.seen(Shape(64, 2, causal=True)), torch.ones(2, 64, 64, dtype=torch.bool).tril())


@pytest.mark.parametrize("N", [1, 60, 64])
@pytest.mark.parametrize("kind", [factorised.Strided, factorised.Fixed])
def test_two_hops_reach_every_earlier_token(kind: Any, N: int) -> None:
    first, second = (kind(8, "by_layer", layer).seen(Shape(N, 1, causal=True))[0].long() for layer in (0, 1))
    assert torch.equal((first + first @ second > 0) | (second @ first > 0), torch.ones(N, N, dtype=torch.bool).tril())


def test_heads_have_sub_blocks_of_their_own() -> None:
    seen = factorised.Fixed(8, "by_layer", 1, c=2).seen(Shape(32, 5, causal=True))
    assert [torch.nonzero(row).flatten().tolist()[:2] for row in seen[:, 8]] == [[6, 7], [4, 5], [2, 3], [0, 1], [6, 7]]


@pytest.mark.parametrize(("N", "stride"), [(1, 1), (2, 1), (3, 2), (512, 16), (1024, 32), (2048, 32), (4096, 64), (65536, 256)])
def test_the_default_stride_is_the_power_of_two_nearest_the_root(N: int, stride: int) -> None:
    assert factorised.Strided.of(Problem(B=1, H=1, N=N, D=8), {}).stride == stride


def test_a_short_block_has_as_many_cells_as_it_is_long_and_what_there_is_not_is_refused() -> None:
    problem = Problem(B=1, H=1, N=256, D=8)
    assert [factorised.Fixed.of(problem, given).c for given in ({}, {"stride": 4}, {"stride": 4, "c": 2})] == [8, 4, 2]
    with pytest.raises(ValueError, match="no more cells than that"):
        factorised.Fixed(4, c=5)
    with pytest.raises(TypeError, match="unknown parameter 'strides'; this pattern has convention, layer, mode, stride"):
        factorised.Strided.of(problem, {"strides": 4})


def is_the_definition(p: Any, shape: Any, kv_heads: int, M: int, fused: bool) -> None:
    sizes = [(shape.H, 4), (kv_heads, 4), (kv_heads, M), (shape.H, M)]
    q, k, v, g = (torch.randn(2, heads, shape.N, width, dtype=torch.float64, requires_grad=True) for heads, width in sizes)
    got = evaluated(lambda q, k, v: union.union_attention(q, k, v, plans.plan(p, shape, fused), 0.5), (q, k, v), g, ())
    want = evaluated(lambda q, k, v: reference.masked_softmax_attention(q, k, v, p.seen(shape)), (q, k, v), g, ())
    same(got, want, 1e-10)


@given(PATTERNS, SHAPES, st.sampled_from([1, 2, 4]), st.sampled_from([3, 4, 5]))
@settings(max_examples=150, deadline=None)
def test_every_pattern_is_its_definition_forward_and_backward(p: Any, shape: Any, group: int, M: int) -> None:
    is_the_definition(p, shape, max(1, shape.H // group), M, fused=True)


@given(p=PATTERNS, shape=SHAPES)
@settings(max_examples=80, deadline=None)
def test_so_it_is_in_short_tiles_with_the_scores_in_memory(p: Any, shape: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "is_fused", lambda _: False)
        patch.setattr(plans, "PLAIN", SMALL)
        patch.setattr(plans, "SCORES", 40)
        plans.plan.cache_clear()
        is_the_definition(p, shape, shape.H, 4, fused=False)
    plans.plan.cache_clear()


LONG = [
    *(factorised.Strided(4), factorised.Strided(32), factorised.Fixed(16, c=4), factorised.Fixed(512, c=3)),
    *(neighbours.Atrous(2), neighbours.Window(700), neighbours.Window(40), neighbours.Longformer(60, 3, 40)),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("p", LONG, ids=str)
def test_so_it_is_at_lengths_that_need_every_kind_of_tile(p: Any, causal: bool) -> None:
    is_the_definition(p, Shape(1150, 1, causal), 1, 4, fused=True)


@pytest.mark.parametrize(
    "sizes",
    [
        [(2, 4, 9, 8), (2, 4, 8, 8), (2, 4, 8, 8)],
        [(2, 4, 8, 8), (2, 4, 9, 8), (2, 4, 9, 8)],
        [(2, 4, 8, 8), (2, 4, 8, 8), (2, 4, 9, 8)],
        [(2, 4, 8, 8), (1, 4, 8, 8), (1, 4, 8, 8)],
        [(2, 4, 8, 8), (2, 3, 8, 8), (2, 3, 8, 8)],
        [(2, 4, 8, 8), (2, 2, 8, 8), (2, 4, 8, 8)],
        [(2, 4, 8, 8), (2, 4, 8, 7), (2, 4, 8, 8)],
        [(2, 8, 8, 8), (2, 8, 8, 8), (2, 8, 8, 8)],
        [(2, 2, 8, 8), (2, 2, 8, 8), (2, 2, 8, 8)],
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_refused(sizes: list[tuple[int, ...]]) -> None:
    method = build("sparse.strided", Problem(B=2, H=4, N=8, D=8, causal=True))
    with pytest.raises(ValueError, match="must be"):
        # cut from longer ones: a view beyond the shape finds memory
        method(*(torch.zeros(9, *shape[1:])[: shape[0]] for shape in sizes))


def test_all_heads_and_every_second_head_are_walked_together() -> None:
    assert rows.walks(2, 4, 4, (0, 1, 2, 3), 8) == ((range(8), range(8)),)
    assert rows.walks(2, 4, 4, (0, 2), 8) == ((range(0, 7, 2), range(0, 7, 2)),)


def test_documents_of_a_hundred_lengths_are_planned_once_each() -> None:
    def planned() -> list[Any]:
        return [
            each for n in range(1, 101) for each in (plans.plan(LONG[5], Shape(n, 1, True), True), rows.walks(1, 1, 1, (0,), n))
        ]

    assert all(first is again for first, again in zip(planned(), planned(), strict=True))


@pytest.mark.parametrize(
    ("p", "most"), [(factorised.Strided(64), 6), (neighbours.Window(129), 6), (factorised.Fixed(128, c=8), 40)], ids=str
)
def test_a_call_has_few_rectangles(p: Any, most: int) -> None:
    ways = plans.plan(p, Shape(4096, 8, True), True)
    found = {r for part in p.parts(Shape(4096, 8, True)) for b in part.bands for r in cover.cover(b, cover.FORWARD)}
    assert len(found) <= most
    assert all(walk.whole for walk in ways.forward)
    # pieces of what stays in cache
    assert all(walk.rows * r.queries.count * r.queries.length <= 2**15 for walk in ways.forward for r in walk.rectangles)


@pytest.mark.parametrize("stride", [16, 256])
def test_scores_that_are_in_memory_are_bounded_too(stride: int) -> None:
    ways = plans.plan(factorised.Strided(stride), Shape(2**15, 8, True), False)
    for walk in (*ways.forward, *ways.backward):
        most = max(walk.rows * r.queries.count * r.queries.length * r.keys.length for r in walk.rectangles)
        assert most <= plans.SCORES


@pytest.mark.parametrize("name", PARAMS)
def test_only_the_output_and_one_number_for_each_query_are_kept(name: str) -> None:
    p = Problem(B=1, H=2, N=600, D=16, causal=True)
    method = build(f"sparse.{name}", p)
    inputs = inputs_of(method)
    method(*inputs)
    kept = saved_for_backward(lambda: method(*inputs)).bytes
    assert kept is not None
    assert kept <= p.H * p.N * 4


def test_a_kernel_whose_empty_rows_are_no_numbers_changes_nothing() -> None:
    """No row of the mask that a kernel is given is empty."""
    second: dict[str, Any] = {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1}
    method = build("sparse.fixed_masked", Problem(B=2, H=2, N=30, D=8, causal=True), **second)
    with patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as watched:
        o = method(*inputs_of(method))
        method(*inputs_of(method), key_mask=torch.zeros(2, 30, dtype=torch.bool))
    given = [call.kwargs["attn_mask"] for call in watched.call_args_list]
    assert len(given) == 2
    assert all(bool(mask.any(-1).all()) for mask in given)
    assert not o[:, 0, :4].any()
    assert o[:, 0, 5:].any()


@pytest.mark.parametrize(
    ("name", "params", "heads"),
    [
        ("strided", {}, 1),
        ("strided", {"mode": "per_head"}, 4),
        ("fixed", {"c": 2}, 4),
        ("fixed", {"distinct": False}, 1),
        ("fixed", {"stride": 8, "c": 8}, 1),
        ("longformer", {"dilation": 2}, 1),
        ("longformer", {"dilation": 2, "dilated_heads": 1}, 4),
        ("longformer", {"dilation": 1, "dilated_heads": 1}, 1),
    ],
)
def test_one_mask_is_kept_for_a_length_from_inference_to_training_and_one_head_of_it_where_all_are_alike(
    name: str, params: dict[str, Any], heads: int
) -> None:
    method: Any = build(f"sparse.{name}_masked", Problem(B=1, H=4, N=64, D=8, causal=True), **params)
    inputs = inputs_of(method)
    with torch.inference_mode():
        method(*inputs)
    first = method._mask(inputs[0])
    (slope,) = torch.autograd.grad(method(*inputs).square().sum(), inputs[0])
    assert slope.any()
    assert method._mask(inputs[0]) is first
    assert first.seen.shape == (heads, 64, 64)
    assert method(*(x[:, :, :30] for x in inputs)).shape == (1, 4, 30, 8)
    method.prefill(*(x[:, :, :20] for x in inputs), capacity=64)
    assert {N for N, _ in method._masks} == {64, 30, 20}, "a prompt is attended by its mask too"


NO_PAIR: tuple[str, dict[str, Any]] = ("fixed", {"mode": "by_layer", "layer": 1, "stride": 128})
"""A pattern that shows nothing at the length below."""


@pytest.mark.parametrize(("name", "params"), [*((name, each) for name in PARAMS for each in PARAMS[name]), NO_PAIR], ids=str)
def test_padding_lessens_what_is_needed_and_never_what_is_executed(name: str, params: dict[str, Any]) -> None:
    problem = Problem(B=3, H=4, N=50, D=8, M=8, causal=True, padding=0.6)
    method: Any = build(f"sparse.{name}_masked", problem, **params)
    needed = sum(int(method.pattern.seen(method.shape(50))[..., :n].sum()) for n in problem.lengths)
    for workload, passes, products in ((Workload.FORWARD, 1, 2), (Workload.FORWARD_BACKWARD, 3, 7)):
        cost = type(method).cost(problem, params, workload)
        assert cost.exact_flops == pytest.approx(passes * 4 * 8 * needed)
        assert cost.executed_flops == products * 2 * 8 * 3 * 4 * 50 * 50
