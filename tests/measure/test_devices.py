"""The branch on the device: which clock, how much memory, which facts; and its roof."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench.measure import devices, roof
from attnbench.measure.clock import ColdClock, ColdGraphClock, GraphClock, WallClock

GIB = 2**30


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A torch that says it has a GPU; gives the log of what was synchronised."""
    log: list[str] = []
    properties = SimpleNamespace(name="Test GPU", uuid="1234", total_memory=80 * GIB, major=9, minor=0)
    properties.L2_cache_size, properties.multi_processor_count = 50 * 2**20, 132
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", log.append)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: log.append(f"on {device}"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91900)
    return log


@pytest.mark.parametrize(("there", "auto"), [(True, "cuda:0"), (False, "cpu")])
def test_auto_is_the_first_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch, there: bool, auto: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert [devices.resolve(asked) for asked in ("auto", "cuda", "cuda:1", "cpu")] == [auto, "cuda:0", "cuda:1", "cpu"]


@pytest.mark.parametrize(
    ("built", "count", "words"),
    [
        (False, 0, "torch .* is built without CUDA; install a CUDA build of it, or use cpu"),
        (True, 0, "torch .* finds no GPU; use cpu"),
        (True, 2, "torch .* finds only cuda:0, cuda:1"),
    ],
)
def test_a_missing_gpu_is_told_with_those_here(monkeypatch: pytest.MonkeyPatch, built: bool, count: int, words: str) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(devices.NoDeviceError, match=f"^{words}$"):
        devices.require("cuda:7")
    devices.require("cpu")
    if count:
        devices.require("cuda:1")


def test_a_cpu_has_a_wall_clock_and_refuses_those_of_a_gpu_in_words() -> None:
    assert all(isinstance(devices.clock("cpu", mode), WallClock) for mode in ("default", "wall"))
    for mode in ("cold", "graph", "graph_cold"):
        with pytest.raises(ValueError, match=f"a CPU has no '{mode}' clock; use wall"):
            devices.clock("cpu", mode)


@pytest.mark.parametrize(
    ("mode", "kind"), [("default", ColdClock), ("cold", ColdClock), ("graph", GraphClock), ("graph_cold", ColdGraphClock)]
)
def test_each_mode_of_a_gpu_has_its_clock(gpu: list[str], monkeypatch: pytest.MonkeyPatch, mode: str, kind: type[Any]) -> None:
    monkeypatch.setattr(kind, "__init__", lambda self, device: None)
    assert type(devices.clock("cuda:0", mode)) is kind
    assert gpu == ["on cuda:0"], "events are those of the current device"


def test_the_wall_clock_of_a_gpu_waits_for_it(gpu: list[str]) -> None:
    devices.clock("cuda:1", "wall").sample(lambda: None, 1)
    assert gpu == ["on cuda:1", "cuda:1", "cuda:1"]


