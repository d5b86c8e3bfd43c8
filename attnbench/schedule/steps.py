"""Steps: what a schedule asks of a place, one at a time; it is sent the record of each before it gives the next."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record


class Server(NamedTuple):
    """A warm server, from which the processes of jobs are forked; once a job is of another round, those of this one are closed.

    Children of a server share its address layout: one server for all would hide the variance between processes.
    """

    round: tuple[int, ...]
    side: int = 0
    """Of two that are measured in turns."""


@dataclass(frozen=True)
class Step:
    """A job that is to be done."""

    job: Job
    server: Server
    settled: Failed | None = None
    """How it failed, where it need not be started."""


Schedule = Generator[Step, Record, None]
"""Gives steps, and is sent the record of each."""
