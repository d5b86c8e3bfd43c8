"""The largest length, or batch, that fits: what the trials of a search came to."""

from collections.abc import Iterable
from dataclasses import dataclass

from attnbench.analyze.cells import NOT_RUN, OK, CellSummary, memory_of
from attnbench.analyze.digest import digest
from attnbench.analyze.sections import grouped
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record


@dataclass(frozen=True)
class Limit:
    """The result of one search."""

    summary: CellSummary
    """The cell of the largest that fits, with the memory of a call; where none does, of the smallest, with why not."""
    value: int
    """The largest N, or B; 0 where not even the smallest fits."""
    bound: Failed | None
    """The failure of the smallest that is larger; None where the search had a limit of its own."""
    bound_at: int | None
    finished: bool
    """Say whether the search came to its end; else `value` is the largest so far."""

    @property
    def seconds(self) -> float | None:
        """One call of the largest that fits: a single one, on the wall clock."""
        found = self.summary.facts.get("seconds")
        return found if isinstance(found, float) else None


def precise(good: int, bad: int) -> bool:
    """Say whether the largest that fits is known to one part in sixteen: `good` fits, `bad` does not."""
    return bad - good <= max(1, good // 16)


def search_of(cell: Cell) -> str:
    """Name all cells of one search: those that differ in length only; of a largest batch the cell itself."""
    return cell.key if cell.batch is Batch.LARGEST else cell.reshaped(N=1).key


def limits(cells: Iterable[Cell], records: Iterable[Record], most: int) -> list[Limit]:
    """Return one for each of the cells that searches begin at; `most` is the largest that was to be tried."""
    firsts = {search_of(cell): cell for cell in cells}
    ended = (each for each in records if not (each.failed and each.failed.status is Status.INTERRUPTED))
    found = grouped((search_of(each.job.cell), each) for each in ended if each.job.phase is not Pass.CHECK)
    return [_limit(first, found.get(search, []), most) for search, first in firsts.items()]


def _limit(first: Cell, records: list[Record], most: int) -> Limit:
    trials = {_size(record): record for record in records if record.job.phase is Pass.FIT}
    good = max((size for size, record in trials.items() if record.ok), default=0)
    bad = min((size for size, record in trials.items() if not record.ok and size > good), default=None)
    bound = trials[bad].failed if bad is not None else None
    if not good:
        # of a search that was never begun the reason stands beside it
        why = bound or next((record.failed for record in records if record.failed), None)
        status, reason = (why.status.value, why.reason) if why else (NOT_RUN, "no record of this search yet")
        return Limit(CellSummary(first, status, reason), 0, why, bad, finished=why is not None)
    memory = memory_of(digest(record) for record in records if record.job.phase is Pass.MEMORY and _size(record) == good)
    summary = CellSummary(trials[good].job.cell, OK, facts=trials[good].outcome.facts, memory=memory)
    return Limit(summary, good, bound, bad, finished=good >= most or (bad is not None and precise(good, bad)))


def _size(record: Record) -> int:
    """Return what is searched for: the batch, or the length."""
    cell = record.job.cell
    return record.job.B or 1 if cell.batch is Batch.LARGEST else cell.problem.N
