"""Searching for the largest length, or the largest batch, that fits; every trial is a record and a process of its own."""

from collections.abc import Callable, Mapping, Sequence

from attnbench.analyze.limits import precise, search_of
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import largest
from attnbench.schedule.steps import Schedule, Server, Step
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed


def next_length(fits: Mapping[int, bool], least: int, most: int) -> int | None:
    """Return what to try next, of least … most: twofold until one does not fit, then halving the gap to one part in sixteen.

    Starting from a power of two, all lengths are multiples of large powers of two, as blocked kernels want them. None once
    the largest is known, or where not even the smallest fits.
    """
    if least not in fits:
        return least
    good = largest(fits)
    bad = min((n for n, fit in fits.items() if not fit and n > good), default=None)
    if good == 0 or bad is None:
        return None if good in {0, most} else min(2 * good, most)
    if precise(good, bad):
        return None
    # the middle, rounded down to a multiple of a power of two of about an eighth of the gap
    grain = 1 << max(0, ((bad - good) // 8).bit_length() - 1)
    return (good + bad) // 2 // grain * grain


def first_cells(cells: Sequence[Cell], refusals: Mapping[str, Failed]) -> list[Cell]:
    """Return the cell that each search for a length begins with: the shortest that is not refused, or else the shortest."""
    found: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda c: (c.key in refusals, c.problem.N)):
        found.setdefault(search_of(cell), cell)
    return [found[search] for search in dict.fromkeys(map(search_of, cells))]


def searches(jobs: CellJobs, most: int, on_end: Callable[[Cell], object] = id) -> Schedule:
    """Search for the largest N, up to `most`, of each cell of the run, or for the largest B where its batch is searched for.

    The method is checked first. At the end the memory of the largest that fits is measured. `on_end` is told the cell that a
    search began at when it is over.
    """
    server = Server((0,))
    for cell in jobs.run_info.cells:
        reason = jobs.refusals.get(cell.key)
        if reason is None:
            reason = yield from jobs.checks(cell, server)
        if reason is None and cell.batch is Batch.LARGEST:
            yield from jobs.fit(cell, server)
            reason = jobs.ledger.misfit(cell)
        if reason is not None:
            # noted, so that longer cells are not started
            yield from jobs.step(Step(jobs.job(cell, Pass.TIME, 0), server, reason))
        elif cell.batch is Batch.LARGEST:
            if jobs.ledger.batch(cell) is not None:
                yield from jobs.step(Step(jobs.job(cell, Pass.MEMORY, 0), server))
        else:
            fits: dict[int, bool] = {}
            while (N := next_length(fits, cell.problem.N, most)) is not None:
                # the batch is stated, because a trial without one counts as one of B = 1
                trial = jobs.job(cell.reshaped(N=N), Pass.FIT, 0).model_copy(update={"B": cell.problem.B})
                fits[N] = (yield from jobs.step(Step(trial, server))).ok
            if N := largest(fits):
                yield from jobs.step(Step(jobs.job(cell.reshaped(N=N), Pass.MEMORY, 0), server))
        on_end(cell)
