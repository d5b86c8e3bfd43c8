"""Linear attention: cuts into segments and groups, averages, sums that are carried on, and what half precision keeps."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.workloads.decoding import cut
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant
from tests.impls.test_linear_maps import MAPS, PAIRS, linear

# by name: installed under another name than that of its folder
prefix: Any = import_module("attnbench_impls.linear.eager.prefix")
segments: Any = import_module("attnbench_impls.linear.eager.segments")
causal_product: Any = import_module("attnbench_impls.linear.eager.causal_product")


@given(N=st.integers(1, 500), B=st.integers(1, 40), R=st.integers(1, 9), C=st.integers(1, 3000), chunk=st.integers(1, 600))
def test_segments_cover_each_token_once_in_whole_chunks(N: int, B: int, R: int, C: int, chunk: int) -> None:
    x = torch.empty(B, N, R, 7, device="meta")
    for part in (segments.segments(x, C, chunk), segments.whole_segments(x[:, :, 0], C)):
        assert [t for s in part for t in range(s.start, s.stop)] == list(range(N))
        assert all((s.stop - s.start) % s.chunk == 0 for s in part)


@given(B=st.integers(1, 100), R=st.integers(1, 20))
def test_groups_cover_each_head_once(B: int, R: int) -> None:
    for x in (torch.empty(B, 3, 1), torch.empty(B, 3, R, 1)):
        assert [b for heads in segments.groups(x) for b in range(B)[heads]] == list(range(B))


def test_walking_and_scanning_the_states_agree() -> None:
    added, state = torch.randn(2, 5, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    walked, scanned = state.clone(), state.clone()
    torch.testing.assert_close(prefix._walk(added, walked, range(5)), prefix._scan(added, scanned))
    torch.testing.assert_close(walked, scanned)


@pytest.mark.parametrize("name", ["linear.full", "linear.chunked", "linear.recurrent"])
def test_eps_is_added_to_the_denominator(name: str) -> None:
    method = build(name, Problem(B=1, H=1, N=1, D=4, causal=name != "linear.full", dtype="float64"), eps=4.0)
    zero, one = torch.zeros(1, 1, 1, 4, dtype=torch.float64), torch.ones(1, 1, 1, 4, dtype=torch.float64)
    # φ(0)·φ(0) = D = 4, so o = 4 / (4 + 4)
    torch.testing.assert_close(method(zero, zero, one), one / 2)


@settings(max_examples=40, deadline=None)
@given(feature_map=st.sampled_from(MAPS), cuts=st.tuples(st.integers(0, 150), st.integers(0, 150)), N=st.integers(1, 150))
def test_a_sequence_in_parts_that_carry_the_state_on_is_the_whole(feature_map: str, cuts: tuple[int, int], N: int) -> None:
    call = linear("linear.recurrent" if feature_map == "efficient" else "linear.chunked", feature_map, N=N, M=4)
    method, inputs = call.method, call.inputs
    a, b = sorted(min(c, N) for c in cuts)
    with torch.no_grad():
        first, state = method.prefill(*cut(inputs, a), capacity=N)
        second, state = method.extend(*cut(inputs, b, start=a), state=state)
        third, state = method.extend(*cut(inputs, N, start=b), state=state)
        _, whole = method.prefill(*inputs, capacity=N)
    torch.testing.assert_close(torch.cat([first, second, third], dim=2), call.forward(), rtol=0, atol=1e-10)
    torch.testing.assert_close(state.sums, whole.sums, rtol=0, atol=1e-10)


def test_a_long_sequence_of_small_steps_does_not_drift() -> None:
    call = Call(Variant("linear.recurrent"), Problem(B=1, H=1, N=2000, D=6, causal=True))
    torch.testing.assert_close(call.decoded(0).double(), call.exact()[0], rtol=0, atol=1e-5)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("name", "feature_map"), [pair for pair in PAIRS if pair[0] != "linear.naive_cumsum"])
def test_training_takes_at_most_eight_times_the_inputs(name: str, feature_map: str) -> None:
    # token by token takes its time
    N = 1024 if name == "linear.recurrent" else 4096
    call = Call(Variant(name, {"feature_map": feature_map}), Problem(B=1, H=1, N=N, D=32, causal=name != "linear.full"))
    call.results()
    peak = torch_profiler_peak(call.results).bytes
    assert peak is not None
    assert peak <= 8 * (3 * N * 32 * 4)


@pytest.mark.parametrize(("count", "every"), [(1, 1), (2, 2), (100, 10), (101, 11)])
def test_states_that_outgrow_the_output_are_kept_every_so_often(count: int, every: int) -> None:
    assert causal_product.spacing(count, state=10, output=count * 10) == 1
    assert causal_product.spacing(count, state=10, output=count * 10 - 1) == every


@pytest.mark.parametrize("name", ["linear.full", "linear.chunked"])
def test_float16_survives_denominators_that_it_cannot_hold(name: str) -> None:
    call = Call(Variant(name), Problem(B=1, H=1, N=4096, D=64, causal=name != "linear.full", dtype="float16"))
    call.g = None
    o, r = (x[..., -1, :].double() for x in (call.forward(), call.exact()[0]))
    assert float((o - r).abs().max()) < 1e-3 < float(r.abs().max())


def test_bfloat16_keeps_its_state_in_float32() -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    method = build("linear.chunked", Problem(B=1, H=1, N=4096, D=8, causal=True, dtype="bfloat16"), chunk=4)
    k = torch.zeros(1, 1, 4096, 8, dtype=torch.bfloat16)
    v = torch.cat([torch.zeros(1, 1, 2048, 8), torch.ones(1, 1, 2048, 8)], dim=2).bfloat16()
    torch.testing.assert_close(method(k, k, v)[0, 0, -1].float(), torch.full((8,), 0.5), rtol=0.02, atol=0)


def test_based_is_the_chunked_form_with_that_map() -> None:
    problem = Problem(B=1, H=2, N=100, D=16, causal=True)
    based, chunked = (
        Call(Variant(name, {"chunk": 32, **params}), problem)
        for name, params in (("linear.based", {}), ("linear.chunked", {"feature_map": "taylor"}))
    )
    assert all(torch.equal(a, b) for a, b in zip(based.results(), chunked.results(), strict=True))
    assert based.variant.kind.paper == "arXiv:2402.18668"
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL):
        costs = [call.variant.kind.cost(problem, call.variant.params, workload) for call in (based, chunked)]
        assert costs[0] == costs[1]
