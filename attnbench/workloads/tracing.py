"""The kernels that a call runs: in a few words beside every timing, or as a whole timeline."""

from pathlib import Path

import torch

from attnbench.measure.kernels import in_words, kernels_of, tuned_launches
from attnbench.schema.errand import TIMELINE, Job
from attnbench.schema.noun import Facts
from attnbench.schema.noun import in_words as error_in_words
from attnbench.schema.outcome import Measured
from attnbench.schema.units import seconds
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.prepare import Generation, prepare
from attnbench.workloads.setting import Setting


def kernels(setting: Setting) -> Facts:
    """Profile one more call, after all that is timed; nothing of whole sequences, whose calls are too many to look at."""
    if isinstance(setting, Sequence | Generation):
        return {}
    launches = {"launches": chosen} if (chosen := tuned_launches()) else {}
    try:
        found = kernels_of(setting.call, setting.cell.device)
        if not found:
            return {"kernels": "unknown: torch's profiler saw none", **launches}
        # beside the time between two events, that of the kernels alone tells how much of it the device was idle
        alone = {"kernel_seconds": sum(kernel.seconds for kernel in found)} if setting.cell.device_kind == "cuda" else {}
        return {"kernels": in_words(found), **alone, **launches}
    except (RuntimeError, MemoryError) as error:
        # what was timed is not lost with it
        return {"kernels": f"unknown: {error_in_words(error)}", **launches}


def trace(job: Job) -> Measured:
    """Profile one call and write its timeline into the job's folder; without one, only mark the call for a GPU's own profilers.

    Raises what the method raises.
    """
    setting = prepare(job)
    for _ in range(2):
        setting.trial()
    if job.folder is None:
        torch.cuda.synchronize(setting.cell.device)
        torch.cuda.profiler.start()
        setting.trial()
        torch.cuda.synchronize(setting.cell.device)
        torch.cuda.profiler.stop()
        return Measured()
    found = kernels_of(setting.trial, setting.cell.device, Path(job.folder) / TIMELINE)
    return Measured(facts={kernel.name: f"{kernel.calls} × in {seconds(kernel.seconds)}" for kernel in found})
