"""The child's side: one errand, in its own process, always answered unless the process dies.

The answer is one JSON file, written beside its place and renamed, so that it is there whole or not at all.
"""

import faulthandler
import importlib
import json
import os
import re
import resource
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attnbench import registry
from attnbench.measure import allocator
from attnbench.schema.cell import Allocator, Workload
from attnbench.schema.errand import ERRAND, SETS_SHARE, Description, Inquiry, Job, Pass, Surroundings, Survey
from attnbench.schema.noun import Scalar, in_words
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.worker.portable import portable

Mark = Callable[[], object]
_LAST_FRAMES = 3
_OUT_OF_DEVICE_MEMORY = re.compile(
    r"CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|Triton Error \[CUDA\]: out of memory"
)
"""Of what asks the driver itself, and not torch's allocator: a library's workspace, a kernel's stack, a module's code."""


def serve(errand: Path, out: Path, marking: int) -> None:
    """Answer the errand in one file (JSON) into another; both absolute, since a plugin may change the folder.

    Where sampling begins and ends a byte is written to `marking`, so that the clock of another process sees it.
    """
    faulthandler.enable()
    answer = answer_to(ERRAND.validate_json(errand.read_bytes()), partial(os.write, marking, b"."))
    beside = out.with_name(out.name + ".partial")
    beside.write_bytes(encoded(answer))
    beside.replace(out)


def encoded(answer: Measured | Failed | Description | Surroundings) -> bytes:
    """The answer as JSON, in UTF-8 whatever a plugin put into it: letters that are none become question marks."""
    try:
        return _json(answer)
    except Exception as error:  # noqa: BLE001 - whatever keeps an answer from being written is a row
        return _json(Failed(status=Status.ERROR, reason=f"its answer cannot be written as JSON: {in_words(error)}"))


def _json(answer: Measured | Failed | Description | Surroundings) -> bytes:
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode(errors="replace")


def answer_to(errand: Job | Inquiry | Survey, mark: Mark = int) -> Measured | Failed | Description | Surroundings:
    """Do the errand; anything raised becomes a Failed with its status."""
    try:
        # here and not at the top: what it raises, in an interpreter that is not whole, is a row as well
        from attnbench.worker import preload  # noqa: F401 - imported for its effect

        registry.look_here()
        if isinstance(errand, Job):
            confine(errand)
        return _do(errand, mark)
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises, SystemExit included, is a row
        return failure(error, _method(errand))


def _method(errand: Job | Inquiry | Survey) -> str:
    return errand.cell.method if isinstance(errand, Job) else errand.method if isinstance(errand, Inquiry) else ""


def _do(errand: Job | Inquiry | Survey, mark: Mark) -> Measured | Failed | Description | Surroundings:
    from attnbench.workloads import check, describe, fidelity, fit, footprint, numerics, survey, timing, train

    if isinstance(errand, Inquiry):
        return describe.describe(errand)
    if isinstance(errand, Survey):
        return survey.survey(errand)
    passes: dict[Pass, Callable[[Job], Measured | Failed]] = {
        Pass.CHECK: check.check,
        Pass.FIT: fit.fit,
        Pass.TIME: partial(timing.measure_time, mark=mark),
        Pass.MEMORY: footprint.measure_memory,
        Pass.FIDELITY: fidelity.measure_fidelity,
        Pass.NUMERICS: numerics.measure_numerics,
        Pass.TRAIN: train.measure_training,
    }
    answer: Measured | Failed = passes[errand.phase](errand)
    return answer


def confine(job: Job) -> None:
    """Make this process the first to go when memory is short, and set the allocator policy that the job asks for."""
    # memory is always measured under the system's own policy: kept blocks are not the method's
    retain = job.phase is not Pass.MEMORY and job.cell.allocator is Allocator.RETAIN
    # where a batch is searched for nothing is reserved ahead, or it would fit by chance
    ahead = allocator.PAD if retain and job.phase is not Pass.FIT else 0
    if retain and not allocator.retain(ahead):
        raise OSError("this C library has no mallopt: use allocator: system")
    if job.cell.workload is Workload.TRAIN:
        # an optimiser imports it, address space and all, which is no need of the method
        importlib.import_module("torch._dynamo")
    if job.limits.memory_bytes is not None and job.cell.device_kind == "cpu":
        # what the heap reserves ahead, and inputs that are there only to be taken in turns, come on top
        sets = int(SETS_SHARE * job.limits.memory_bytes) if job.phase is Pass.TIME else 0
        resource.setrlimit(resource.RLIMIT_AS, (_virtual_bytes() + job.limits.memory_bytes + ahead + sets,) * 2)


def _virtual_bytes() -> int:
    """Address space in use: the limit counts it all, libraries included."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def failure(error: BaseException, method: str = "") -> Failed:
    """The status and the reason of an exception, with the line of the method that it came from; its last frames are kept."""
    text = in_words(error)
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-_LAST_FRAMES:])
    detail = "".join(frames) + "".join(traceback.format_exception_only(error))
    status, reason = _classify(error, text)
    if status is Status.ERROR:
        reason += _place(error, method)
    # nobody can measure what is no method: whoever asked is told, and may end
    facts: dict[str, Scalar | None] = {"unknown": True} if type(error).__name__ == "UnknownMethodError" else {}
    return Failed(status=status, reason=reason, detail=portable(detail)[-4000:], facts=facts)


def _place(error: BaseException, method: str) -> str:
    """` (my_attention.py:31, in forward)`: the innermost line of the method's own package; empty where it has no part in it."""
    try:
        own = registry.own_module(method)
    except (LookupError, OSError):
        return ""
    package, found = own if own.startswith("file ") else own.partition(".")[0], ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        if name == own or name.partition(".")[0] == package:
            file = Path(portable(frame.f_code.co_filename))
            found = f" ({file.name if file.is_absolute() else file}:{line}, in {frame.f_code.co_name})"
    return found


def _classify(error: BaseException, text: str) -> tuple[Status, str]:
    name = type(error).__name__
    first = portable(text.splitlines()[0])[:400]
    if name == "OutOfMemoryError" or (_OUT_OF_DEVICE_MEMORY.search(first) and not isinstance(error, MemoryError)):
        return Status.OOM_DEVICE, first
    # a thread could not be started: its stack did not fit
    if isinstance(error, RuntimeError) and first == "Resource temporarily unavailable":
        return Status.OOM_HOST, f"memory limit of this cell reached: {first}"
    if isinstance(error, MemoryError) or text.startswith("[enforce fail at alloc_cpu") or "DefaultCPUAllocator" in first:
        return Status.OOM_HOST, f"memory limit of this cell reached: {first}"
    if name == "MissingPackageError":
        return Status.MISSING, first
    if name == "UnknownMethodError":
        return Status.ERROR, first
    if name in {"UnsupportedError", "NoDeviceError"}:
        return Status.UNSUPPORTED, first
    if name == "OverBudgetError":
        return Status.BUDGET, first
    return Status.ERROR, f"{name}: {first}"


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