@pytest.mark.parametrize(
    ("limit", "current", "free"),
    [
        (None, None, 8 * GIB),
        ("max", GIB, 8 * GIB),
        (4 * GIB, GIB, 3 * GIB),
        (64 * GIB, GIB, 8 * GIB),
        (4 * GIB, 5 * GIB, 0),
        (4 * GIB, None, 8 * GIB),
    ],
    ids=["no container", "no limit", "limit", "limit above the machine", "over the limit", "usage untold"],
)
def test_free_memory_is_what_the_machine_and_the_container_leave(
    kernel: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, limit: object, current: object, free: int
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    kernel("/proc/self/cgroup", "0::/box\n")
    for name, value in (("memory.max", limit), ("memory.current", current)):
        if value is not None:
            kernel(f"/sys/fs/cgroup/box/{name}", f"{value}\n")
    assert devices.free_bytes("cpu") == free


@pytest.mark.parametrize(("step", "job", "free"), [((6, 2), (7, 2), 3), ((6, 2), (7, 0), 2), (("max", 4), (5, 0), 0)])
def test_files_that_can_be_dropped_count_as_free_and_the_closest_limit_around_this_container_holds(
    kernel: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, step: Sequence[Any], job: Sequence[Any], free: int
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    kernel("/proc/self/cgroup", "0::/job/step/task\n")
    for group, (limit, cached) in {"job/step/task": ("max", 0), "job/step": step, "job": job}.items():
        kernel(f"/sys/fs/cgroup/{group}/memory.max", f"{limit if limit == 'max' else limit * GIB}\n")
        kernel(f"/sys/fs/cgroup/{group}/memory.current", f"{5 * GIB}\n")
        kernel(f"/sys/fs/cgroup/{group}/memory.stat", f"anon 1\ninactive_file {cached * GIB}\n")
    assert devices.free_bytes("cpu") == free * GIB


def test_facts_of_a_cpu_tell_how_torch_will_use_it() -> None:
    found = devices.facts("cpu")
    assert (found["torch"], found["threads"]) == (torch.__version__, torch.get_num_threads())
    assert "gpu" not in found


def test_facts_of_a_gpu_name_it_by_uuid_with_its_settings(gpu: list[str], monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    monkeypatch.setattr(devices, "ptxas", lambda arch: arch)
    found = devices.facts("cuda:0")
    assert "NVML" in str(found["nvml"])
    assert (found["ptxas"], found["allocator_settings"]) == (90, "backend:cudaMallocAsync")
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    # torch looks at this one first
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    found = devices.facts("cuda:0")
    assert (found["gpu"], found["gpu_uuid"], found["compute_capability"]) == ("Test GPU", "1234", "9.0")
    assert (found["gpu_memory_bytes"], found["multiprocessors"]) == (80 * GIB, 132)
    assert (found["driver"], found["power_limit_w"], found["ecc"]) == ("580.65", 700.0, True)
    assert found["allocator_settings"] == "expandable_segments:True"
    assert devices.free_bytes("cuda:0") == 7 * GIB
    nvml.nvmlDeviceGetEccMode = nvml.nvmlDeviceGetEnforcedPowerLimit = nvml.refuses
    found = devices.facts("cuda:0")
    assert found["ecc"] is found["power_limit_w"] is None


def test_the_assembler_that_triton_takes_for_a_gpu_tells_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "100"
    other.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.2, V13.2.51'\n")
    other.chmod(0o755)
    triton = SimpleNamespace(get_ptxas=lambda arch: SimpleNamespace(path=tmp_path / str(arch)))
    for compiler, found in ((triton, [None, "V13.2.51"]), (None, [None, None])):
        monkeypatch.setitem(sys.modules, "triton.backends.nvidia.compiler", compiler)
        assert [devices.ptxas(arch) for arch in (90, 100)] == found


@pytest.mark.cuda
def test_facts_of_a_real_gpu_are_plain_data() -> None:
    found = devices.facts("cuda:0")
    assert all(isinstance(value, bool | int | float | str | None) for value in found.values())
    assert 0 < devices.free_bytes("cuda:0") <= int(found["gpu_memory_bytes"] or 0)


@pytest.mark.parametrize(
    ("durations", "best", "calls"), [([0.001, 0.09, 0.05, 0.06, 0.07, 0.08, 0.01], 0.05, 6), ([3.0] * 9, 3.0, 2)]
)
def test_the_best_of_five_counts_after_a_warm_up_and_of_slow_products_fewer(
    monkeypatch: pytest.MonkeyPatch, durations: list[float], best: float, calls: int
) -> None:
    taken: list[float] = []
    monkeypatch.setattr(roof, "perf_counter", lambda: sum(taken))
    monkeypatch.setattr("attnbench.measure.clock.perf_counter_ns", lambda: int(sum(taken) * 1e9))
    assert roof._best(WallClock(), lambda: taken.append(durations[len(taken)])) == pytest.approx(best)
    assert len(taken) == calls


def test_a_processor_without_fast_products_of_a_dtype_gets_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, n in ((0.001, 2048), (0.02, 512)):
        monkeypatch.setattr(roof, "_best", lambda clock, call, seconds=seconds: seconds)
        assert roof._affordable(torch.float32) == n


def test_the_roof_counts_two_flops_a_multiply_add_and_both_sides_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 1024)
    monkeypatch.setattr(WallClock, "sample", lambda *_: 0.5)
    work = (2 * 1024**3, 2 * 2**28, 2 * 4 * 2**14 * torch.get_num_threads())
    assert roof.measure("cpu", "float32") == tuple(each / 0.5 for each in work)


@pytest.mark.parametrize(
    ("ceiling", "precision"), [("float32", "highest"), ("float32, matmul high", "high"), ("bfloat16", "highest")]
)
def test_a_roof_is_of_the_precision_that_it_stands_over(monkeypatch: pytest.MonkeyPatch, ceiling: str, precision: str) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 64)
    monkeypatch.setattr(roof, "_REPEATS", 1)
    assert min(roof.measure("cpu", ceiling)) > 0
    # and puts back what it found
    assert asked == [precision, torch.get_float32_matmul_precision()]


@pytest.mark.cuda
def test_the_roof_of_a_gpu_is_above_that_of_any_cpu() -> None:
    flops_per_second, bytes_per_second, cached = roof.measure("cuda:0", "bfloat16")
    assert flops_per_second > 1e12
    assert cached > bytes_per_second > 1e10


def test_short_products_count_where_long_ones_had_no_moment_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 1024)
    # a long product was held up for ten seconds, a short one was not
    monkeypatch.setattr(roof, "_best", lambda clock, call, repeats=5: 10.0 if repeats == 5 else 0.001)
    assert roof.measure("cpu", "float32")[0] == 2 * 512**3 / 0.001
