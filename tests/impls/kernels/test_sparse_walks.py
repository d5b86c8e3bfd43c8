"""What sparse.*_triton refuse, which bands they walk through together, and what they cost; nothing here needs triton."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.api import Problem, Workload

# by name: installed under another name than that of its folder
triton: Any = import_module("attnbench_impls.sparse.triton.attention")
walks: Any = import_module("attnbench_impls.sparse.triton.walks")
tuning: Any = import_module("attnbench_impls.sparse.triton.tuning")
cost: Any = import_module("attnbench_impls.sparse.triton.cost")
factorised: Any = import_module("attnbench_impls.sparse.patterns.factorised")
neighbours: Any = import_module("attnbench_impls.sparse.patterns.neighbours")
work: Any = import_module("attnbench_impls.sparse.work")
Shape: Any = import_module("attnbench_impls.sparse.patterns.pattern").Shape
FORWARD = Workload.FORWARD
MODES = st.sampled_from(["merged", "per_head", "by_layer"])
PATTERNS = st.one_of(
    st.builds(factorised.Strided, st.integers(1, 30), MODES, st.integers(0, 1)),
    st.builds(factorised.Fixed, st.integers(9, 30), MODES, st.integers(0, 1), st.integers(1, 9)),
    st.builds(neighbours.Atrous, st.integers(1, 40), st.none() | st.integers(0, 5)),
    st.builds(neighbours.Longformer, st.integers(1, 12), st.integers(1, 5), st.integers(0, 6), st.none() | st.integers(0, 4)),
)
SHAPES = st.builds(Shape, st.integers(1, 100), st.just(4), st.booleans())


def assert_walked_once(found: Any, parts: Any) -> None:
    """Each head goes through each of its bands, in launches of which the first alone write without adding."""
    walked: dict[int, list[Any]] = {}
    for walk in found:
        for row in walk.rows:
            walked.setdefault(row.head, []).extend(row.bands)
    assert {head: set(bands) for head, bands in walked.items()} == {head: set(p.bands) for p in parts for head in p.heads}
    assert all(len(bands) == len(set(bands)) for bands in walked.values())


def written(walk: Any, N: int) -> list[int]:
    """The tokens of a walk's places, as often as they are there."""
    p = walk.places
    a = torch.arange(walk.first, walk.stop)
    tokens = torch.arange(p.groups)[:, None] * p.apart + a * p.stride
    return sorted(int(token) for token in tokens.flatten() if token < N)


@given(PATTERNS, SHAPES)
@settings(max_examples=100, deadline=None)
def test_every_band_is_walked_once_and_the_first_walks_write_every_token(pattern: Any, shape: Any) -> None:
    parts = pattern.parts(shape)
    for found in (walks.query_walks(parts, shape.N), walks.key_walks(parts, shape.N, 1)):
        assert_walked_once(found, parts)
        first = [walk for walk in found if not walk.more]
        assert sorted(row.head for walk in first for row in walk.rows) == list(range(shape.H))
        assert all(written(walk, shape.N) == list(range(shape.N)) for walk in first)


def test_heads_that_share_keys_add_where_their_first_walks_differ() -> None:
    parts = factorised.Strided(8, "per_head").parts(Shape(64, 4, True))
    assert [walk.more for walk in walks.key_walks(parts, 64, 1)] == [False, False]
    assert [walk.more for walk in walks.key_walks(parts, 64, 2)] == [True, True]


@pytest.mark.parametrize(
    ("pattern", "causal", "of_queries", "of_keys"),
    [
        (factorised.Strided(8), True, [1, 1], [1, 1]),
        (factorised.Strided(8), False, [1, 2], [1, 2]),
        (factorised.Fixed(8, c=2), True, [2], [1, 1]),
        (factorised.Fixed(8, c=2), False, [3], [1, 2]),
        (neighbours.Longformer(9, 1, 2), False, [2, 1], [2, 1]),
        (neighbours.Longformer(9, 4, 2), False, [2, 1], [2, 1]),
        (neighbours.Longformer(9, 1, 2), True, [3], [2, 1]),
    ],
)
def test_bands_that_suit_the_same_blocks_share_a_launch(
    pattern: Any, causal: bool, of_queries: list[int], of_keys: list[int]
) -> None:
    parts = pattern.parts(Shape(64, 2, causal))
    assert [len(walk.rows[0].bands) for walk in walks.query_walks(parts, 64)] == of_queries
    assert [len(walk.rows[0].bands) for walk in walks.key_walks(parts, 64, 1)] == of_keys


def test_heads_with_cells_of_their_own_share_a_launch() -> None:
    parts = factorised.Fixed(32, "by_layer", 1, 8).parts(Shape(256, 8, True))
    assert len(parts) > 1
    assert [len(walk.rows) for walk in walks.query_walks(parts, 256)] == [8]
    assert [len(walk.rows) for walk in walks.key_walks(parts, 256, 1)] == [8, 8]


@given(PATTERNS, SHAPES)
@settings(max_examples=100, deadline=None)
def test_tiles_hold_the_pairs_of_the_definition(pattern: Any, shape: Any) -> None:
    launch, pairs = tuning.Launch(16, 32, 4, 2), work.all_pairs(pattern, shape)
    for group in (None, 1, 2):
        assert cost.tile_pairs(pattern, shape, launch, group) >= pairs


def test_the_tiles_of_a_window_are_those_that_it_touches() -> None:
    launch, shape = tuning.Launch(64, 64, 4, 2), Shape(1024, 1, True)
    # 65 keys: one block of 64 queries sees 128 tokens, but for the first block
    assert cost.tile_pairs(neighbours.Window(65), shape, launch) == (2 * 16 - 1) * 64 * 64
    assert cost.tile_pairs(neighbours.Window(65), shape, launch, 1) == (2 * 16 - 1) * 64 * 64


def test_short_groups_have_short_blocks() -> None:
    launch = tuning.Launch(64, 64, 4, 2)
    local, residues = walks.query_walks(factorised.Strided(32).parts(Shape(1024, 1, True)), 1024)
    assert tuning.fitted(launch, local, of_keys=False) == launch
    assert tuning.fitted(launch, residues, of_keys=False) == tuning.Launch(32, 32, 4, 2)


def test_long_rows_are_shared_out_until_the_gpu_is_full() -> None:
    parts = neighbours.Longformer(256, 1, 1).parts(Shape(65536, 8, False))
    window, whole = walks.query_walks(parts, 65536)
    assert tuning.splits(window, 1, of_keys=False) == 1
    assert tuning.splits(whole, 8, of_keys=False) == 33
    assert tuning.splits(whole, tuning.PROGRAMS, of_keys=False) == 1


@pytest.mark.parametrize(("kind", "most"), [("Strided", 2.4), ("Fixed", 2.7), ("Atrous", 2.0), ("Longformer", 2.0)])
def test_little_is_computed_in_vain_at_the_usual_strides(kind: str, most: float) -> None:
    for N in (4096, 65536):
        problem = Problem(B=1, H=8, N=N, D=64, dtype="bfloat16", causal=True)
        found = getattr(triton, f"Triton{kind}").cost(problem, {}, FORWARD)
        assert found.executed_flops <= most * found.exact_flops
