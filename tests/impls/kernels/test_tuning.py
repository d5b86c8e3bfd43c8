"""How our kernels cut sequences into tiles and segments, which bands sparse.*_triton walk through together, and what they say
they cost; nothing here needs Triton."""

import sys
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.api import Problem, Workload
from attnbench.registry import load
from tests.impls.sparse.strategies import PATTERNS, Shape, factorised, neighbours

# by name: installed under another name than that of its folder
tuned: dict[str, Any] = {
    family: import_module(f"attnbench_impls.{family}.triton.tuning") for family in ("linear", "sparse", "vq")
}
tiles: Any = import_module("attnbench_impls.partial.tiles")
plan: Any = import_module("attnbench_impls.vq.triton.plan")
walks: Any = import_module("attnbench_impls.sparse.triton.walks")
FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
KINDS = {"linear": ("bf16", "tf32", "ieee"), "sparse": ("half", "tf32", "ieee"), "vq": ("half", "tf32", "ieee")}


def cost(name: str, workload: Workload = FORWARD, **shape: Any) -> Any:
    return load(name).cost(Problem(**{"B": 1, "H": 8, "D": 64, "dtype": "bfloat16", "causal": True, **shape}), {}, workload)


@pytest.mark.parametrize("name", ["linear.triton", "sparse.strided_triton", "sparse.longformer_triton", "vq.triton"])
def test_costs_need_no_triton(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    assert cost(name, N=64).executed_flops > 0


@pytest.mark.parametrize("width", [1, 16, 17, 64, 65, 128, 256])
@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in KINDS for kind in KINDS[family]])
def test_the_table_has_blocks_for_every_width(family: str, kind: str, width: int) -> None:
    tuning = tuned[family]
    if width <= tuning.WIDEST:
        launches = vars(tuning.blocks(width, 1, kind)).values()
        assert all(family != "linear" or tuning.splits(width, launch) * launch.columns >= width for launch in launches)
        assert width <= tiles.padded(width) == tiles.padded(tiles.padded(width))
        assert family != "vq" or tuning.merged(width).bit_count() == 1


@pytest.mark.parametrize("room", [tuned["linear"], tiles], ids=["linear", "the other families"])
def test_float32_follows_the_matmul_precision(room: Any) -> None:
    arithmetic, before = room.arithmetic, torch.get_float32_matmul_precision()
    try:
        for precision, kind in (("highest", "ieee"), ("high", "tf32")):
            torch.set_float32_matmul_precision(precision)
            assert arithmetic(torch.float32) == kind
    finally:
        torch.set_float32_matmul_precision(before)
    halves = ("half", "half") if room is tiles else ("bf16", "tf32")
    assert (arithmetic(torch.bfloat16), arithmetic(torch.float16)) == halves


