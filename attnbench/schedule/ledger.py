"""The ledger: what is known about a run so far, and so which jobs need not be started (again)."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from attnbench.analyze.limits import precise
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass, main_pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record

CHANCE = {Status.CRASHED: 3, Status.UNFAIR: 2}
"""Failures that may have a cause outside of the method, such as a stray kill or a starved machine, and how often in a row
they must happen before they count."""
_RERUN = frozenset({"throttled", "shared"})
_MOST_ATTEMPTS = 3
_CAUSE = {Status.OOM_DEVICE: "out of memory", Status.OOM_HOST: "out of memory", Status.BUDGET: "over budget"}


@dataclass
class Tries:
    """The outcomes of one thing for each of several numbers (replicates, batches), of which the last attempt counts."""

    _last: dict[int, tuple[int, Failed | None]] = field(default_factory=dict)

    def take(self, number: int, attempt: int, failed: Failed | None) -> None:
        """Take an attempt into account, in any order; of two that are equal the failure counts."""
        known = self._last.get(number, (attempt, failed))
        self._last[number] = max((attempt, failed), known, key=lambda each: (each[0], each[1].status if each[1] else ""))

    def failed(self, number: int) -> Failed | None:
        """Return the failure of one; None where it succeeded or was not tried."""
        return self._last.get(number, (0, None))[1]

    @property
    def succeeded(self) -> dict[int, bool]:
        """Say of each number whether it succeeded."""
        return {number: failed is None for number, (_, failed) in self._last.items()}


@dataclass
class Ledger:
    """Is filled from the records on disk and from each new one, so that a resumed run decides as an undisturbed one would."""

    doubted: Mapping[Status, int] = field(default_factory=lambda: CHANCE)
    """The failures after which a job is tried again, and how often it is tried in all."""
    _done: set[tuple[str, Pass, int]] = field(default_factory=set)
    """The cell key, pass and replicate of each job with a record."""
    _attempts: dict[tuple[str, Pass, int, int | None], int] = field(default_factory=dict)
    """The number of attempts that count for nothing, by cell key, pass, replicate and batch."""
    _excused: dict[tuple[str, Pass, int, int | None], int] = field(default_factory=dict)
    """How many of these, from the first on, were disturbed, or made elsewhere or before somebody asked for another."""
    _mains: dict[str, Tries] = field(default_factory=dict)
    """The tries of the main pass, by cell key."""
    _checks: dict[str, Tries] = field(default_factory=dict)
    """The tries of the check, by the key of the cell on which a method was checked."""
    _tokens: dict[str, dict[str, int]] = field(default_factory=dict)
    """The keys and the tokens of these cells, by check group."""
    _flops: dict[str, dict[int, float]] = field(default_factory=dict)
    """The FLOPs of one sample and head that a check counted, by check group and length."""
    _ceilings: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """The length and the tokens in the batch of cells that ran out of memory or time, by sweep and cell key."""
    _warmups: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """The replicate, attempt and warm-up calls of the earliest measurement, by cell key."""
    _above: dict[str, float] = field(default_factory=dict)
    """How many times as fast as its roof the fastest call was, by ceiling."""
    _fits: dict[str, Tries] = field(default_factory=dict)
    """The tries of batches, by cell key."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Ledger":
        """Return a ledger filled from records."""
        ledger = cls()
        for record in records:
            ledger.add(record)
        return ledger

    def add(self, record: Record) -> None:
        """Take one record into account; an interrupted one counts for nothing."""
        job, failed, key, p = record.job, record.failed, record.job.cell.key, record.job.cell.problem
        if failed and failed.status is Status.INTERRUPTED:
            return
        if self.disturbed(record):
            self._count(record, excused=failed is None)
        elif job.phase is Pass.CHECK:
            group = check_group(job.cell)
            self._tokens.setdefault(group, {})[key] = p.N
            self._checks.setdefault(key, Tries()).take(0, job.attempt, failed)
            if not failed and isinstance(flops := record.outcome.facts.get("flops"), int | float):
                self._flops.setdefault(group, {})[p.N] = flops / (p.B * p.H)
        elif job.phase is Pass.FIT or record.too_large:
            # a batch that ran out of memory when it was measured does not fit, however often it was tried before
            attempt = sys.maxsize if record.too_large else job.attempt
            self._fits.setdefault(key, Tries()).take(job.B or 1, attempt, failed)
        else:
            self._done.add((key, job.phase, job.replicate))
            if job.phase is main_pass(job.cell):
                self._mains.setdefault(key, Tries()).take(job.replicate, job.attempt, failed)
                self._take_main(job, record.outcome)

    def _take_main(self, job: Job, outcome: Measured | Failed) -> None:
        key, problem = job.cell.key, job.cell.problem
        if isinstance(outcome, Failed):
            # where the batch is searched for, a longer sequence may still fit, with a smaller one
            if outcome.status.monotonic and job.B is None:
                self._ceilings.setdefault(sweep_of(job.cell), {})[key] = problem.N, problem.B * problem.N
            return
        if isinstance(count := outcome.facts.get("warmup_calls"), int):
            found = (job.replicate, job.attempt, count)
            self._warmups[key] = min(found, self._warmups.get(key, found))
        times = outcome.samples["time"].values if "time" in outcome.samples else ()
        # a time of 0 is none, and no reason to give up what else was recorded
        if job.limits.roof is not None and (fastest := min(times, default=0.0)) > 0:
            times_as_fast = job.limits.flops / job.limits.roof.flops_per_second / fastest
            self._above[job.cell.ceiling] = max(times_as_fast, self.above_roof(job.cell.ceiling))

    def disturbed(self, record: Record) -> bool:
        """Say whether the job is tried again: heat or another process slowed it, or it failed in a way that may be chance.

        A training is not tried again for heat, which does not change what is learnt.
        """
        job, outcome = record.job, record.outcome
        if isinstance(outcome, Measured):
            timed = job.phase is main_pass(job.cell) and job.phase is not Pass.TRAIN
            return timed and job.attempt + 1 < _MOST_ATTEMPTS and bool(_RERUN & set(outcome.flags))
        was_started, in_a_row = record.seconds is not None, job.attempt - job.excused + 1
        return was_started and in_a_row < self.doubted.get(outcome.status, 1) and not record.too_large

    def begin_anew(self, record: Record) -> None:
        """Count a record as an attempt only: it is asked for again, or was made on another kind of device."""
        self._count(record, excused=True)

    def _count(self, record: Record, *, excused: bool) -> None:
        tried = _try_of(record.job)
        for counts in (self._attempts, self._excused) if excused else (self._attempts,):
            counts[tried] = max(record.job.attempt + 1, counts.get(tried, 0))

    def again(self, job: Job) -> Job:
        """Return a job as its next attempt, which knows how many before it count for nothing."""
        tried = _try_of(job)
        return job.model_copy(update={"attempt": self._attempts.get(tried, 0), "excused": self._excused.get(tried, 0)})

    def forget(self, cell: Cell) -> None:
        """Leave aside all that is known of the times, memory and batches of a cell, which was begun anew elsewhere since."""
        key = cell.key
        self._done = {each for each in self._done if each[0] != key}
        for tries in (self._mains, self._fits):
            tries.pop(key, None)
        self._warmups.pop(key, None)
        self._ceilings.get(sweep_of(cell), {}).pop(key, None)

    def finished(self, cell: Cell, phase: Pass, replicate: int) -> bool:
        """Say whether that pass of that replicate has a record that counts."""
        return (cell.key, phase, replicate) in self._done

    def measured(self, cell: Cell) -> bool:
        """Say whether the first replicate gave samples and none failed."""
        return not self.failed(cell) and (cell.key, main_pass(cell), 0) in self._done

    def failed(self, cell: Cell) -> bool:
        """Say whether the cell has failed for good."""
        return any(self._failures(cell.key))

    def checked(self, small: Cell) -> bool:
        """Say whether the method has been checked on this very cell."""
        return small.key in self._checks

    def _failures(self, key: str) -> Iterator[Failed]:
        """Give the failures of a cell's main pass."""
        tries = self._mains.get(key, Tries())
        yield from filter(None, map(tries.failed, tries.succeeded))

    def rejected(self, cell: Cell) -> Failed | None:
        """Return the failed check that rules this cell out: one that ran out of memory or time on more tokens does not."""
        checks = ((N, self._checks[key].failed(0)) for key, N in self._tokens.get(check_group(cell), {}).items())
        return next((check for N, check in checks if check and (not check.status.monotonic or N <= cell.problem.N)), None)

    def counted_flops(self, cell: Cell) -> float:
        """Return the least FLOPs of one sample and head, extended along a straight line from the two lengths of the checks.

        This is a lower bound, for no method has less to do for a later token than for an early one. 0 where none were counted.
        """
        counted = sorted(self._flops.get(check_group(cell), {}).items())
        if len(counted) < 2 or cell.workload.decodes or counted[-1][0] > cell.problem.N:
            return 0.0
        (short, few), (long, many) = counted[0], counted[-1]
        return many + max(0.0, many - few) / (long - short) * (cell.problem.N - long)

    def above_roof(self, ceiling: str) -> float:
        """Return how many times as fast as the roof a call was: 1, unless the roof was measured on a busy machine."""
        return self._above.get(ceiling, 1.0)

    def warmup(self, cell: Cell) -> int | None:
        """Return the number of warm-up calls of the first replicate, which every later one repeats."""
        *_, count = self._warmups.get(cell.key, (None,))
        return count

    def next_batch(self, cell: Cell, most: int) -> int | None:
        """Return the batch to try next in the search for the largest that fits; None once it is found, or if none fits."""
        return None if self.misfit(cell) else next_trial(self._fits.get(cell.key, Tries()).succeeded, most)

    def batch(self, cell: Cell) -> int | None:
        """Return the largest batch that fitted; None for a cell that states its batch, or where none was found."""
        return largest(self._fits.get(cell.key, Tries()).succeeded) or None

    def misfit(self, cell: Cell) -> Failed | None:
        """Return the failure of B = 1, after which no batch can be found; a larger batch that fails is only too large."""
        return self._fits.get(cell.key, Tries()).failed(1)

    def hopeless(self, cell: Cell, as_checked: Cell | None = None) -> Failed | None:
        """Say why this cell need not be started: its check failed, or a shorter cell ran out of memory or time.

        `as_checked` is the cell with the heads of its checks, where these are others.
        """
        if (check := self.rejected(as_checked or cell)) is not None:
            return Failed(status=check.status, reason=f"its check: {check.reason}", detail=check.detail)
        if self.measured(cell):
            # what ran is not ruled out by what a shorter cell came to later
            return None
        tokens = cell.problem.B * cell.problem.N
        # only cells of no more tokens count: a smaller batch may fit where a larger one did not
        ceilings = self._ceilings.get(sweep_of(cell), {}).items()
        shorter = [(N, key) for key, (N, held) in ceilings if N < cell.problem.N and held <= tokens]
        # the status of each as it is by now: one that was tried again may have succeeded
        found = sorted((N, failed.status) for N, key in shorter for failed in self._failures(key) if failed.status.monotonic)
        for N, status in found[:1]:
            return Failed(status=status, reason=f"not started: {_CAUSE.get(status, status.value)} at N={N}")
        return None


