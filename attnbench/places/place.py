"""What a place is, and how a schedule is carried out in one, or in two."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol, Self

from attnbench.schedule.steps import Schedule, Step
from attnbench.schema.record import Record


class Place(Protocol):
    """Where jobs are done: on this machine, or on others."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def do(self, step: Step) -> Record:
        """Do a job, whatever becomes of it; one that is settled is not started, and took no seconds."""

    def interrupted(self) -> Record | None:
        """Return the record of the job that an interruption ended, if there was one."""


def carry_out(schedule: Schedule, *places: Place) -> Iterator[tuple[int, Record]]:
    """Give each record with its side as soon as it exists; the caller stores it before it asks for the next.

    The steps of a side are done in the place of that number; one place takes those of all sides.
    """
    with ExitStack() as opened:
        for place in places:
            opened.enter_context(place)
        step = next(schedule, None)
        while step is not None:
            side = step.server.side if len(places) > 1 else 0
            record = places[side].do(step)
            yield side, record
            try:
                step = schedule.send(record)
            except StopIteration:
                return