class TestLinear:
    @given(walks=st.integers(1, 2000), N=st.integers(1, 100_000))
    def test_segments_cover_the_sequence_and_fit_on_the_gpu_at_once(self, walks: int, N: int) -> None:
        parts = tuned["linear"].cut(walks, N)
        assert parts.tokens % 64 == 0
        assert (parts.segments - 1) * parts.tokens < N <= parts.segments * parts.tokens
        assert parts.segments == 1 or parts.tokens >= 128
        assert parts.segments == 1 or parts.segments * walks <= tiles.PROGRAMS

    def test_heads_that_fill_the_gpu_are_not_cut(self) -> None:
        many = (tiles.PROGRAMS, 10_000), (tiles.PROGRAMS // 2, 10_000), (16, 65536)
        assert [tuned["linear"].cut(*of).segments for of in many] == [1, 2, 16]

    def test_the_executed_count_is_that_of_its_products(self) -> None:
        """B H fills the GPU: scores, their product with v, the state read and added to, z in 16 columns; L = D = M = 64."""
        full: dict[str, Any] = {"B": 4, "H": 66}
        whole = cost("linear.triton", N=1024, **full).executed_flops
        assert whole == 2 * 4 * 66 * 1024 * (64 * 64 + 64 * 64 + 2 * 64 * 64 + 16 * 64)
        # the last chunk is computed whole
        assert cost("linear.triton", N=961, **full).executed_flops == whole
        # segments of two chunks, of which the last is not summed
        assert cost("linear.triton", N=1024, H=1).executed_flops == whole / 264 + 2 * 7 * 128 * 64 * 64
        assert cost("linear.triton", BOTH, N=1024, **full).executed_flops == 4 * whole - 2 * 4 * 66 * 1024 * 2 * 16 * 64


class TestQuantisedKeys:
    @given(N=st.integers(1, 100_000), L=st.integers(1, 2000))
    def test_causal_segments_are_blocks_and_the_last_two_have_no_table(self, N: int, L: int) -> None:
        parts = tuned["vq"].cut(N, L, causal=True, walks=1)
        assert (parts.tokens, parts.tables) == (min(L, N), max(0, -(-N // parts.tokens) - 2))

    @given(N=st.integers(1, 100_000), walks=st.integers(1, 2000))
    def test_without_a_mask_segments_fill_the_gpu_but_no_more(self, N: int, walks: int) -> None:
        parts = tuned["vq"].cut(N, 1, causal=False, walks=walks)
        assert parts.tokens % 128 == 0
        assert (parts.tables - 1) * parts.tokens < N <= parts.tables * parts.tokens
        assert (parts.tables - 1) * walks < tiles.PROGRAMS

    def test_tiles_are_no_longer_than_what_there_is(self) -> None:
        few = plan.Plan.of(plan.Shape(B=1, H=1, kv_heads=1, N=20, D=64, M=64, S=5, L=16, causal=True), "half").blocks
        assert (few.attend.own, few.attend.other) == (16, 32)
        assert {few.sums.own, few.sums.other, few.codes.own, few.codes.other, few.keys.own} == {16}


@given(PATTERNS, st.builds(Shape, st.integers(1, 100), st.just(4), st.booleans()))
@settings(max_examples=100, deadline=None)
def test_every_band_is_walked_once_and_the_first_walks_write_every_token(pattern: Any, shape: Any) -> None:
    parts = pattern.parts(shape)
    bands = sorted((head, str(band)) for part in parts for head in part.heads for band in set(part.bands))
    for found in (walks.query_walks(parts, shape.N), walks.key_walks(parts, shape.N, 1)):
        assert sorted((row.head, str(band)) for walk in found for row in walk.rows for band in row.bands) == bands
        first = [walk for walk in found if not walk.more]
        assert sorted(row.head for walk in first for row in walk.rows) == list(range(shape.H))
        for walk in first:
            places = walk.places
            tokens = torch.arange(places.groups)[:, None] * places.apart + torch.arange(walk.first, walk.stop) * places.stride
            assert torch.equal(tokens[tokens < shape.N].sort().values, torch.arange(shape.N))


@pytest.mark.parametrize(
    ("pattern", "causal", "of_queries", "of_keys"),
    [
        (factorised.Strided(8), True, [1, 1], [1, 1]),
        (factorised.Strided(8), False, [1, 2], [1, 2]),
        (factorised.Fixed(8, c=2), True, [2], [1, 1]),
        (neighbours.Longformer(9, 1, 2), False, [2, 1], [2, 1]),
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


def test_short_groups_have_short_blocks() -> None:
    launch = tuned["sparse"].Launch(64, 64, 4, 2)
    local, residues = walks.query_walks(factorised.Strided(32).parts(Shape(1024, 1, True)), 1024)
    assert tuned["sparse"].fitted(launch, local, of_keys=False) == launch
    assert tuned["sparse"].fitted(launch, residues, of_keys=False) == tuned["sparse"].Launch(32, 32, 4, 2)


def test_long_rows_are_shared_out_until_the_gpu_is_full() -> None:
    parts = neighbours.Longformer(256, 1, 1).parts(Shape(65536, 8, False))
    window, whole = walks.query_walks(parts, 65536)
    shared = (window, 1), (whole, 8), (whole, tiles.PROGRAMS)
    assert [tuned["sparse"].splits(*of, of_keys=False) for of in shared] == [1, 33, 1]


@pytest.mark.parametrize(("kind", "most"), [("strided", 2.4), ("fixed", 2.7), ("atrous", 2.0), ("longformer", 2.0)])
def test_little_is_computed_in_vain_at_the_usual_strides(kind: str, most: float) -> None:
    for N in (4096, 65536):
        found = cost(f"sparse.{kind}_triton", N=N)
        assert found.executed_flops <= most * found.exact_flops
