"""From a cell to its setting, by its workload."""

from collections.abc import Callable

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job
from attnbench.workloads import decoding
from attnbench.workloads.generate import generation
from attnbench.workloads.setting import Setting, whole, with_batch
from attnbench.workloads.updating import updating

_PREPARE: dict[Workload, Callable[[Cell, int], Setting]] = {
    Workload.FORWARD: whole,
    Workload.FORWARD_BACKWARD: whole,
    Workload.DECODE: decoding.one_step,
    Workload.DECODE_TOTAL: decoding.sequence,
    Workload.FIDELITY: whole,
    Workload.NUMERICS: whole,
    Workload.TRAIN: updating,
    Workload.GENERATE: generation,
}


def prepare(job: Job) -> Setting:
    """Build the method, draw its inputs in its native layout, set what the cell states. Raises what the method raises."""
    return _PREPARE[job.cell.workload](with_batch(job.cell, job.B), job.seed)
