"""How our kernels cut sequences into tiles and segments, and what they say they cost; nothing here needs Triton."""

import sys
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbench.api import Problem, Workload
from attnbench.registry import load

# by name: installed under another name than that of its folder
tuned: dict[str, Any] = {
    family: import_module(f"attnbench_impls.{family}.triton.tuning") for family in ("linear", "sparse", "vq")
}
plan: Any = import_module("attnbench_impls.vq.triton.plan")
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
    if width > tuning.WIDEST:
        return
    for launch in vars(tuning.blocks(width, 1, kind)).values():
        if family == "linear":
            assert launch.chunk in {32, 64}
            assert tuning.splits(width, launch) * launch.columns >= width
        elif family == "sparse":
            assert {launch.queries, launch.keys} <= {16, 32, 64}
        else:
            assert {launch.own, launch.other} <= {16, 32, 64, 128}
    if family != "sparse":
        assert width <= tuning.padded(width) == tuning.padded(tuning.padded(width))
    if family == "vq":
        assert tuning.merged(width).bit_count() == 1


def test_the_widest_blocks_are_hopper_s_alone() -> None:
    blocks = tuned["linear"].blocks
    assert blocks(128, 65, "bf16", 9) != blocks(128, 128, "bf16", 10) == blocks(128, 128, "bf16", 8)
    assert all(launch.columns == 64 for launch in vars(blocks(128, 128, "bf16", 8)).values())
    assert blocks(64, 64, "bf16", 8) == blocks(64, 64, "bf16", 9)


@pytest.mark.parametrize("family", tuned)
def test_float32_follows_the_matmul_precision(family: str) -> None:
    arithmetic, before = tuned[family].arithmetic, torch.get_float32_matmul_precision()
    try:
        for precision, kind in (("highest", "ieee"), ("high", "tf32")):
            torch.set_float32_matmul_precision(precision)
            assert arithmetic(torch.float32) == kind
    finally:
        torch.set_float32_matmul_precision(before)
    halves = ("bf16", "tf32") if family == "linear" else ("half", "half")
    assert (arithmetic(torch.bfloat16), arithmetic(torch.float16)) == halves


class TestLinear:
    PROGRAMS = tuned["linear"].PROGRAMS

    @given(walks=st.integers(1, 2000), N=st.integers(1, 100_000))
    def test_segments_cover_the_sequence_and_fit_on_the_gpu_at_once(self, walks: int, N: int) -> None:
        parts = tuned["linear"].cut(walks, N)
        assert parts.tokens % 64 == 0
        assert (parts.segments - 1) * parts.tokens < N <= parts.segments * parts.tokens
        assert parts.segments == 1 or parts.tokens >= 128
        assert parts.segments == 1 or parts.segments * walks <= self.PROGRAMS

    def test_heads_that_fill_the_gpu_are_not_cut(self) -> None:
        assert tuned["linear"].cut(self.PROGRAMS, 10_000).segments == 1
        assert tuned["linear"].cut(self.PROGRAMS // 2, 10_000).segments == 2
        assert tuned["linear"].cut(16, 65536).segments == 16

    def test_the_executed_count_is_that_of_its_products(self) -> None:
        """B H fills the GPU: one walk of scores, their product with v, and the state read and added to; L = D = M = 64."""
        full: dict[str, Any] = {"B": 4, "H": 66}
        whole = cost("linear.triton", N=1024, **full).executed_flops
        assert whole == 2 * 4 * 66 * 1024 * (64 * 64 + 64 * 64 + 2 * 64 * 64)
        # the last chunk is computed whole
        assert cost("linear.triton", N=961, **full).executed_flops == whole
        # segments of two chunks, of which the last is not summed
        assert cost("linear.triton", N=1024, H=1).executed_flops == whole / 264 + 2 * 7 * 128 * 64 * 64
        assert cost("linear.triton", BOTH, N=1024, **full).executed_flops == 4 * whole


class TestQuantisedKeys:
    @given(N=st.integers(1, 100_000), L=st.integers(1, 2000))
    def test_causal_segments_are_blocks_and_the_last_two_have_no_table(self, N: int, L: int) -> None:
        parts = tuned["vq"].cut(N, L, causal=True, walks=1)
        assert parts.tokens == min(L, N)
        assert parts.tables == max(0, -(-N // parts.tokens) - 2)

    @given(N=st.integers(1, 100_000), walks=st.integers(1, 2000))
    def test_without_a_mask_segments_fill_the_gpu_but_no_more(self, N: int, walks: int) -> None:
        parts = tuned["vq"].cut(N, 1, causal=False, walks=walks)
        assert parts.tokens % 128 == 0
        assert (parts.tables - 1) * parts.tokens < N <= parts.tables * parts.tokens
        assert (parts.tables - 1) * walks < tuned["vq"].PROGRAMS

    def test_tiles_are_no_longer_than_what_there_is(self) -> None:
        few = plan.Plan.of(plan.Shape(B=1, H=1, kv_heads=1, N=20, D=64, M=64, S=5, L=16, causal=True), "half").blocks
        assert (few.sums.own, few.sums.other) == (16, 16)
        assert (few.attend.own, few.attend.other) == (16, 32)
        assert (few.codes.own, few.codes.other, few.keys.own) == (16, 16, 16)

    def test_the_executed_count_is_that_of_its_products(self) -> None:
        """8 blocks of 512, 6 with a table; own and earlier blocks in tiles of 64 keys by 128 queries, in the backward by 64.

        Codes are chosen by three products.
        """
        window, wide = (8 * 36 + 7 * 64) * 64 * 64, (8 * 40 + 7 * 64) * 64 * 64
        table, sums, assign = 6 * 512 * 512, 6 * 512 * 512, 3 * 4096 * 512
        expected = 2 * 8 * ((wide + table) * 128 + sums * 64 + assign * 64)
        assert cost("vq.triton", N=4096).executed_flops == expected
        backward = (window + table) * 192 + sums * 64 + table * 128 + window * 256
        assert cost("vq.triton", BOTH, N=4096).executed_flops == expected + 2 * 8 * backward
