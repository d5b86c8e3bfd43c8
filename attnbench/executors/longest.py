"""The largest length, and the largest batch, that fits: searches whose every trial is a record and a process of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.limits import precise, search_of
from attnbench.executors.largest import largest
from attnbench.executors.local import LocalExecutor
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record


def next_length(fits: Mapping[int, bool], least: int, most: int) -> int | None:
    """What to try next, of least … most: twofold until one does not fit, then halving the gap to one part in sixteen.

    From a power of two on all lengths are multiples of large ones, as blocked kernels want them. None once the largest is
    known, or where not even the smallest fits.
    """
    if least not in fits:
        return least
    good = largest(fits)
    bad = min((n for n, fit in fits.items() if not fit and n > good), default=None)
    if good == 0 or bad is None:
        return None if good in {0, most} else min(2 * good, most)
    return None if precise(good, bad) else _middle(good, bad)


def _middle(low: int, high: int) -> int:
    """The middle, rounded down to a multiple of a power of two of about an eighth of the gap."""
    grain = 1 << max(0, ((high - low) // 8).bit_length() - 1)
    return (low + high) // 2 // grain * grain


def first_cells(cells: Sequence[Cell], refusals: Mapping[str, Failed]) -> list[Cell]:
    """Where each search for a length begins: the shortest cell that its method does not refuse, or else the shortest."""
    found: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda c: (c.key in refusals, c.problem.N)):
        found.setdefault(search_of(cell), cell)
    return [found[search] for search in dict.fromkeys(map(search_of, cells))]


@dataclass
class LimitSearch(LocalExecutor):
    """For each cell of the run, the largest N; for one whose batch is searched for, the largest B.

    The method is checked first. Of the largest that fits the memory is measured.
    """

    most: int = 2**22
    """The largest N that is tried."""
    on_end: Callable[[Cell], object] = id
    """Told when the search that began at a cell is over."""

    def run(self) -> Iterator[Record]:
        """Records as they come; the caller stores each before it asks for the next."""
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
            yield self._note(self._job(cell, Pass.TIME, 0), reason)
        elif cell.batch is Batch.LARGEST:
            yield from self._largest(cell)
        else:
            yield from self._longest(cell)

    def _largest(self, cell: Cell) -> Iterator[Record]:
        yield from self._fit(cell)
        if (misfit := self.ledger.misfit(cell)) is not None:
            # so that longer ones are not started
            yield self._note(self._job(cell, Pass.TIME, 0), misfit)
        elif self.ledger.batch(cell) is not None:
            yield self._do(self._job(cell, Pass.MEMORY, 0))

    def _longest(self, cell: Cell) -> Iterator[Record]:
        fits: dict[int, bool] = {}
        while (N := next_length(fits, cell.problem.N, self.most)) is not None:
            record = self._do(self._trial(of_length(cell, N)))
            fits[N] = record.ok
            yield record
        if N := largest(fits):
            yield self._do(self._job(of_length(cell, N), Pass.MEMORY, 0))

    def _trial(self, cell: Cell) -> Job:
        # the batch is said: a trial that names none counts as one of B = 1
        return self._job(cell, Pass.FIT, 0).model_copy(update={"B": cell.problem.B})


def of_length(cell: Cell, N: int) -> Cell:
    """The same cell with another N."""
    return cell.model_copy(update={"problem": cell.problem.model_copy(update={"N": N})})
