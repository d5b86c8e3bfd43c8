"""The ledger: what is known so far of a run, and so what need not be started (again)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from attnbench.executors.base import check_group, sweep_of
from attnbench.executors.largest import largest, next_trial
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass, main_pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record

CHANCE = frozenset({Status.CRASHED})
"""Failures that something outside of the method may have caused, as a stray kill: they are not believed on one try."""
_RERUN = frozenset({"throttled", "shared"})
_MOST_ATTEMPTS = 3
_CAUSE = {Status.OOM_DEVICE: "out of memory", Status.OOM_HOST: "out of memory", Status.BUDGET: "over budget"}


@dataclass
class Ledger:
    """Filled from the records on disk and from each new one; a resumed run decides as the undisturbed one would have."""

    doubted: frozenset[Status] = CHANCE
    """How a job may fail and be tried once more."""
    _done: set[tuple[str, Pass, int]] = field(default_factory=set)
    _attempts: dict[tuple[str, Pass, int, int | None], int] = field(default_factory=dict)
    """By cell key, pass, replicate and batch: attempts that were disturbed."""
    _failed: dict[str, Failed] = field(default_factory=dict)
    _checks: dict[str, list[tuple[int, Failed]]] = field(default_factory=dict)
    """By check group: on how many tokens a check failed, and how."""
    _checked: set[str] = field(default_factory=set)
    """Keys of the cells on which a method was checked."""
    _flops: dict[str, dict[int, float]] = field(default_factory=dict)
    """By check group and length: FLOPs for each sample and head, as they were counted in a check."""
    _ceilings: dict[str, set[tuple[int, int, Status]]] = field(default_factory=dict)
    """By sweep: the length and the tokens in the batch at which memory or time ran out, and how."""
    _warmups: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By cell key: replicate, attempt and count of the earliest measurement."""
    _above: dict[str, float] = field(default_factory=dict)
    """By ceiling: how many times as fast as its roof the fastest products were."""
    _fits: dict[str, dict[int, bool]] = field(default_factory=dict)
    """By cell key: batches that were tried, and whether they fit."""
    _misfits: dict[str, Failed] = field(default_factory=dict)
    """By cell key: how the smallest batch failed that did not fit."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Ledger":
        """What a folder's records tell."""
        ledger = cls()
        for record in records:
            ledger.add(record)
        return ledger

    def add(self, record: Record) -> None:
        """Take one record into account; an interrupted one is as good as none."""
        job, outcome = record.job, record.outcome
        if isinstance(outcome, Failed) and outcome.status is Status.INTERRUPTED:
            return
        if self.disturbed(record):
            self._attempts[_try_of(job)] = job.attempt + 1
            return
        if job.phase is Pass.CHECK:
            self._take_check(job.cell, outcome)
            return
        if job.phase is Pass.FIT or record.too_large:
            self._take_fit(job, outcome)
            return
        self._done.add((job.cell.key, job.phase, job.replicate))
        if job.phase is main_pass(job.cell):
            self._take_main(job, outcome)

    def _take_check(self, cell: Cell, outcome: Measured | Failed) -> None:
        group, p = check_group(cell), cell.problem
        self._checked.add(cell.key)
        if isinstance(outcome, Failed):
            self._checks.setdefault(group, []).append((p.N, outcome))
        elif isinstance(flops := outcome.facts.get("flops"), int | float):
            self._flops.setdefault(group, {})[p.N] = flops / (p.B * p.H)

    def _take_fit(self, job: Job, outcome: Measured | Failed) -> None:
        key, B = job.cell.key, job.B or 1
        tried = self._fits.setdefault(key, {})
        tried[B] = isinstance(outcome, Measured)
        if isinstance(outcome, Failed) and not any(b < B and not fit for b, fit in tried.items()):
            self._misfits[key] = outcome

    def _take_main(self, job: Job, outcome: Measured | Failed) -> None:
        key, problem = job.cell.key, job.cell.problem
        if isinstance(outcome, Failed):
            self._failed[key] = outcome
            # a longer sequence whose batch is searched for takes a smaller one
            if outcome.status.monotonic and job.B is None:
                ceiling = (problem.N, problem.B * problem.N, outcome.status)
                self._ceilings.setdefault(sweep_of(job.cell), set()).add(ceiling)
            return
        if isinstance(count := outcome.facts.get("warmup_calls"), int):
            found = (job.replicate, job.attempt, count)
            self._warmups[key] = min(found, self._warmups.get(key, found))
        if job.limits.roof is not None and "time" in outcome.samples:
            times_as_fast = job.limits.flops / job.limits.roof.flops_per_second / min(outcome.samples["time"].values)
            self._above[job.cell.ceiling] = max(times_as_fast, self.above_roof(job.cell.ceiling))

    def disturbed(self, record: Record) -> bool:
        """Whether the job is tried again: heat or another process slowed it, or it failed as chance may make it fail.

        Twice more at most where it gave samples, once where it failed. What a training is measured for, heat does not change.
        """
        job, outcome = record.job, record.outcome
        if isinstance(outcome, Measured):
            timed = job.phase is main_pass(job.cell) and job.phase is not Pass.TRAIN
            return timed and job.attempt + 1 < _MOST_ATTEMPTS and bool(_RERUN & set(outcome.flags))
        was_started = record.seconds is not None
        return was_started and job.attempt == 0 and outcome.status in self.doubted and not record.too_large

    def attempts(self, job: Job) -> int:
        """How many attempts at this job were disturbed, and count for nothing."""
        return self._attempts.get(_try_of(job), 0)

    def finished(self, cell: Cell, phase: Pass, replicate: int) -> bool:
        """Whether that pass of that replicate has its record."""
        return (cell.key, phase, replicate) in self._done

    def measured(self, cell: Cell) -> bool:
        """Whether some replicate gave its samples and none failed."""
        return cell.key not in self._failed and (cell.key, main_pass(cell), 0) in self._done

    def failed(self, cell: Cell) -> bool:
        """Whether the cell has its final, failed record."""
        return cell.key in self._failed

    def checked(self, small: Cell) -> bool:
        """Whether its method has been checked on this very cell."""
        return small.key in self._checked

    def rejected(self, cell: Cell) -> Failed | None:
        """The failed check of those that speak for this cell: not one that ran out of memory or time on more tokens."""
        failed = self._checks.get(check_group(cell), ())
        return next((check for N, check in failed if not check.status.monotonic or N <= cell.problem.N), None)

    def counted_flops(self, cell: Cell) -> float:
        """FLOPs of one sample and head, at least: from the two lengths that were checked on, along a straight line.

        No method has less to do for a later token than for an early one. 0 where they were not counted.
        """
        counted = sorted(self._flops.get(check_group(cell), {}).items())
        if len(counted) < 2 or cell.workload.decodes or counted[-1][0] > cell.problem.N:
            return 0.0
        (short, few), (long, many) = counted[0], counted[-1]
        return many + max(0.0, many - few) / (long - short) * (cell.problem.N - long)

    def above_roof(self, ceiling: str) -> float:
        """How many times as fast as the roof some measured call was: 1, unless the roof was measured on a busy machine."""
        return self._above.get(ceiling, 1.0)

    def warmup(self, cell: Cell) -> int | None:
        """The warm-up calls of the first replicate; every later one takes the same."""
        *_, count = self._warmups.get(cell.key, (None,))
        return count

    def next_batch(self, cell: Cell, most: int) -> int | None:
        """The batch to try next on the way to the largest that fits; None once it is found, or where none can be."""
        return None if self.misfit(cell) else next_trial(self._fits.get(cell.key, {}), most)

    def batch(self, cell: Cell) -> int | None:
        """The largest batch that was seen to fit; None for a cell that states its batch, or where none was found."""
        return largest(self._fits.get(cell.key, {})) or None

    def misfit(self, cell: Cell) -> Failed | None:
        """Why no batch can be found: not even B = 1 can be run. A larger one that fails, in whatever way, is too large."""
        return self._misfits[cell.key] if self._fits.get(cell.key, {}).get(1) is False else None

    def hopeless(self, cell: Cell) -> Failed | None:
        """Why this cell need not start: its check failed, or a shorter one of no more tokens ran out of memory or time."""
        if (check := self.rejected(cell)) is not None:
            return Failed(status=check.status, reason=f"its check: {check.reason}", detail=check.detail)
        tokens = cell.problem.B * cell.problem.N
        ceilings = self._ceilings.get(sweep_of(cell), ())
        # a smaller batch may fit where a larger one did not
        for N, _, status in sorted(c for c in ceilings if c[0] < cell.problem.N and c[1] <= tokens)[:1]:
            return Failed(status=status, reason=f"not started: {_CAUSE.get(status, status.value)} at N={N}")
        return None


def _try_of(job: Job) -> tuple[str, Pass, int, int | None]:
    return job.cell.key, job.phase, job.replicate, job.B
