"""Times that no call with this work can have: a clock that is wrong, or work that was not done."""

import statistics
from collections.abc import Sequence

from attnbench.api import io_bytes
from attnbench.measure import roof
from attnbench.schema.cell import Precision
from attnbench.schema.errand import Job, Roof
from attnbench.schema.outcome import Status
from attnbench.schema.problem import DType
from attnbench.schema.units import bytes_, seconds
from attnbench.workloads.holding import WrongError

_MARGIN = 0.5
"""Of the least time, what is still believed: a roof is measured too."""


def refuse_impossible(job: Job, samples: Sequence[float]) -> None:
    """Raises WrongError where the median is below half of what the least products and the least traffic take.

    The FLOPs are the larger of those that the method states and those that torch counted in its check, the bytes those of
    inputs and output; both at the speed of the fastest product and the fastest copy, in cache or out of it. Before anything is
    refused they are measured again.
    """
    limits, median = job.limits, statistics.median(samples)
    problem = job.cell.problem.model_copy(update={"B": job.B or job.cell.problem.B})
    moved = io_bytes(problem, job.cell.call.workload)
    if job.cell.workload.has_model or limits.roof is None or median >= _MARGIN * limits.roof.fastest(limits.flops, moved):
        return
    again = [Roof(**dict(zip(Roof.model_fields, roof.measure(job.cell.device, name), strict=True))) for name in _ceilings(job)]
    least = min(each.fastest(limits.flops, moved) for each in (limits.roof, *again))
    if median < _MARGIN * least:
        raise WrongError(
            f"{limits.flops / 1e9:.3g} GFLOP and {bytes_(moved)} take {seconds(least)} at least",
            Status.IMPOSSIBLE,
        )


def _ceilings(job: Job) -> list[str]:
    """The cell's own; in half precision also that of float32, which a CPU may be faster in."""
    half = job.cell.problem.dtype.bytes == 2
    return [job.cell.ceiling, *([DType.FLOAT32.value, f"{DType.FLOAT32.value}, matmul {Precision.HIGH.value}"] if half else [])]
