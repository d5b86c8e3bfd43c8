"""What the tests of schedules play: a worker that answers jobs by a function, and runs that nobody started."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from attnbench.places.local import Local
from attnbench.places.place import carry_out
from attnbench.schedule.steps import Schedule
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Answer, Errand, Job, Pass, Surroundings
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Measured, Outcome, Series
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.suite.expand import expand

HERE = Surroundings(device="cpu", facts={}, memory_bytes=1000, roof={})


def measured(job: Job) -> Outcome:
    return Measured(samples={"time": Series(unit="s", values=(1.0, 2.0))}, facts={"warmup_calls": 7})


@dataclass
class FakeWorker:
    """Answers jobs by a function and remembers them; it is its own server, started anew each time it is called."""

    answer: Callable[[Job], Outcome] = measured
    jobs: list[Job] = field(default_factory=list)
    servers: int = 0

    def __call__(self) -> Self:
        self.servers += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        assert isinstance(errand, Job)
        self.jobs.append(errand)
        return self.answer(errand), 0.1

    def cut(self) -> None: ...

    def held(self, surroundings: Surroundings) -> AbstractContextManager[None]:
        return nullcontext()

    def environment(self) -> Facts:
        return {}

    def place(self, info: RunInfo, checkpoints: Path | None = None) -> Local:
        return Local(info, self, checkpoints)

    def timed(self) -> list[Job]:
        return [job for job in self.jobs if job.phase is Pass.TIME]


def run_of(suite: dict[str, Any], cells: tuple[Cell, ...] | None = None, **fields: Any) -> RunInfo:
    """A run of a suite on a CPU; of all its cells, if none are named."""
    resolved = Suite.model_validate(suite, strict=False).resolved("cpu")
    planned = {"cells": tuple(expand(resolved)) if cells is None else cells, "surroundings": HERE, "methods": {}, **fields}
    return RunInfo(id="x", suite=resolved, command="", started="", environment={}, environment_digest="e", **planned)


def small(cell: Cell) -> Cell:
    """The cell on which the method of another one is checked."""
    return cell.reshaped(B=1, H=2, kv_heads=2, N=64)


def records_of(schedule: Schedule, info: RunInfo, worker: "FakeWorker", checkpoints: Path | None = None) -> list[Record]:
    """What becomes of a schedule at a place of which the worker is played."""
    return [record for _, record in carry_out(schedule, worker.place(info, checkpoints))]
