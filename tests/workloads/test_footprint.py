"""The memory pass: every counter is there, with its source, or a reason and never 0; the fit pass: whether a batch can run."""

import os
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from attnbench.measure import nvml as module
from attnbench.measure.clock import WallClock
from attnbench.measure.host_memory import Reading
from attnbench.measure.loop import OverBudgetError
from attnbench.measure.nvml import NvmlUnavailableError
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import FIT_SHARE, Job, Limits, Pass
from attnbench.schema.outcome import STATE_SOURCE, Counter, Measured, Status
from attnbench.schema.problem import Problem
from attnbench.worker.main import failure
from attnbench.workloads.footprint import fit, measure_memory, on_cuda, sizes
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Setting
from tests.workloads.conftest import WITHOUT_MODEL

SMALL = Problem(B=2, H=2, N=64, D=8, M=16, causal=True)
ON_A_CPU = {"host_rss_peak", "torch_profiler_peak"}
ON_A_GPU = {"torch_allocated_peak", "torch_requested_peak", "torch_reserved_peak"}
BY_NVML = {"nvml_process_peak", "nvml_process_base", "nvml_device_delta"}
ALL = {"input_bytes", "parameter_bytes", "output_bytes", "saved_for_backward"} | ON_A_CPU | ON_A_GPU | BY_NVML


def measured(
    name: str, workload: Workload = Workload.FORWARD_BACKWARD, problem: Problem = SMALL, device: str = "cpu"
) -> Measured:
    cell = Cell(method=f"gate_cases:{name}", problem=problem, workload=workload, device=device)
    return measure_memory(Job(cell=cell, phase=Pass.MEMORY))


@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_every_counter_is_there_and_a_missing_number_has_a_reason(workload: Workload) -> None:
    memory = measured("Right", workload).memory
    assert set(memory) == (ALL | {"state_bytes"} if workload.makes_state else ALL)
    missing = {name: counter.reason for name, counter in memory.items() if counter.bytes is None}
    no_backward = {} if workload.learns else {"saved_for_backward": f"{workload.value} keeps nothing for a backward"}
    assert missing == dict.fromkeys(ON_A_GPU | BY_NVML, "this cell ran on a CPU") | no_backward
    assert all(counter.source for counter in memory.values())


def test_sizes_follow_from_the_shapes_and_a_tensor_given_twice_is_counted_once() -> None:
    q = o = 4 * 2 * 2 * 64 * 8
    memory = measured("Projects").memory
    assert memory["input_bytes"].bytes == q + q + 2 * q
    assert memory["output_bytes"].bytes == 2 * o
    assert memory["parameter_bytes"].bytes == 4 * 16
    assert measured("SharedQK", problem=SMALL.model_copy(update={"M": 8})).memory["input_bytes"].bytes == 2 * q


@pytest.mark.parametrize("workload", [Workload.DECODE, Workload.DECODE_TOTAL])
def test_in_decoding_one_token_goes_in_and_out_and_the_state_is_what_the_method_counts(workload: Workload) -> None:
    memory = measured("Right", workload).memory
    token = 4 * 2 * 2 * 8
    assert memory["input_bytes"].bytes == token + token + 2 * token
    assert memory["output_bytes"].bytes == 2 * token
    assert memory["state_bytes"].bytes == 4 * 2 * 2 * 64 * (8 + 16)
    assert memory["state_bytes"].source == STATE_SOURCE


def test_a_step_s_own_memory_is_counted_without_the_state() -> None:
    # the keys, spread over the heads, and a row of scores; the cache itself lives before the call
    problem = Problem(H=1, N=2**12, D=8, causal=True)
    peak = measured("Right", Workload.DECODE, problem).memory["torch_profiler_peak"].bytes
    assert peak == pytest.approx(4 * 2**12 * (8 + 1), rel=0.01)


def test_peak_and_what_is_kept_for_the_backward_are_those_of_the_known_graph() -> None:
    problem, square = Problem(H=1, N=512, D=8), 4 * 512 * 512
    peak = measured("Right", Workload.FORWARD, problem).memory["torch_profiler_peak"].bytes
    # the products and, beside them, the same divided by sqrt(D); small tensors of N x D hardly count
    assert peak == pytest.approx(2 * square, rel=0.05)
    # of all that is N x N only the weights are kept, once for the softmax and the product together
    assert measured("Right", problem=problem).memory["saved_for_backward"].bytes == pytest.approx(square, rel=0.05)


def test_a_sampled_peak_is_flagged_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Reading(5, "sampled", "no reset here", flag="sampled")
    monkeypatch.setattr("attnbench.measure.host_memory.host_rss_peak", lambda call: refused)
    found = measured("Right")
    assert found.flags == ("sampled",)
    assert found.memory["host_rss_peak"] == Counter(bytes=5, source="sampled", reason="no reset here")


def test_one_whole_call_runs_before_anything_is_counted(monkeypatch: pytest.MonkeyPatch, noted: list[object]) -> None:
    def peak(call: object) -> Reading:
        noted.append("peak")
        return Reading(1, "stub")

    monkeypatch.setattr("attnbench.measure.host_memory.host_rss_peak", peak)
    measured("Watches")
    assert noted[:2] == [True, "peak"]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Setting:
    """A setting that says it is on a GPU, whose allocator always holds 700 bytes more at its peak."""
    counters = {
        **{"synchronize": None, "reset_peak_memory_stats": None, "memory_allocated": 1000},
        "memory_stats": {
            "allocated_bytes.all.current": 1000,
            "allocated_bytes.all.peak": 1700,
            "requested_bytes.all.current": 1000,
            "requested_bytes.all.peak": 1650,
            "reserved_bytes.all.peak": 4096,
            "num_alloc_retries": 0,
        },
    }
    for name, value in counters.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    cell = Cell(method="gate_cases:Right", problem=SMALL, workload=Workload.FORWARD_BACKWARD)
    made = prepare(Job(cell=cell))
    made.cell = cell.model_copy(update={"device": "cuda:0"})
    return made


