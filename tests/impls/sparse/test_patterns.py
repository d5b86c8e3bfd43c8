"""Patterns: the bands that are computed are the sets that are printed."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem
from tests.impls.sparse.strategies import PATTERNS, Shape, factorised

# by name: installed under another name than that of its folder
work: Any = import_module("attnbench_impls.sparse.work")


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
