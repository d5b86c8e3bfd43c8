"""The child's side of an errand: it answers always, unless its process dies.

The answer is one JSON file, which is written under another name and then renamed, so that it is there as a whole or not at all.
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
from attnbench.schema.cell import Allocator
from attnbench.schema.errand import ERRAND, SETS_SHARE, Answer, Errand, Inquiry, Job, Pass
from attnbench.schema.noun import Facts, in_words
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.worker.portable import portable

_LAST_FRAMES = 3
_OUT_OF_DEVICE_MEMORY = re.compile(
    r"CUDA (driver )?error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|Triton Error \[CUDA\]: out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
)
"""Messages of memory that was not asked of torch's allocator: a library's workspace, a kernel's stack, a module's code."""
_OWN = {
    "MissingPackageError": Status.MISSING,
    "NoDeviceError": Status.UNSUPPORTED,
    "OverBudgetError": Status.BUDGET,
    "UnknownMethodError": Status.ERROR,
    "UnsupportedError": Status.UNSUPPORTED,
}
"""What this project's own errors stand for; their messages say all."""


def serve(errand: Path, out: Path, marking: int) -> None:
    """Read an errand from one JSON file and answer it in another; both paths are absolute, since a plugin may change folders.

    Where sampling begins and ends, a byte is written to `marking`, so that another process can measure it by its clock.
    """
    faulthandler.enable()
    answer = answer_to(ERRAND.validate_json(errand.read_bytes()), partial(os.write, marking, b"."))
    beside = out.with_name(out.name + ".partial")
    beside.write_bytes(encoded(answer))
    beside.replace(out)


def encoded(answer: Answer) -> bytes:
    """Return the answer as JSON, in UTF-8 whatever a plugin put into it: invalid characters become question marks."""
    try:
        return _json(answer)
    except Exception as error:  # noqa: BLE001 - whatever keeps an answer from being written is a row
        return _json(Failed(status=Status.ERROR, reason=f"its answer cannot be written as JSON: {in_words(error)}"))


def _json(answer: Answer) -> bytes:
    # what is no number in JSON cannot be recorded; other answers are only looked at
    recorded = isinstance(answer, Measured | Failed)
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False, allow_nan=not recorded).encode(errors="replace")


def answer_to(errand: Errand, mark: Callable[[], object] = int) -> Answer:
    """Do the errand; anything that is raised becomes a Failed with its status."""
    try:
        # here and not at the top, so that what the imports raise in a broken installation is answered too
        from attnbench.worker import passes

        registry.look_here()
        if isinstance(errand, Job):
            confine(errand)
        return passes.do(errand, mark)
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises, SystemExit included, is a row
        # a method that has used up its limit still holds all of it: the answer needs some room of its own
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        method = errand.cell.method if isinstance(errand, Job) else errand.method if isinstance(errand, Inquiry) else ""
        return failure(error, method)


def confine(job: Job) -> None:
    """Set the allocator's policy that the job asks for, and limit the memory of this process."""
    # memory is always measured under the system's own policy: blocks that an allocator keeps are not the method's
    retain = job.phase is not Pass.MEMORY and job.cell.allocator is Allocator.RETAIN
    # in the search for a batch nothing is reserved ahead, or the batch could fit by chance
    ahead = allocator.PAD if retain and job.phase is not Pass.FIT else 0
    if retain and not allocator.retain(ahead):
        raise OSError("this C library has no mallopt: use allocator: system")
    # imported here, the address space of what else is needed does not count as the method's
    if job.cell.workload.learns and job.cell.workload.has_model:
        importlib.import_module("torch._dynamo")
    if job.cell.workload.has_whole_model:
        importlib.import_module("attnbench.hf")
    if job.limits.memory_bytes is not None and job.cell.device_kind == "cpu":
        # the limit counts all address space: what is in use already, libraries included; what the heap reserves ahead; and
        # the input sets that exist only to be taken in turns
        sets = int(SETS_SHARE * job.limits.memory_bytes) if job.phase is Pass.TIME else 0
        limit, (_, most) = _virtual_bytes() + job.limits.memory_bytes + ahead + sets, resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _virtual_bytes() -> int:
    """Return the address space in use."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def failure(error: BaseException, method: str = "") -> Failed:
    """Return the status and the reason of an exception, with the line of the method that raised it, and the last frames."""
    text = in_words(error)
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-_LAST_FRAMES:])
    detail = "".join(frames) + "".join(traceback.format_exception_only(error))
    status, reason = _classify(error, text)
    if status is Status.ERROR:
        reason += _place(error, method)
    # tells the command that there is no such method, so that it can end with an error of its own
    facts: Facts = {"unknown": True} if type(error).__name__ == "UnknownMethodError" else {}
    return Failed(status=status, reason=reason, detail=portable(detail)[-4000:], facts=facts)


def _place(error: BaseException, method: str) -> str:
    """Return ` (my_attention.py:31, in forward)`, the innermost line of the method's own package; empty if there is none."""
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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # a line that ends with a colon only announces what happened, as torch's compiler does
    told = next((number for number, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    first = portable(" ".join(lines[: told + 1]))[:400]
    if name == "OutOfMemoryError" or (_OUT_OF_DEVICE_MEMORY.search(first) and not isinstance(error, MemoryError)):
        return Status.OOM_DEVICE, first
    # a thread could not be started, because there was no room for its stack
    if isinstance(error, RuntimeError) and first == "Resource temporarily unavailable":
        return Status.OOM_HOST, f"memory limit of this cell reached: {first}"
    # torch cuts its message off where there is no room for it
    full = "[enforce fail at alloc_cpu", "std::bad_alloc"
    if isinstance(error, MemoryError) or text.startswith(full) or first == "[enforce fail a" or "DefaultCPUAllocator" in first:
        return Status.OOM_HOST, f"memory limit of this cell reached: {first}"
    return (_OWN[name], first) if name in _OWN else (Status.ERROR, f"{name}: {first}")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
