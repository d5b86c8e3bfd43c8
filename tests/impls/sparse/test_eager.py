"""Sparse attention by rectangles: every pattern, from its bands, is its dense definition."""

from collections import Counter
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from tests.impls.sparse.strategies import PATTERNS, Shape, factorised, neighbours

cover: Any = import_module("attnbench_impls.sparse.eager.cover")
plans: Any = import_module("attnbench_impls.sparse.eager.plan")
reference: Any = import_module("attnbench_impls.sparse.reference")
rows: Any = import_module("attnbench_impls.sparse.eager.rows")
softmax: Any = import_module("attnbench_impls.partial.softmax")
union: Any = import_module("attnbench_impls.sparse.eager.union")


SHAPES = st.builds(Shape, st.integers(1, 50), st.sampled_from([1, 2, 4]), st.booleans())
SMALL = cover.Lengths(sliding=((4, 2), (0, 3)), masked=4, free=5)
"""Tiles so short that a short sequence has many of them."""


def both_ways(attend: Any, inputs: list[Tensor], g: Tensor) -> list[Tensor]:
    o = attend(*inputs)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


def drawn(shape: Any, kv_heads: int, M: int) -> tuple[list[Tensor], Tensor]:
    sizes = [(2, shape.H, shape.N, 4), (2, kv_heads, shape.N, 4), (2, kv_heads, shape.N, M)]
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes], torch.randn(
        2, shape.H, shape.N, M
    ).double()


def is_the_definition(p: Any, shape: Any, kv_heads: int, M: int, fused: bool) -> None:
    inputs, g = drawn(shape, kv_heads, M)
    got = both_ways(lambda q, k, v: union.union_attention(q, k, v, plans.plan(p, shape, fused), 0.5), inputs, g)
    want = both_ways(lambda q, k, v: reference.masked_softmax_attention(q, k, v, p.seen(shape)), inputs, g)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


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


@given(PATTERNS, SHAPES, st.sampled_from([cover.FORWARD, cover.BACKWARD, cover.PLAIN, SMALL]))
@settings(max_examples=150, deadline=None)
def test_rectangles_hold_each_pair_once_and_no_query_that_sees_nothing(p: Any, shape: Any, lengths: Any) -> None:
    for part in p.parts(shape):
        held: Counter[tuple[bool, int, int]] = Counter()
        for r in (r for each in part.bands for r in cover.cover(each, lengths)):
            seen = visible(r)
            assert bool(seen.any(-1).all())
            queries, keys = r.queries.tokens(), r.keys.tokens()
            for y, a, b in torch.nonzero(seen.expand(r.queries.count, -1, -1)).tolist():
                held[r.summary, int(queries[y, a]), int(keys[y, b])] += 1
        assert set(held.values()) <= {1}
        assert len(held) == part.pairs()


def visible(r: Any) -> Any:
    """[1, queries, keys] of a tile."""
    shape = r.queries.length, r.keys.length
    if r.stairs is not None:
        return r.stairs.of(r.stairs.bias(torch.empty(0)), shape[1])[None] == 0
    seen = torch.ones(shape, dtype=torch.bool)
    return (seen.tril() if r.causal else seen)[None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "p",
    [
        factorised.Strided(4),
        factorised.Strided(32),
        factorised.Fixed(16, c=4),
        factorised.Fixed(512, c=3),
        neighbours.Atrous(2),
        neighbours.Window(700),
        neighbours.Window(40),
        neighbours.Longformer(60, 3, 40),
    ],
    ids=str,
)
def test_so_it_is_at_lengths_that_need_every_kind_of_tile(p: Any, causal: bool) -> None:
    is_the_definition(p, Shape(1150, 1, causal), 1, 4, fused=True)


def test_a_query_that_sees_nothing_gets_zero_and_gives_none() -> None:
    method = build("sparse.fixed", Problem(B=1, H=1, N=40, D=8, causal=True), mode="by_layer", layer=1, stride=8, c=2)
    inputs = [x.requires_grad_() for x in method.inputs(method.problem, torch.Generator().manual_seed(3))]
    o, dq, _, _ = both_ways(method, inputs, torch.ones(1, 1, 40, 8))
    assert not o[:, :, :6].any()
    assert not dq[:, :, :6].any()
    assert bool(o[:, :, 6:].any(-1).all())


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


@given(st.integers(1, 4), st.sampled_from([(4, 4), (4, 2), (6, 2), (5, 1), (5, 5)]), st.integers(1, 9), st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_walked_once_with_their_own_keys(B: int, heads: tuple[int, int], most: int, data: Any) -> None:
    H, kv_heads = heads
    some = tuple(sorted(data.draw(st.sets(st.integers(0, H - 1), min_size=1))))
    together = rows.walks(B, H, kv_heads, some, most)
    walked = [row for q, kv in together for row in zip(q, kv, strict=True)]
    assert sorted(walked) == sorted((b * H + h, b * kv_heads + h // (H // kv_heads)) for b in range(B) for h in some)
    assert all(len(q) <= most and len(set(kv)) == len(kv) for q, kv in together)


def test_all_heads_and_every_second_head_are_walked_together() -> None:
    assert rows.walks(2, 4, 4, (0, 1, 2, 3), 8) == ((range(8), range(8)),)
    assert rows.walks(2, 4, 4, (0, 2), 8) == ((range(0, 7, 2), range(0, 7, 2)),)


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
