"""This machine, or a part of it: one process for each job, one job at a time on its device."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from attnbench.places.lane import Lane
from attnbench.places.place import INTERRUPTED, record_of
from attnbench.schedule.steps import Server, Step
from attnbench.schema.errand import Answer, Errand, Job, Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.worker.isolate import Isolation
from attnbench.worker.portion import ALL, Portion


class Asking(AbstractContextManager["Asking"], Protocol):
    """The part of an Isolation that a place needs."""

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer, and the seconds that the process lived."""

    def cut(self) -> None:
        """End an errand that another thread waits for."""


@dataclass
class Local(AbstractContextManager["Local"]):
    """Does the jobs of a run in processes of their own; warm servers are closed when a job of another round comes."""

    run_info: RunInfo
    isolation: Callable[[], Asking] = Isolation
    """Makes a server."""
    checkpoints: Path | None = None
    """The folder of the files from which an interrupted training is resumed."""
    lane: Lane = field(default_factory=Lane)
    portion: Portion = ALL
    _open: dict[Server, Asking] = field(default_factory=dict, init=False, repr=False)
    _servers: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _in_flight: Job | None = field(default=None, init=False)
    _is_cut: bool = field(default=False, init=False, repr=False)
    lost: bool = field(default=False, init=False)

    def __exit__(self, *_: object) -> None:
        self._servers.close()
        self._open.clear()

    @property
    def device(self) -> str:
        """Name it in a record: the UUID of a GPU, or the cores; `cpu` for all of them."""
        return str(self.run_info.surroundings.facts.get("gpu_uuid") or self.portion.name or "cpu")

    def do(self, step: Step) -> Record:
        """Do a job, or settle it without starting anything."""
        if step.settled is not None:
            return record_of(self.run_info, self, step.job, step.settled)
        if any(server.round != step.server.round for server in self._open):
            self.__exit__()
        if step.server not in self._open:
            self._open[step.server] = self._servers.enter_context(self.isolation())
        if self._is_cut:
            self._open[step.server].cut()
        self._in_flight = errand = step.job
        if self.checkpoints is not None and errand.phase is Pass.TRAIN:
            # the folder of the checkpoints is for the worker only and not for the record, which names no place on this machine
            errand = errand.model_copy(update={"folder": str(self.checkpoints.absolute())})
        with self.lane.held(self.run_info.surroundings):
            started = datetime.now(UTC)
            answer, seconds = self._open[step.server].ask(errand, errand.limits.timeout)
        if not self._is_cut:
            self._in_flight = None
        if not isinstance(answer, Measured | Failed):
            answer = Failed(status=Status.ERROR, reason=f"the worker answered with a {type(answer).__name__}")
        return record_of(self.run_info, self, step.job, answer, started=started, seconds=seconds)

    def cut(self) -> None:
        """End what is being done, as another thread waits for it."""
        self._is_cut = True
        self.lane.cut()
        for server in list(self._open.values()):
            server.cut()

    def interrupted(self) -> Record | None:
        """Return the record of the job that an interruption ended, if there was one."""
        return record_of(self.run_info, self, self._in_flight, INTERRUPTED) if self._in_flight else None