def sweep_of(cell: Cell) -> str:
    """Name all cells that differ in length and batch only: a cell that runs out of memory does so with more of both."""
    return cell.reshaped(N=1, B=1).key


def check_group(cell: Cell) -> str:
    """Name all cells for which the same checks hold."""
    kv_heads = 2 if cell.problem.kv_heads == cell.problem.H else 1
    problem = cell.reshaped(N=1, B=1, H=2, kv_heads=kv_heads).problem
    workload = Workload.DECODE if cell.workload.makes_state else Workload.FORWARD
    same = Cell(method=cell.method, params=cell.params, problem=problem, device=cell.device, workload=workload)
    return same.model_copy(update={"matmul_precision": cell.matmul_precision}).key


def next_trial(fits: Mapping[int, bool], most: int) -> int | None:
    """Return the number to try next, of 1 … most, in the search for the largest that fits: fourfold, then halving the gap.

    `fits` holds what was tried so far. If a number did not fit and a larger one did, the larger one counts. None once the
    largest is known to one part in sixteen.
    """
    good, bad = largest(fits), min((n for n, fit in fits.items() if not fit), default=most + 1)
    if precise(good, bad):
        return None
    return min(max(1, 4 * good), most) if bad > most else (good + bad) // 2


def largest(fits: Mapping[int, bool]) -> int:
    """Return the largest number that fitted; 0 where none did."""
    return max((n for n, fit in fits.items() if fit), default=0)


def _try_of(job: Job) -> tuple[str, Pass, int, int | None]:
    return job.cell.key, job.phase, job.replicate, job.B
