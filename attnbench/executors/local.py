"""The local executor: one process per replicate on this machine, in interleaved random order, one at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from attnbench.executors.base import in_order
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.schema.cell import Allocator, Batch, Cell
from attnbench.schema.errand import FIT_SHARE, Description, Inquiry, Job, Limits, Pass, Surroundings, Survey, main_pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.seeds import draw_seed
from attnbench.worker.isolate import Isolation

_PIECES, _MOST_MEMORY = 2.0, 0.9
"""How many times its share of memory the timing of a found batch may take where freed blocks are kept; at most this of all."""
MOST_ROWS = 2**16 - 1
"""The largest batch that a search tries: CUDA kernels that count rows along a grid know no more."""
Answer = Measured | Failed | Description | Surroundings


class Asking(Protocol):
    """What the executor needs of an Isolation."""

    def ask(self, errand: Job | Inquiry | Survey, timeout: float) -> tuple[Answer, float]:
        """The answer, and how long the process lived."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass
class LocalExecutor:
    """Runs what the ledger does not have yet.

    Round r takes replicate r of every cell, so that replicates of one cell lie far apart in time and the methods
    of a block close together. Each round has a warm server of its own: forked children share one address layout,
    and one server for all would hide the variance between processes.
    """

    run_info: RunInfo
    ledger: Ledger
    refusals: dict[str, Failed] = field(default_factory=dict)
    """By cell key: cells that their method, or the lack of a package, rules out before anything is started."""
    check_cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)
    """By cell key: the cells on which the method is checked first."""
    isolation: Callable[[], Asking] = Isolation
    on_start: Callable[[Job], object] = id
    checkpoints: Path | None = None
    """Where a training that is interrupted goes on from."""
    lane: Lane = field(default_factory=Lane)
    _worker: Asking = field(init=False, repr=False)
    _in_flight: Job | None = field(default=None, init=False)

    def run(self) -> Iterator[Record]:
        """Records as they come; the caller stores each before it asks for the next."""
        for replicate in range(self.run_info.suite.replicates):
            with self.round():
                for cell in in_order(self.run_info.cells, self.run_info.suite.seed, replicate):
                    yield from self.replicate(cell, replicate)

    @contextmanager
    def round(self) -> Iterator[None]:
        """The warm server of one replicate of every cell."""
        with self.isolation() as self._worker:
            yield

    def interrupted(self) -> Record | None:
        """The record of the job that was in flight when an interruption ended `run`, if one was."""
        if self._in_flight is None:
            return None
        reason = Failed(status=Status.INTERRUPTED, reason="the run was interrupted during this job")
        return self._record(self._in_flight, reason, _now(), None)

    def replicate(self, cell: Cell, replicate: int) -> Iterator[Record]:
        """What one replicate of one cell still lacks; within a round."""
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
        if reason is None and cell.batch is Batch.LARGEST:
            yield from self._fitted(cell, replicate)
        else:
            yield from self._once(cell, replicate, reason)

    def _checks(self, cell: Cell) -> Iterator[Record]:
        """Of its method, what has not been checked yet; nothing more once it has failed."""
        for small in self.check_cells.get(cell.key, ()):
            if not self.ledger.checked(small) and self.ledger.rejected(cell) is None:
                yield from self._attempts(self._job(small, Pass.CHECK, 0))

    def _fitted(self, cell: Cell, replicate: int) -> Iterator[Record]:
        """At the largest batch: one that fitted for two calls, and runs out of memory when measured, was too large."""
        while not self.ledger.finished(cell, main_pass(cell), replicate):
            yield from self._fit(cell)
            yield from self._once(cell, replicate, self.ledger.misfit(cell))

    def _fit(self, cell: Cell) -> Iterator[Record]:
        """Search for the largest batch that fits, each trial in a process of its own."""
        while (B := self.ledger.next_batch(cell, MOST_ROWS)) is not None:
            yield from self._attempts(self._job(cell, Pass.FIT, 0).model_copy(update={"B": B}))

    def _once(self, cell: Cell, replicate: int, reason: Failed | None) -> Iterator[Record]:
        job = self._job(cell, main_pass(cell), replicate)
        if reason is not None:
            yield self._note(job, reason)
        else:
            yield from self._attempts(job)

    def _attempts(self, job: Job) -> Iterator[Record]:
        """Once; again where it was disturbed. Every attempt is a record."""
        disturbed = True
        while disturbed:
            record = self._do(job.model_copy(update={"attempt": self.ledger.attempts(job)}))
            disturbed = self.ledger.disturbed(record)
            yield record

    def _over_budget(self, cell: Cell) -> Failed | None:
        """A cell whose every call must exceed half the budget, by its FLOPs and bytes against the measured roof.

        Where a call of this run was faster than that roof allows, the roof is raised by as much.
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
        suite = self.run_info.suite
        # only the first replicate may find a cell too slow: later ones repeat what was found to fit
        # (and a batch was searched for under that very limit)
        first_time = phase is Pass.TIME and cell.batch is Batch.FIXED and not self.ledger.measured(cell)
        first_call = suite.budget.seconds / 2 if first_time or phase is Pass.FIT else None
        limits = Limits(
            seconds=suite.budget.seconds,
            timeout=suite.budget.timeout_seconds,
            memory_bytes=self.memory_bytes(cell, phase),
            first_call=first_call,
            flops=self._least_flops(cell) if phase is Pass.TIME else 0.0,
            roof=self.run_info.surroundings.roof.get(cell.ceiling) if phase is Pass.TIME else None,
        )
        seed = draw_seed(suite.seed, cell, replicate)
        warmup, B = self.ledger.warmup(cell), self.ledger.batch(cell)
        return Job(cell=cell, phase=phase, replicate=replicate, seed=seed, B=B, warmup=warmup, limits=limits)

    def _least_flops(self, cell: Cell) -> float:
        """That a call executes at least: by the method's formula, or as torch counted them in its checks, whichever is more."""
        cost, p = self.run_info.costs.get(cell.key), cell.problem
        B = self.ledger.batch(cell) or p.B
        stated = cost.executed_flops * B / p.B if cost is not None else 0.0
        return max(stated, self.ledger.counted_flops(cell) * B * p.H)

    def memory_bytes(self, cell: Cell, phase: Pass) -> int | None:
        """The suite's share of what was free at the start; the device's allocator knows its own limit."""
        if cell.device_kind != "cpu":
            return None
        share = self.run_info.suite.budget.memory
        if phase is Pass.FIT:
            # what just fits would fail in a pass that looks at it while it runs
            share *= FIT_SHARE
        elif phase is main_pass(cell) and cell.batch is Batch.LARGEST and cell.allocator is Allocator.RETAIN:
            # it was found to fit: what the heap keeps between calls, in pieces that no tensor fits into, is not the method's
            share = max(share, min(_PIECES * share, _MOST_MEMORY))
        return int(share * self.run_info.surroundings.memory_bytes)

    def _do(self, job: Job) -> Record:
        self.on_start(job)
        self._in_flight = job
        with self.lane.held(self.run_info.surroundings):
            started = _now()
            answer, seconds = self._worker.ask(self._with_folder(job), job.limits.timeout)
        self._in_flight = None
        if not isinstance(answer, Measured | Failed):
            answer = Failed(status=Status.ERROR, reason=f"the worker answered with a {type(answer).__name__}")
        return self._taken(self._record(job, answer, started, seconds))

    def _with_folder(self, job: Job) -> Job:
        """What a record never says: where on this machine the checkpoints are."""
        if self.checkpoints is None or job.phase is not Pass.TRAIN:
            return job
        return job.model_copy(update={"folder": str(self.checkpoints.absolute())})

    def _note(self, job: Job, reason: Failed) -> Record:
        """A record for a cell that was not started."""
        return self._taken(self._record(job, reason, _now(), None))

    def _taken(self, record: Record) -> Record:
        self.ledger.add(record)
        return record

    def _record(self, job: Job, outcome: Measured | Failed, started: str, seconds: float | None) -> Record:
        return Record(job=job, outcome=outcome, environment=self.run_info.environment_digest, started=started, seconds=seconds)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
