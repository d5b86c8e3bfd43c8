"""The largest length, or batch, that fits: what the trials of a search came to."""

from collections.abc import Iterable
from dataclasses import dataclass

from attnbench.analyze.cells import NOT_RUN, OK, CellSummary
from attnbench.analyze.counters import memory_of
from attnbench.analyze.digest import digest
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record

_COARSE = 16


@dataclass(frozen=True)
class Limit:
    """What one search found."""

    summary: CellSummary
    """Of the largest that fits, with the memory of a call of it; where none does, of the smallest, with why not."""
    value: int
    """The largest N, or B; 0 where not even the smallest fits."""
    bound: Failed | None
    """How the smallest failed that is larger; None where the search had a limit of its own."""
    bound_at: int | None
    finished: bool
    """Whether the search came to its end; else `value` is the largest so far."""

    @property
    def seconds(self) -> float | None:
        """One call of the largest that fits: a single one, on the wall clock."""
        found = self.summary.facts.get("seconds")
        return found if isinstance(found, float) else None


def precise(good: int, bad: int) -> bool:
    """Whether the largest that fits is known to one part in sixteen: `good` fits, `bad` does not."""
    return bad - good <= max(1, good // _COARSE)


def search_of(cell: Cell) -> str:
    """Names all cells of one search: those that differ in length only; of a largest batch the cell itself."""
    if cell.batch is Batch.LARGEST:
        return cell.key
    return cell.model_copy(update={"problem": cell.problem.model_copy(update={"N": 1})}).key


def limits(cells: Iterable[Cell], records: Iterable[Record], most: int) -> list[Limit]:
    """One for each of the cells that searches begin at; `most` is the largest that was to be tried."""
    firsts = {search_of(cell): cell for cell in cells}
    found: dict[str, list[Record]] = {search: [] for search in firsts}
    for record in records:
        search = search_of(record.job.cell)
        if search in found and record.job.phase is not Pass.CHECK and not _interrupted(record):
            found[search].append(record)
    return [_limit(first, found[search], most) for search, first in firsts.items()]


def _interrupted(record: Record) -> bool:
    return isinstance(record.outcome, Failed) and record.outcome.status is Status.INTERRUPTED


def _limit(first: Cell, records: list[Record], most: int) -> Limit:
    trials = {_size(record): record for record in records if record.job.phase is Pass.FIT}
    good = max((size for size, record in trials.items() if record.ok), default=0)
    bad = min((size for size, record in trials.items() if not record.ok and size > good), default=None)
    bound = _failure(trials[bad]) if bad is not None else None
    if not good:
        # of a search that was never begun the reason stands beside it
        why = bound or next((failed for record in records if (failed := _failure(record))), None)
        return Limit(_unfit(first, why), 0, why, bad, finished=why is not None)
    summary = _fit(trials[good], [r for r in records if r.job.phase is Pass.MEMORY and _size(r) == good])
    return Limit(summary, good, bound, bad, finished=good >= most or (bad is not None and precise(good, bad)))


def _failure(record: Record) -> Failed | None:
    return record.outcome if isinstance(record.outcome, Failed) else None


def _size(record: Record) -> int:
    """What is searched for: the batch, or the length."""
    cell = record.job.cell
    return record.job.B or 1 if cell.batch is Batch.LARGEST else cell.problem.N


def _fit(trial: Record, memory: list[Record]) -> CellSummary:
    assert isinstance(trial.outcome, Measured)
    peaks = memory_of(digest(record) for record in memory)
    return CellSummary(trial.job.cell, OK, facts=trial.outcome.facts, memory=peaks)


def _unfit(first: Cell, why: Failed | None) -> CellSummary:
    if why is None:
        return CellSummary(first, NOT_RUN, "no record of this search yet")
    return CellSummary(first, why.status.value, why.reason)
