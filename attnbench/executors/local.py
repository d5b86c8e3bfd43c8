"""The executors of this machine: one process per replicate, one at a time, in a random order; one run, or two in turns."""

import random
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.schema.cell import Allocator, Batch, Cell, draw_seed
from attnbench.schema.errand import FIT_SHARE, Answer, Errand, Job, Limits, Pass, main_pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.worker.isolate import Isolation

_PIECES, _MOST_MEMORY = 2.0, 0.9
"""The timing of a batch that was found may take so many times its share of memory, but at most this share of all."""
MOST_ROWS = 2**16 - 1
"""The largest batch that a search tries: CUDA kernels that count rows along a grid can have no more."""


def blocks(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group the cells of one shape, workload and set of conditions, which are compared; small lengths first."""

    def block(cell: Cell) -> tuple[str, ...]:
        inputs = (cell.inputs, cell.recording, f"{cell.scale!r}")
        conditions = (*inputs, cell.allocator, cell.matmul_precision, cell.clock, cell.batch)
        model = cell.training.model_dump_json() if cell.training else ""
        return (f"{cell.problem.N:020d}", cell.problem.model_dump_json(), cell.workload, *conditions, model)

    return [list(group) for _, group in groupby(sorted(cells, key=block), key=block)]


def in_order(cells: Sequence[Cell], seed: int, replicate: int) -> Iterator[Cell]:
    """Give the cells of one replicate, block after block, within a block in random order."""
    for number, block in enumerate(blocks(cells)):
        random.Random(f"{seed}/{replicate}/{number}").shuffle(block)  # noqa: S311 - an order, not a secret
        yield from block


class Asking(Protocol):
    """The part of an Isolation that the executor needs."""

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer, and the seconds that the process lived."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass
class LocalExecutor:
    """Runs all jobs that the ledger does not have yet.

    Round r takes replicate r of every cell, so that replicates of one cell lie far apart in time and the methods
    of a block close together. Each round has a warm server of its own: forked children share one address layout,
    so that a single server would hide the variance between processes.
    """

    run_info: RunInfo
    ledger: Ledger
    refusals: dict[str, Failed] = field(default_factory=dict)
    """The reason, by cell key, for cells that their method or a missing package rules out before anything is started."""
    check_cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)
    """The cells on which the method is checked first, by cell key."""
    isolation: Callable[[], Asking] = Isolation
    on_start: Callable[[Job], object] = id
    checkpoints: Path | None = None
    """The folder of the files from which an interrupted training is resumed."""
    lane: Lane = field(default_factory=Lane)
    _worker: Asking = field(init=False, repr=False)
    _in_flight: Job | None = field(default=None, init=False)

    def run(self) -> Iterator[Record]:
        """Give each record as soon as it exists; the caller stores it before it asks for the next."""
        for replicate in range(self.run_info.suite.replicates):
            with self.round():
                for cell in in_order(self.run_info.cells, self.run_info.suite.seed, replicate):
                    yield from self.replicate(cell, replicate)

    @contextmanager
    def round(self) -> Iterator[None]:
        """Open the warm server of a round."""
        with self.isolation() as self._worker:
            yield

    def interrupted(self) -> Record | None:
        """Return the record of the job that an interruption ended, if there was one."""
        if self._in_flight is None:
            return None
        return self._record(
            self._in_flight, Failed(status=Status.INTERRUPTED, reason="the run was interrupted during this job")
        )

    def replicate(self, cell: Cell, replicate: int) -> Iterator[Record]:
        """Run what one replicate of one cell still lacks, within a round."""
        if self.ledger.failed(cell):
            return
        if not self.ledger.finished(cell, main_pass(cell), replicate):
            yield from self._main(cell, replicate)
        wants_memory = cell.workload.is_timed and replicate < self.run_info.suite.memory_replicates
        if wants_memory and self.ledger.measured(cell) and not self.ledger.finished(cell, Pass.MEMORY, replicate):
            yield from self._attempts(self._job(cell, Pass.MEMORY, replicate))

    def _main(self, cell: Cell, replicate: int) -> Iterator[Record]:
        reason = self.refusals.get(cell.key) or self._over_budget(cell)
        if reason is None:
            yield from self._checks(cell)
        reason = reason or self.ledger.hopeless(cell)
        if reason is not None or cell.batch is not Batch.LARGEST:
            yield from self._once(cell, replicate, reason)
            return
        # a batch that fitted for two calls and runs out of memory when measured was too large: the search goes on
        while not self.ledger.finished(cell, main_pass(cell), replicate):
            yield from self._fit(cell)
            yield from self._once(cell, replicate, self.ledger.misfit(cell))

    def _checks(self, cell: Cell) -> Iterator[Record]:
        """Run the checks of its method that have not been made yet, until one fails."""
        for small in self.check_cells.get(cell.key, ()):
            if not self.ledger.checked(small) and self.ledger.rejected(cell) is None:
                yield from self._attempts(self._job(small, Pass.CHECK, 0))

    def _fit(self, cell: Cell) -> Iterator[Record]:
        """Search for the largest batch that fits, with each trial in a process of its own."""
        while (B := self.ledger.next_batch(cell, MOST_ROWS)) is not None:
            yield from self._attempts(self._job(cell, Pass.FIT, 0).model_copy(update={"B": B}))

    def _once(self, cell: Cell, replicate: int, reason: Failed | None) -> Iterator[Record]:
        job = self._job(cell, main_pass(cell), replicate)
        if reason is not None:
            yield self._record(job, reason)
        else:
            yield from self._attempts(job)

    def _attempts(self, job: Job) -> Iterator[Record]:
        """Run a job, and again while it was disturbed. Every attempt is a record."""
        disturbed = True
        while disturbed:
            record = self._do(job.model_copy(update={"attempt": self.ledger.attempts(job)}))
            disturbed = self.ledger.disturbed(record)
            yield record

    def _over_budget(self, cell: Cell) -> Failed | None:
        """Refuse a cell whose every call must take more than half the budget, by its FLOPs and bytes and the measured roof.

        Where a call of this run was faster than the roof allows, the roof is raised by as much.
        """
        cost = self.run_info.costs.get(cell.key)
        roof = self.run_info.surroundings.roof.get(cell.ceiling)
        half = self.run_info.suite.budget.seconds / 2
        if cost is None or roof is None or self.ledger.measured(cell):
            return None
        floor = roof.fastest(cost.executed_flops, cost.traffic_bytes) / self.ledger.above_roof(cell.ceiling)
        if floor <= half:
            return None
        reason = f"not started: a call takes at least {floor:.3g} s by the roof, {half:g} s are allowed"
        return Failed(status=Status.BUDGET, reason=reason)

    def _job(self, cell: Cell, phase: Pass, replicate: int) -> Job:
        suite, B, p = self.run_info.suite, self.ledger.batch(cell), cell.problem
        flops = 0.0
        if phase is Pass.TIME:
            # the least that a call executes: by the method's formula, or as torch counted in its checks, whichever is more
            cost = self.run_info.costs.get(cell.key)
            stated = cost.executed_flops * (B or p.B) / p.B if cost is not None else 0.0
            flops = max(stated, self.ledger.counted_flops(cell) * (B or p.B) * p.H)
        # only the first replicate may find a cell too slow: later ones repeat what was found to fit
        # (and a batch was searched for under that very limit)
        first_time = phase is Pass.TIME and cell.batch is Batch.FIXED and not self.ledger.measured(cell)
        first_call = suite.budget.seconds / 2 if first_time or phase is Pass.FIT else None
        limits = Limits(
            seconds=suite.budget.seconds,
            timeout=suite.budget.timeout_seconds,
            memory_bytes=self.memory_bytes(cell, phase),
            first_call=first_call,
            flops=flops,
            roof=self.run_info.surroundings.roof.get(cell.ceiling) if phase is Pass.TIME else None,
        )
        seed, warmup = draw_seed(suite.seed, cell, replicate), self.ledger.warmup(cell)
        return Job(cell=cell, phase=phase, replicate=replicate, seed=seed, B=B, warmup=warmup, limits=limits)

    def memory_bytes(self, cell: Cell, phase: Pass) -> int | None:
        """Return the suite's share of the memory that was free at the start; None on a GPU, whose allocator limits itself."""
        if cell.device_kind != "cpu":
            return None
        share = self.run_info.suite.budget.memory
        if phase is Pass.FIT:
            # a batch that only just fits would fail in a pass that measures memory while it runs
            share *= FIT_SHARE
        elif phase is main_pass(cell) and cell.batch is Batch.LARGEST and cell.allocator is Allocator.RETAIN:
            # this batch was found to fit: small free blocks that the heap keeps between calls are not the method's memory
            share = max(share, min(_PIECES * share, _MOST_MEMORY))
        return int(share * self.run_info.surroundings.memory_bytes)

    def _do(self, job: Job) -> Record:
        self.on_start(job)
        self._in_flight = errand = job
        if self.checkpoints is not None and job.phase is Pass.TRAIN:
            # the folder of the checkpoints is for the worker only and not for the record, which names no place on this machine
            errand = job.model_copy(update={"folder": str(self.checkpoints.absolute())})
        with self.lane.held(self.run_info.surroundings):
            started = datetime.now(UTC)
            answer, seconds = self._worker.ask(errand, job.limits.timeout)
        self._in_flight = None
        if not isinstance(answer, Measured | Failed):
            answer = Failed(status=Status.ERROR, reason=f"the worker answered with a {type(answer).__name__}")
        return self._record(job, answer, started, seconds)

    def _record(
        self, job: Job, outcome: Measured | Failed, started: datetime | None = None, seconds: float | None = None
    ) -> Record:
        """Return the record of a job, which the ledger knows from then on. A job that was not started took no seconds."""
        moment, digest = (started or datetime.now(UTC)).isoformat(timespec="milliseconds"), self.run_info.environment_digest
        record = Record(job=job, outcome=outcome, environment=digest, started=moment, seconds=seconds)
        self.ledger.add(record)
        return record


@dataclass
class CheckExecutor(LocalExecutor):
    """Makes the checks of a run without timing anything."""

    def run(self) -> Iterator[Record]:
        """Give each record as soon as it exists."""
        with self.round():
            for cell in self.run_info.cells:
                yield from self._checks(cell)


@dataclass
class Interleaved:
    """Measures two runs of the same cells in turns, so that whatever disturbs the machine affects both.

    Each replicate of a cell is measured on both sides, one right after the other, in random order. Each side has its own
    warm server in every round.
    """

    sides: tuple[LocalExecutor, LocalExecutor]

    def run(self, replicates: range, wanted: Container[str]) -> Iterator[tuple[int, Record]]:
        """Give each record of the wanted cells with its side; the caller stores it before it asks for the next."""
        info = self.sides[0].run_info
        for replicate in replicates:
            turns = random.Random(f"{info.suite.seed}/{replicate}/turns")  # noqa: S311 - an order, not a secret
            with self.sides[0].round(), self.sides[1].round():
                for cell in in_order(info.cells, info.suite.seed, replicate):
                    for side in turns.sample((0, 1), 2) if cell.key in wanted else ():
                        for record in self.sides[side].replicate(cell, replicate):
                            yield side, record

    def interrupted(self) -> list[tuple[int, Record]]:
        """Return the records of jobs that an interruption ended."""
        return [(i, record) for i, side in enumerate(self.sides) if (record := side.interrupted()) is not None]
