"""Stations: a device of some machine, which can be asked and described, and which gives a place for the jobs of a run."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from attnbench.measure import environment
from attnbench.places.checkout import Checkout
from attnbench.places.lane import Lane
from attnbench.places.local import Local
from attnbench.places.place import Place
from attnbench.schema.errand import Answer, Errand, Surroundings
from attnbench.schema.noun import Facts
from attnbench.schema.run import RunInfo
from attnbench.worker.isolate import Isolation
from attnbench.worker.portion import ALL, Portion


class Station(AbstractContextManager["Station"], Protocol):
    """A device, on this machine or on another."""

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer to an errand that is done there, and the seconds that its process lived."""

    def held(self, surroundings: Surroundings) -> AbstractContextManager[None]:
        """Wait until nobody else measures there, then keep others waiting. Raises LaneTakenError."""

    def environment(self) -> Facts:
        """Return what numbers depend on there, besides the device."""

    def place(self, info: RunInfo, checkpoints: Path | None = None) -> Place:
        """Return the place for the jobs of a run that has this environment."""


@dataclass
class LocalStation(AbstractContextManager["LocalStation"]):
    """A portion of this machine. The worker that answers first is warm then, and does the jobs of the first round too."""

    portion: Portion = ALL
    fresh: bool = False
    source: Checkout | None = None
    """Where methods are taken from, if not from here."""
    lane: Lane = field(default_factory=Lane)
    _warm: Isolation | None = field(default=None, init=False, repr=False)

    def __exit__(self, *_: object) -> None:
        if self._warm is not None:
            self._warm.close()

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer; what is free on a CPU is shared by its lanes."""
        self._warm = self._warm or self._worker()
        answer, seconds = self._warm.ask(errand, timeout)
        if isinstance(answer, Surroundings) and self.portion.cores:
            answer = answer.model_copy(update={"memory_bytes": answer.memory_bytes // self.portion.of})
        return answer, seconds

    def held(self, surroundings: Surroundings) -> AbstractContextManager[None]:
        """Wait for the device, then keep others waiting. Raises LaneError, LaneTakenError."""
        return self.lane.held(surroundings)

    def environment(self) -> Facts:
        """Return the facts of this machine, and the share of its cores that is used."""
        cores = self.portion.cores
        return environment.gather() | ({"cores": len(cores), "lanes": self.portion.of} if cores else {})

    def place(self, info: RunInfo, checkpoints: Path | None = None) -> Local:
        """Return the place of a run on this portion."""
        return Local(info, self._server, checkpoints, self.lane, self.portion)

    def _server(self) -> Isolation:
        """Hand the warm worker out, once; then new ones."""
        worker, self._warm = self._warm or self._worker(), None
        return worker

    def _worker(self) -> Isolation:
        folder, packages = (self.source.folder, self.source.packages) if self.source else (None, None)
        return Isolation(self.fresh, folder, packages, self.portion)
