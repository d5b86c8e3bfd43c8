"""The formulas of attention through landmarks agree with the algorithms, and the predicted peaks with what torch allocates."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, draw, io_bytes, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from tests.impls.conftest import few

FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("landmark.nystrom", {}),
    ("landmark.nystrom", {"landmarks": 128, "iterations": 3}),
    ("landmark.pyramid", {}),
    ("landmark.pyramid", {"bins": "8,200"}),
]
SHAPES: list[dict[str, Any]] = [
    {"N": 1000, "B": 4},
    {"N": 4096, "M": 32},
    {"N": 4096},
    {"N": 4096, "M": 96},
    {"N": 512, "B": 4, "H": 8},
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def within_a_tenth(name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload) -> None:
    method: Any = build(name, Problem(**{"H": 4, "D": 64, **shape}), **params)
    p, generator = method.problem, torch.Generator().manual_seed(0)
    inputs, g = type(method).inputs(p, generator), draw(p, p.H, p.M, generator, method.layout)

    def call() -> object:
        if workload is FORWARD:
            with torch.no_grad():
                return method(*inputs)
        leaves = [x.requires_grad_() for x in inputs]
        return torch.autograd.grad(method(*inputs), [*leaves, *method.parameters()], g)

    call()
    predicted = type(method).cost(p, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("shape", few(SHAPES, 2), ids=str)
@pytest.mark.parametrize(("name", "params"), METHODS, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
) -> None:
    within_a_tenth(name, params, shape, workload)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("H", [4, 8])
def test_the_peak_is_right_with_a_convolution(H: int, workload: Workload) -> None:
    within_a_tenth("landmark.nystrom", {"convolution_kernel": 33}, {"N": 2048, "H": H}, workload)


@pytest.mark.parametrize(
    ("name", "workload"), [("landmark.nystrom", BOTH), ("landmark.pyramid", FORWARD), ("landmark.pyramid", BOTH)]
)
def test_the_peak_is_right_in_bfloat16(name: str, workload: Workload) -> None:
    within_a_tenth(name, {}, {"N": 8192, "dtype": "bfloat16"}, workload)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
def test_the_peak_is_right_where_heads_share_anchors(workload: Workload) -> None:
    within_a_tenth("landmark.pyramid", {}, {"N": 4096, "kv_heads": 2}, workload)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("name", ["landmark.nystrom", "landmark.nystrom_attention", "landmark.pyramid"])
def test_all_count_nominally_alike_execute_what_is_needed_and_grow_with_the_length(name: str, workload: Workload) -> None:
    short, long = (Problem(B=2, H=4, N=N, D=32) for N in (4096, 16384))
    cost, more = (load(name).cost(p, {}, workload) for p in (short, long))
    assert cost.nominal_flops == nominal_flops(short, workload)
    assert cost.executed_flops >= cost.exact_flops
    assert cost.traffic_bytes == io_bytes(short, workload)
    assert more.executed_flops == pytest.approx(4 * cost.executed_flops, rel=0.15)
    assert more.peak_bytes == pytest.approx(4 * cost.peak_bytes, rel=0.15)


def test_the_work_of_landmarks_is_that_of_their_products() -> None:
    cost = load("landmark.nystrom").cost(Problem(B=1, H=1, N=1000, D=64, M=32), {"landmarks": 10, "iterations": 2}, FORWARD)
    long = 2 * 1000 * 10 * (64 + 64 + 32 + 32)
    small = 2 * 10 * 10 * (64 + 32) + 2 * 4 * 2 * 10**3
    assert cost.exact_flops == long + small


def test_the_package_multiplies_from_the_left_and_so_does_more() -> None:
    p = Problem(B=1, H=1, N=4096)
    ours, theirs = (load(f"landmark.{name}").cost(p, {}, FORWARD) for name in ("nystrom", "nystrom_attention"))
    assert theirs.exact_flops == ours.exact_flops
    assert theirs.executed_flops - ours.executed_flops == 2 * 64 * 64 * (4096 - 64)


def test_tiles_cost_a_small_part_of_the_attention_over_anchors() -> None:
    cost = load("landmark.pyramid").cost(Problem(B=1, H=8, N=8192), {}, FORWARD)
    assert cost.exact_flops == 2 * 8 * 8192 * 110 * 128
    assert cost.executed_flops < 1.2 * cost.exact_flops
