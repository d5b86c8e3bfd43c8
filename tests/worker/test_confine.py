"""The limits of a child: how much address space it gets, beside what it has already; and what is told where a GPU's end."""

import resource
import subprocess
import sys

import pytest

from attnbench.measure import allocator
from attnbench.schema.cell import Allocator, Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import Status
from attnbench.schema.problem import Problem
from attnbench.worker import main

HELD, ALLOWED = 10_000, 500
SETS = 25
"""A twentieth more, for inputs that are taken in turns while a cell is timed."""


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What would have been set, below the limit that the answer may still use."""
    found: list[int] = []
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]

    def setrlimit(_: int, pair: tuple[int, int]) -> None:
        assert pair[1] == hard
        found.append(pair[0])

    monkeypatch.setattr(allocator, "retain", lambda ahead: True)
    monkeypatch.setattr(main, "_virtual_bytes", lambda: HELD)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    return found


def job(phase: Pass, policy: Allocator = Allocator.RETAIN, device: str = "cpu", memory: int | None = ALLOWED) -> Job:
    cell = Cell(method="m", problem=Problem(N=8), allocator=policy, device=device)
    return Job(cell=cell, phase=phase, limits=Limits(memory_bytes=memory))


@pytest.mark.parametrize("phase", list(Pass))
def test_a_cell_gets_what_it_is_allowed_beside_what_its_process_holds(phase: Pass, limits: list[int]) -> None:
    # but none of a GPU, nor without a limit
    main.confine(job(phase, device="cuda:0"))
    main.confine(job(phase, memory=None))
    main.confine(job(phase, Allocator.SYSTEM))
    # what a heap reserves ahead comes on top, but not where a batch is searched for or memory is counted
    main.confine(job(phase))
    base = HELD + ALLOWED + (SETS if phase is Pass.TIME else 0)
    assert limits == [base, base + (0 if phase in {Pass.MEMORY, Pass.FIT} else allocator.PAD)]


def test_a_fresh_interpreter_has_its_libraries_before_it_is_confined_and_imports_none_in_its_calls() -> None:
    """Or those of CUDA, gigabytes of address space, would use up what a method is allowed; and a call would take seconds."""
    cell = Cell(method="softmax.sdpa", problem=Problem(N=64, causal=True), workload=Workload.FORWARD_BACKWARD)
    told = (
        "import sys; from attnbench.worker import main; from attnbench.schema.errand import Job\n"
        "main.confine = lambda job: had.append({*sys.modules})\nhad = []\n"
        f"answer = main.answer_to(Job.model_validate_json({Job(cell=cell, phase=Pass.CHECK).model_dump_json()!r}))\n"
        "print(answer.kind, 'torch' in had[0], 'attnbench.workloads.timing' in had[0])\n"
        "print(sorted(name for name in {*sys.modules} - had[0] if not name.startswith('attnbench')))\n"
        "print(*(n for n in main.registry.catalogue() if main.registry.load(n) and 'torch._dynamo' in {*sys.modules} - had[0]))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "measured True True\n[]\n\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", Status.OOM_DEVICE),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Status.OOM_DEVICE),
        ("Triton Error [CUDA]: out of memory", Status.OOM_DEVICE),
        ("CUDA driver error: out of memory", Status.OOM_DEVICE),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", Status.OOM_DEVICE),
        ("CUDA_ERROR_OUT_OF_MEMORY: The API call failed because it was unable to allocate enough memory", Status.OOM_DEVICE),
        ("CUDA error: an illegal memory access was encountered", Status.ERROR),
    ],
)
def test_a_gpu_that_is_full_is_out_of_memory_whoever_asked_for_more(text: str, status: Status) -> None:
    assert main.failure(RuntimeError(text)).status is status
