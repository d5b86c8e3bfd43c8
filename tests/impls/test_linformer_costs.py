"""The formulas of attention over projected keys agree with the algorithms, and predicted peaks with what torch allocates."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, draw, io_bytes, nominal_flops, padding_mask
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from tests.impls.conftest import few

FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
METHODS: list[tuple[str, dict[str, Any]]] = [
    *(("linformer.linformer", {"sharing": sharing}) for sharing in ("none", "headwise", "key_value")),
    ("linformer.mean", {}),
    ("linformer.convolution", {}),
]
SHAPES: list[dict[str, Any]] = [
    {"N": 1000, "B": 4},
    {"N": 2048, "B": 2, "padding": 0.5},
    {"N": 2048},
    {"N": 8192, "dtype": "bfloat16"},
    {"N": 2048, "M": 32},
    {"N": 2048, "M": 96},
    {"N": 2048, "kv_heads": 2},
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("shape", few(SHAPES, 2), ids=str)
@pytest.mark.parametrize(("name", "params"), METHODS, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
) -> None:
    params = {"k": 128, **params}
    method: Any = build(name, Problem(**{"H": 4, "D": 64, **shape}), **params)
    p, generator = method.problem, torch.Generator().manual_seed(0)
    inputs, mask = type(method).inputs(p, generator), padding_mask(p, "cpu")
    keywords = {} if mask is None else {"key_mask": mask}
    g = draw(p, p.H, p.M, generator, method.layout)

    def call() -> object:
        if workload is FORWARD:
            with torch.no_grad():
                return method(*inputs, **keywords)
        leaves = [x.requires_grad_() for x in inputs]
        return torch.autograd.grad(method(*inputs, **keywords), [*leaves, *method.parameters()], g)

    call()
    predicted = type(method).cost(p, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("shape", [{}, {"M": 16, "kv_heads": 2}, {"padding": 0.5}], ids=str)
@pytest.mark.parametrize(("name", "params"), METHODS, ids=str)
def test_all_count_nominally_alike_and_execute_what_is_needed(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload
) -> None:
    problem = Problem(**{"B": 2, "H": 4, "N": 512, "D": 8, **shape})
    cost = load(name).cost(problem, params, workload)
    assert cost.nominal_flops == nominal_flops(problem, workload)
    assert cost.executed_flops >= cost.exact_flops
    assert cost.traffic_bytes >= io_bytes(problem, workload)


def test_the_learned_form_is_half_projection_and_half_attention() -> None:
    p = Problem(B=2, H=4, N=1024, D=64)
    cost, mean = (load(f"linformer.{name}").cost(p, {"k": 32}, FORWARD) for name in ("linformer", "mean"))
    assert cost.executed_flops == cost.exact_flops == 4 * 2 * 4 * 1024 * 32 * 128
    assert mean.executed_flops == cost.executed_flops / 2


def test_work_grows_with_the_length_once_there_are_k_tokens() -> None:
    work = {N: load("linformer.linformer").cost(Problem(N=N), {}, FORWARD).executed_flops for N in (64, 128, 256, 512, 1024)}
    assert work[128] == 4 * work[64]
    assert work[1024] == 2 * work[512] == 4 * work[256]


def test_parameters_are_read_and_their_gradients_written() -> None:
    p, cost = Problem(B=1, H=8, N=65536), load("linformer.linformer").cost
    matrices = 2 * 256 * 65536 * 4
    assert cost(p, {}, FORWARD).traffic_bytes == io_bytes(p, FORWARD) + matrices
    assert cost(p, {}, BOTH).traffic_bytes == io_bytes(p, BOTH) + 3 * matrices
    unshared: dict[str, Any] = {"sharing": "none"}
    assert cost(p, unshared, FORWARD).traffic_bytes == io_bytes(p, FORWARD) + 8 * matrices
    assert cost(p, unshared, BOTH).peak_bytes - cost(p, {}, BOTH).peak_bytes == 7 * matrices
