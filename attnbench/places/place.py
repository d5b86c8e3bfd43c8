"""A place does jobs; here a schedule is carried out in one place, or in two."""

import platform
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from typing import Protocol

from attnbench.schedule.steps import Schedule, Step
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed, Outcome, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

INTERRUPTED = Failed(status=Status.INTERRUPTED, reason="the run was interrupted during this job")
Told = Callable[[int, Job], object]
"""Is told the number of a side or lane, and the job that begins there."""
Made = Generator[tuple[int, Record]]
"""Records, each with the number of its side or lane."""


class Place(AbstractContextManager["Place"], Protocol):
    """A place where jobs are done: on this machine, or on others."""

    def do(self, step: Step) -> Record:
        """Do a job, whatever becomes of it; one that is settled is not started, and took no seconds."""

    @property
    def device(self) -> str:
        """Name the device, as records do."""

    @property
    def lost(self) -> bool:
        """Whether nothing more can be done here; the last job that was asked for failed by it."""

    def cut(self) -> None:
        """End what is being done, as another thread of this process waits for it."""

    def interrupted(self) -> Record | None:
        """Return the record of the job that an interruption ended, if there was one."""


def record_of(
    info: RunInfo,
    place: Place,
    job: Job,
    outcome: Outcome,
    *,
    host: str = "",
    started: datetime | None = None,
    seconds: float | None = None,
) -> Record:
    """Return the record of a job that was done in a place, on this host by default. One not started took no seconds."""
    when = (started or datetime.now(UTC)).isoformat(timespec="milliseconds")
    digest, host = info.environment_digest, host or platform.node()
    return Record(job=job, outcome=outcome, environment=digest, host=host, device=place.device, started=when, seconds=seconds)


def carry_out(schedule: Schedule, *places: Place, begins: Told = lambda *_: None) -> Made:
    """Give each record with its side as soon as it exists; the caller stores it before it asks for the next.

    The steps of a side are done in the place of that number; one place takes those of all sides.
    """
    with ExitStack() as opened:
        for place in places:
            opened.enter_context(place)
        step = next(schedule, None)
        while step is not None:
            side = step.server.side if len(places) > 1 else 0
            if step.settled is None:
                begins(side, step.job)
            record = places[side].do(step)
            yield side, record
            try:
                step = schedule.send(record)
            except StopIteration:
                return
