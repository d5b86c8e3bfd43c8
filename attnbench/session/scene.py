"""The scene that all measuring shares: a warm worker, the lane of the device, the run folder, and who is told."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypedDict

from attnbench.measure import environment
from attnbench.places.checkout import Checkout
from attnbench.places.lane import Lane
from attnbench.places.place import Made, Place
from attnbench.places.station import LocalStation, Station
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import Elsewhere, RunInfo, joined, new_id
from attnbench.schema.suite import Suite
from attnbench.session.asked import Impl
from attnbench.session.machine import disturbance, old_assembler
from attnbench.session.progress import Progress
from attnbench.session.reporter import Reporter
from attnbench.session.scout import CellsOf, Scouted, environment_of, scout, surveyed
from attnbench.store.lock import locked
from attnbench.store.run_folder import RunFolder
from attnbench.suite.expand import expand
from attnbench.worker.portion import ALL, Portion


class Measuring(TypedDict, total=False):
    """Arguments of every function that measures; `How` says what they mean."""

    impl: Impl
    device: str | None
    replicates: int | None
    results: str | Path
    fresh: bool
    wait: bool
    reporter: Reporter


@dataclass(frozen=True, kw_only=True)
class How:
    """The way in which something is measured, whatever it is."""

    impl: Impl = ()
    """Attentions that are added to those of a suite."""
    device: str | None = None
    replicates: int | None = None
    results: str | Path = "results"
    """Where run folders are made."""
    fresh: bool = False
    """Whether each process is a new interpreter, and not a fork of a warm one."""
    wait: bool = True
    """Whether another run that measures on the device is waited for."""
    portions: tuple[Portion, ...] = (ALL,)
    """The parts of this machine that are measured on at the same time, a lane on each."""
    reporter: Reporter = field(default_factory=Reporter)
    command: str = "attnbench"
    """The command that measures the same; stands in run.json, and in the lock for which others wait."""

    @classmethod
    def of(cls, given: Measuring, *command: object, without: Sequence[str] = ()) -> Self:
        """Take the arguments as a caller gives them; without a typed command, its words are those of the call.

        Raises UsageError for no replicates, and where one is given that the call goes `without`: what it measures says that.
        """
        if (count := given.get("replicates")) is not None and count < 1:
            raise ArgumentError("replicates", count, "must be 1 or more")
        if refused := ", ".join(name for name in without if given.get(name)):
            raise UsageError(f"{command[0]} takes no {refused}; what it measures says that by itself")
        words = " ".join(str(word) for word in command if isinstance(word, str | Path))
        typed = given["reporter"].command if "reporter" in given else ""
        return cls(**given, command=typed or f"attnbench {words} (from Python)")


class Scene(AbstractContextManager["Scene"]):
    """Open it, scout, make or continue a run folder, collect.

    The worker that the methods are asked by measures the first round too: to start one takes two seconds.
    """

    def __init__(
        self, how: How, source: Checkout | None = None, lane: Lane | None = None, stations: Sequence[Station] = ()
    ) -> None:
        """Raise UsageError in a worker, which imports a script for the class in it and would wait for the run that asks."""
        if getattr(sys.modules["__main__"].__spec__, "name", "").startswith("attnbench.worker"):
            raise UsageError("it measures as it is imported; put that under `if __name__ == '__main__':`")
        self.how, self.say, self.source = how, how.reporter.say, source
        lanes = [Lane(how.wait, self.say, how.command, portion.name) for portion in how.portions]
        self.lane = lanes[0] = lane or lanes[0]
        # those of this machine, where no others are given
        self.stations = stations or [
            LocalStation(portion, how.fresh, source, lane) for portion, lane in zip(how.portions, lanes, strict=True)
        ]

    def __exit__(self, *_: object) -> None:
        for station in self.stations:
            station.__exit__(None, None, None)

    def scout(self, suite: Suite, cells_of: CellsOf = expand, *, roof: bool = True) -> Scouted:
        """Ask the first station and the methods there; raises ScoutError, TooManyCellsError, LaneTakenError."""
        scouted = scout(suite, self.stations[0], cells_of, roof=roof)
        if words := old_assembler(scouted.surroundings.facts):
            self.say(words)
        return scouted

    def describe(self, scouted: Scouted) -> RunInfo:
        """Return what run.json will say of a run that begins now."""
        now, facts = datetime.now(UTC), environment_of(self.stations[0], scouted.surroundings)
        return RunInfo(
            id=new_id(now),
            suite=scouted.suite,
            # names of files may be bytes that are no text
            command=self.how.command.encode(errors="replace").decode(),
            started=now.isoformat(timespec="seconds"),
            environment=facts,
            environment_digest=environment.digest(facts),
            git=environment.git_state(self.source.folder if self.source else Path.cwd()),
            surroundings=scouted.surroundings,
            methods=scouted.descriptions,
            cells=scouted.cells,
            costs=scouted.costs(),
        )

    def lanes(self, info: RunInfo) -> list[RunInfo]:
        """Return the run as each lane has it, on its own device; unlike devices are told in the first.

        Raises ScoutError, LaneTakenError.
        """
        found = [info]
        for station in self.stations[1:]:
            here = surveyed(info.suite.device, info.cells, station, like=info.surroundings)
            if not self.how.wait:
                # who does not want to wait leaves before any lane measures
                with station.held(here):
                    pass
            facts = environment_of(station, here)
            changes = {"environment": facts, "environment_digest": environment.digest(facts), "surroundings": here}
            found.append(info.model_copy(update=changes))
        unlike = {i.environment_digest: i for i in found if i.environment_digest != info.environment_digest}
        elsewhere = {key: Elsewhere(environment=i.environment, surroundings=i.surroundings) for key, i in unlike.items()}
        found[0] = info.model_copy(update={"elsewhere": info.elsewhere | elsewhere})
        return found

    def create(self, scouted: Scouted) -> RunFolder:
        """Create the folder of a run that begins now; raises StoreError."""
        return RunFolder.create(Path(self.how.results), self.describe(scouted))

    def place(self, info: RunInfo) -> Place:
        """Make the place where the jobs of a run are done, one after the other."""
        return self.stations[0].place(info)

    def places(self, lanes: Sequence[RunInfo], checkpoints: Path) -> list[Place]:
        """Make the place where the jobs of each lane are done."""
        return [station.place(info, checkpoints) for station, info in zip(self.stations, lanes, strict=True)]

    def warn(self, lanes: Sequence[RunInfo]) -> None:
        """Say what disturbs the devices of these lanes."""
        if words := disturbance(info.surroundings for info in lanes):
            self.say(words)

    def begins(self, what: str, lanes: Sequence[RunInfo], folder: RunFolder) -> None:
        """Say what disturbs these lanes; and what is measured, on which device, into which folder."""
        self.warn(lanes)
        self.say(f"{what} on {lanes[0].surroundings.device}: {folder.path}")

    @contextmanager
    def writing(self, folder: RunFolder, lost: str) -> Iterator[list[Record]]:
        """Keep other writers out; gives the records that there are, after `lost` is said of those that cannot be read.

        Raises LockedError, StoreError.
        """
        with ExitStack() as held:
            if folder.part is not None:
                # other parts may be written meanwhile, and the whole may not
                held.enter_context(locked(RunFolder(folder.path).lock, shared=True))
            for part in folder.parts():
                held.enter_context(locked(part.lock))
            took_over = held.enter_context(locked(folder.lock))
            each = [*folder.parts(), folder]
            records = [record for one in each for record in one.repair()]
            if took_over:
                self.say(f"took over the lock of {took_over}, which is gone")
            for line in (line for one in each for line in one.set_aside):
                self.say(f"a record was set aside and {lost}: {line}")
            yield records

    def collect(
        self,
        made: Made,
        places: Sequence[Place],
        folder: RunFolder,
        progress: Progress,
        kept: str,
        took: Callable[[Record], object] = id,
    ) -> None:
        """Store every record as it is made; of the jobs that an interruption ends, that they were interrupted.

        `kept` is said then: what is kept, and how to go on; `{}` in it becomes the folder, as a shell wants it.
        """
        try:
            # closed first, which ends what other lanes do
            with progress, closing(made):
                for lane, record in made:
                    folder.append(record)
                    progress.took(record, lane)
                    took(record)
        except KeyboardInterrupt:
            for place in places:
                if (unfinished := place.interrupted()) is not None:
                    folder.append(unfinished)
            self.say(kept.format(shlex.quote(str(folder.path))))
            raise


def only_read(how: Measuring, replicates: str = "replicates") -> None:
    """Refuse what says how a suite is measured, where it is not; of a command whose option is not called `replicates` its name.

    Raises ArgumentError.
    """
    given: dict[str, object] = {"impl": how.get("impl"), "device": how.get("device"), replicates: how.get("replicates")}
    results = str(how.get("results", How.results))
    given |= {
        "results": results if results != How.results else "",
        "fresh": how.get("fresh"),
        "no_wait": not how.get("wait", True),
    }
    for name, value in given.items():
        if value:
            raise ArgumentError(name, value, "it says how a suite is measured; a run folder is only read")


def refuse_changes(path: Path, known: RunInfo, present: RunInfo) -> None:
    """Refuse to go on where something has changed on which a run's numbers depend. Raises UsageError."""
    if different := known.differences(present):
        lines = "\n  ".join(different)
        raise UsageError(f"{path} cannot be continued; what has changed since:\n  {lines}\nstart a new one instead")


def going_on(known: RunInfo, present: RunInfo) -> RunInfo:
    """Return a stored run with what is known only now, on the GPU that measures now: it may be another of the same kind."""
    whole = joined(known, [present])
    here = whole.surroundings.model_copy(update={"facts": present.surroundings.facts})
    return whole.model_copy(update={"surroundings": here})
