"""The cells of a stored run; a long one is read by several processes, for it is reading that takes the time."""

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from attnbench.analyze.cells import CellSummary, Gathering, gather, summarize
from attnbench.schema.cell import Cell
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder

_LEAST_BYTES = 2**24
"""That are worth a process: a third of a second."""


def summaries(folder: RunFolder, run: RunInfo) -> list[CellSummary]:
    """One per planned cell, in order, as `summarize` has them. Raises StoreError."""
    first, *others = folder.parts(len(os.sched_getaffinity(0)), _LEAST_BYTES)
    if not others:
        return summarize(run.cells, folder.read())
    # forked: nothing is imported again
    with ProcessPoolExecutor(len(others), get_context("fork"), _ignore_interrupts) as pool:
        found = [pool.submit(_gathered, folder, run.cells, part) for part in others]
        whole = _gathered(folder, run.cells, first)
        for later in found:
            whole.join(later.result())
    return whole.summaries


def _ignore_interrupts() -> None:
    """They are the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _gathered(folder: RunFolder, cells: Sequence[Cell], part: range) -> Gathering:
    return gather(cells, folder.read(part))
