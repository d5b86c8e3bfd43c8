"""Memory grows with the length, whatever the stride, and the costs say what torch allocates."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import saved_for_backward, torch_profiler_peak
from attnbench.registry import load

plans: Any = import_module("attnbench_impls.sparse.plan")

NAMES = ["strided", "fixed", "local", "atrous", "window", "longformer"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Scratch of the fused kernel grows with the threads; one thread's is in the formula."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def calls(method: Any) -> dict[Workload, Callable[[], object]]:
    p = method.problem
    inputs = [x.requires_grad_() for x in type(method).inputs(p, torch.Generator().manual_seed(1))]
    g = torch.randn(p.B, p.H, p.N, p.M).to(inputs[0].dtype)

    def forward() -> object:
        with torch.no_grad():
            return method(*inputs)

    return {
        Workload.FORWARD: forward,
        Workload.FORWARD_BACKWARD: lambda: torch.autograd.grad(method(*inputs), inputs, g),
    }


def peak(call: Callable[[], object]) -> int:
    got = torch_profiler_peak(call).bytes
    assert got is not None
    return got


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize(
    ("name", "shape", "params"),
    [
        *((name, {"N": 512, "causal": causal}, {}) for name in NAMES for causal in (False, True)),
        *((name, {"N": 2048, "M": 32, "causal": True}, {}) for name in NAMES),
        *((name, {"N": 1000, "B": 2, "M": 96}, {}) for name in NAMES),
        ("strided", {"N": 1000, "dtype": "bfloat16", "causal": True}, {}),
        ("longformer", {"N": 1000, "dtype": "float16", "causal": True}, {}),
        ("fixed", {"N": 512, "causal": True, "kv_heads": 2}, {}),
        ("window", {"N": 512, "kv_heads": 1}, {}),
        ("strided", {"N": 1024, "causal": True}, {"mode": "per_head"}),
        ("fixed", {"N": 1024, "causal": True}, {"mode": "by_layer", "layer": 1}),
        ("window", {"N": 1024, "H": 1, "D": 32, "dtype": "float64"}, {"window": 1000}),
    ],
    ids=str,
)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], params: dict[str, Any], workload: Workload
) -> None:
    method = build(f"sparse.{name}", Problem(**{"B": 1, "H": 4, "D": 64, **shape}), **params)
    call = calls(method)[workload]
    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert peak(call) == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_memory_grows_with_the_length_and_no_faster(name: str) -> None:
    cost = load(f"sparse.{name}").cost
    for causal in (False, True):
        for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD):
            peaks = [cost(Problem(B=1, H=8, N=N, D=64, causal=causal), {}, workload).peak_bytes for N in (2**11, 2**13, 2**16)]
            assert peaks[1] <= peaks[0] * 4**1.1
            assert peaks[2] <= peaks[1] * 8**1.1
            # beside q, k, v: a small multiple of them
            assert peaks[2] <= 2.5 * 3 * 8 * 2**16 * 64 * 4


@pytest.mark.parametrize("stride", [16, 64, 1024])
@pytest.mark.parametrize("name", ["strided", "fixed"])
def test_memory_does_not_depend_on_the_stride(name: str, stride: int) -> None:
    p = Problem(B=1, H=8, N=2**15, D=64, causal=True)
    most = load(f"sparse.{name}").cost(p, {"stride": stride}, Workload.FORWARD_BACKWARD).peak_bytes
    assert most <= 3 * 3 * 8 * 2**15 * 64 * 4


def test_scores_that_are_in_memory_are_bounded_too() -> None:
    for stride in (16, 256):
        shape = plans.Shape(2**15, 8, True)
        ways = plans.plan(import_module("attnbench_impls.sparse.factorised").Strided(stride), shape, False)
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


def test_what_is_executed_is_between_the_pattern_and_the_square() -> None:
    p = Problem(B=2, H=8, N=4096, D=64, causal=True)
    for name in NAMES:
        for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD):
            cost = load(f"sparse.{name}").cost(p, {}, workload)
            assert cost.exact_flops <= cost.executed_flops <= 2.7 * cost.exact_flops < cost.nominal_flops, name


def test_tiles_are_counted_as_they_are_computed() -> None:
    p = Problem(B=1, H=1, N=96, D=8, M=4, causal=True)
    # a head of 31 queries, causal, one block; then 65 queries: two tiles of 32 with 63 keys, and one of 1 with 32
    pairs = 31 * 31 + 2 * 32 * 63 + 32
    assert load("sparse.window").cost(p, {"window": 32}, Workload.FORWARD).executed_flops == 2 * pairs * 2 * 8