def test_counters_on_a_gpu_are_all_there(on_gpu: Setting, nvml: Any) -> None:
    nvml.processes = [(os.getpid(), 500)]
    readings = sizes(on_gpu) | on_cuda(on_gpu)
    assert set(readings) == ALL
    peaks = [readings[f"{name}_peak"].bytes for name in ("torch_allocated", "torch_reserved", "nvml_process")]
    assert peaks == [700, 4096, 500]
    assert {readings[name].reason for name in ON_A_CPU} == {"this cell ran on a GPU"}
    assert not any(reading.flag for reading in readings.values())


def test_nvml_looks_when_torch_has_given_back_what_it_keeps(
    on_gpu: Setting, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of the calls before would take in all that this one needs, and nothing would grow."""
    order: list[str] = []
    opened = module.sampled

    def looks(*device: object) -> object:
        order.append("looks")
        return opened(*device)

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: order.append("given back"))
    monkeypatch.setattr(module, "sampled", looks)
    on_cuda(on_gpu)
    assert order[-2:] == ["given back", "looks"]


def test_what_nvml_does_not_tell_is_empty_with_the_reason(on_gpu: Setting, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def reasons() -> dict[str, str | None]:
        readings = on_cuda(on_gpu)
        assert readings["torch_allocated_peak"].bytes == 700
        return {name: readings[name].reason for name in BY_NVML if readings[name].bytes is None}

    # a container hides processes; of the whole device there is a flagged delta
    assert on_cuda(on_gpu)["nvml_device_delta"].flag == "device_delta"
    assert "container" in (reasons().pop("nvml_process_peak") or "")
    nvml.nvmlDeviceGetMemoryInfo = nvml.refuses
    assert reasons() == dict.fromkeys(BY_NVML, "NVML: GPU is lost")
    nvml.uuid = "GPU-5678"
    assert reasons() == dict.fromkeys(BY_NVML, "NVML does not know the device that torch uses: Not Found")
    absent = Mock(side_effect=NvmlUnavailableError("nvidia-ml-py is not installed"))
    monkeypatch.setattr("attnbench.measure.nvml.library", absent)
    assert reasons() == dict.fromkeys(BY_NVML, "nvidia-ml-py is not installed")


@pytest.mark.cuda
@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_a_cell_on_a_real_gpu_has_every_counter(workload: Workload) -> None:
    memory = measured("Right", workload, Problem(H=8, N=2048, D=64, causal=True), "cuda:0").memory
    assert set(memory) == (ALL | {"state_bytes"} if workload.makes_state else ALL)
    assert all(counter.reason for counter in memory.values() if counter.bytes is None)
    if workload.decodes:
        assert 0 < (memory["torch_allocated_peak"].bytes or 0) < 16 * 8 * 2048 * 64
        return
    square = 4 * 8 * 2048 * 2048
    assert 2 * square <= (memory["torch_allocated_peak"].bytes or 0) <= 6 * square


def fit_job(name: str = "Right", workload: Workload = Workload.DECODE, first_call: float | None = 60.0) -> Job:
    cell = Cell(method=f"gate_cases:{name}", problem=Problem(H=2, N=32, D=8, causal=True), workload=workload)
    return Job(cell=cell, phase=Pass.FIT, B=3, limits=Limits(first_call=first_call))


@pytest.mark.parametrize("workload", WITHOUT_MODEL)
def test_a_batch_that_fits_is_a_row_with_its_size_and_the_time_of_a_call(workload: Workload) -> None:
    outcome = fit(fit_job(workload=workload))
    assert outcome.facts["B"] == 3
    assert 0 < float(outcome.facts["seconds"] or 0) < 60
    assert not outcome.samples
    assert not outcome.memory


def test_a_call_that_takes_too_long_or_raises_does_not_fit_and_without_a_limit_any_time_does(noted: list[bool]) -> None:
    with pytest.raises(OverBudgetError, match="one call took") as error:
        fit(fit_job(first_call=1e-9))
    assert failure(error.value).status is Status.BUDGET
    assert fit(fit_job("Watches", Workload.FORWARD, first_call=None)).facts["B"] == 3
    assert noted == [False, False], "the first call is never the one on the clock"
    with pytest.raises(RuntimeError, match="no kernel for this"):
        fit(fit_job("Stumbles", Workload.FORWARD))


def test_on_a_gpu_the_allocator_gets_its_share_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[object] = []

    def prepared(job: Job) -> Setting:
        log.append("built")
        return prepare(job.model_copy(update={"cell": job.cell.model_copy(update={"device": "cpu"})}))

    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: log.append(given))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 400))
    monkeypatch.setattr("attnbench.workloads.footprint.prepare", prepared)
    monkeypatch.setattr("attnbench.measure.devices.clock", lambda device, mode: WallClock())
    asked = fit_job()
    fit(asked.model_copy(update={"cell": asked.cell.model_copy(update={"device": "cuda:0"})}))
    assert log == [(FIT_SHARE / 4, "cuda:0"), "built"], "of what is free, as a share of all there is"
