"""The fit pass: whether a batch can be run at all, in memory and in the time that one call may take."""

import torch

from attnbench.measure import devices
from attnbench.measure.loop import OverBudgetError
from attnbench.schema.errand import FIT_SHARE, Job
from attnbench.schema.outcome import Measured
from attnbench.workloads.generate import Generation
from attnbench.workloads.prepare import prepare


def fit(job: Job) -> Measured:
    """Two calls, the second on the clock; a third where that was too slow. Of many steps, the costliest.

    Raises OverBudgetError, and what the method raises.
    """
    if job.cell.device_kind == "cuda":
        free, total = torch.cuda.mem_get_info(job.cell.device)
        torch.cuda.set_per_process_memory_fraction(FIT_SHARE * free / total, job.cell.device)
    setting = prepare(job)
    clock = devices.clock(job.cell.device, "wall")
    call, calls = (setting.trial, setting.trials) if isinstance(setting, Generation) else (setting.call, 1)
    clock.sample(call, 1)
    seconds = calls * clock.sample(call, 1)
    if job.limits.first_call is not None and seconds > job.limits.first_call:
        # a single slow call may be the machine's doing
        seconds = min(seconds, calls * clock.sample(call, 1))
    if job.limits.first_call is not None and seconds > job.limits.first_call:
        raise OverBudgetError(seconds, job.limits.first_call)
    return Measured(facts={"B": job.B, "seconds": seconds})
