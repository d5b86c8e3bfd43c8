"""Searching for the largest length, or the largest batch, that fits; every trial is a record and a process of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.limits import precise, search_of
from attnbench.executors.ledger import largest
from attnbench.executors.local import LocalExecutor
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record


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


@dataclass
class LimitSearch(LocalExecutor):
    """Searches for the largest N of each cell of the run, or for the largest B where the cell's batch is searched for.

    The method is checked first. At the end the memory of the largest that fits is measured.
    """

    most: int = 2**22
    """The largest N that is tried."""
    on_end: Callable[[Cell], object] = id
    """Is called when the search that began at a cell is over."""

    def run(self) -> Iterator[Record]:
        """Give each record as soon as it exists; the caller stores it before it asks for the next."""
        with self.round():
            for cell in self.run_info.cells:
                yield from self._search(cell)
                self.on_end(cell)

    def _search(self, cell: Cell) -> Iterator[Record]:
        reason = self.refusals.get(cell.key)
        if reason is None:
            yield from self._checks(cell)
        reason = reason or self.ledger.hopeless(cell)
        if reason is not None:
            yield self._record(self._job(cell, Pass.TIME, 0), reason)
        elif cell.batch is Batch.LARGEST:
            yield from self._fit(cell)
            if (misfit := self.ledger.misfit(cell)) is not None:
                # noted, so that longer cells are not started
                yield self._record(self._job(cell, Pass.TIME, 0), misfit)
            elif self.ledger.batch(cell) is not None:
                yield self._do(self._job(cell, Pass.MEMORY, 0))
        else:
            fits: dict[int, bool] = {}
            while (N := next_length(fits, cell.problem.N, self.most)) is not None:
                # the batch is stated, because a trial without one counts as one of B = 1
                trial = self._job(cell.reshaped(N=N), Pass.FIT, 0).model_copy(update={"B": cell.problem.B})
                record = self._do(trial)
                fits[N] = record.ok
                yield record
            if N := largest(fits):
                yield self._do(self._job(cell.reshaped(N=N), Pass.MEMORY, 0))
