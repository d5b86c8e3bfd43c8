"""The scene that all measuring shares: a warm worker, the lane of the device, the run folder, and who is told."""

import secrets
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

from attnbench.measure import environment
from attnbench.places.checkout import Checkout
from attnbench.places.lane import Lane
from attnbench.places.local import Local
from attnbench.places.place import Place, carry_out
from attnbench.schedule.steps import Schedule
from attnbench.schema.errors import UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.session.asked import Impl
from attnbench.session.machine import disturbance
from attnbench.session.progress import Progress
from attnbench.session.reporter import Reporter
from attnbench.session.scout import Scouted, scout
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation


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
    """How something is measured, whatever it is."""

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
    reporter: Reporter = field(default_factory=Reporter)
    command: str = "attnbench"
    """The command that measures the same; stands in run.json, and in the lock for which others wait."""

    @classmethod
    def of(cls, given: Measuring, *command: object) -> Self:
        """Take the arguments as a caller gives them; without a typed command, its words are those of the call."""
        words = " ".join(str(word) for word in command if isinstance(word, str | Path))
        typed = given["reporter"].command if "reporter" in given else ""
        return cls(**given, command=typed or f"attnbench {words} (from Python)")


class Scene:
    """Open it, scout, make or continue a run folder, collect.

    The worker that the methods are asked by measures the first round too: to start one takes two seconds.
    """

    def __init__(self, how: How, source: Checkout | None = None, lane: Lane | None = None) -> None:
        self.how, self.say, self._source = how, how.reporter.say, source
        self.lane = lane or Lane(how.wait, self.say, how.command)
        self.worker = self._new_worker()
        self._is_new = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.worker.close()

    def _new_worker(self) -> Isolation:
        source = self._source
        return Isolation(self.how.fresh, source.folder, source.packages) if source else Isolation(self.how.fresh)

    def isolation(self) -> Isolation:
        """The worker that is warm already for the first round, and a new one for each that follows."""
        first, self._is_new = self._is_new, False
        return self.worker if first else self._new_worker()

    def scout(self, suite: Suite, *, roof: bool = True) -> Scouted:
        """Ask the machine and the methods; raises ScoutError, TooManyCellsError, LaneTakenError."""
        return scout(suite, self.worker, roof=roof, lane=self.lane)

    def describe(self, scouted: Scouted) -> RunInfo:
        """What run.json will say of a run that begins now."""
        now = datetime.now(UTC)
        facts = environment.gather() | scouted.surroundings.facts
        return RunInfo(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            suite=scouted.suite,
            # names of files may be bytes that are no text
            command=self.how.command.encode(errors="replace").decode(),
            started=now.isoformat(timespec="seconds"),
            environment=facts,
            environment_digest=environment.digest(facts),
            git=environment.git_state(self._source.folder if self._source else Path.cwd()),
            surroundings=scouted.surroundings,
            methods=scouted.descriptions_without_prospects(),
            cells=scouted.cells,
            costs=scouted.costs(),
        )

    def create(self, scouted: Scouted) -> RunFolder:
        """The folder of a run that begins now; raises StoreError."""
        return RunFolder.create(Path(self.how.results), self.describe(scouted))

    def place(self, info: RunInfo, progress: Progress | None = None, checkpoints: Path | None = None) -> Local:
        """Where the jobs of a run are done."""
        return Local(info, self.isolation, progress.starts if progress else id, checkpoints, self.lane)

    @contextmanager
    def writing(self, folder: RunFolder, lost: str) -> Iterator[list[Record]]:
        """Keep other writers out; gives the records that there are, after `lost` is said of those that cannot be read.

        Raises LockedError, StoreError.
        """
        with FolderLock(folder.path) as lock:
            records = folder.repair()
            if lock.took_over:
                self.say(f"took over the lock of {lock.took_over}, which is gone")
            for line in folder.set_aside:
                self.say(f"a record was set aside and {lost}: {line}")
            if words := disturbance():
                self.say(words)
            yield records

    def collect(
        self,
        schedule: Schedule,
        place: Place,
        folder: RunFolder,
        progress: Progress,
        kept: str,
        took: Callable[[Record], object] = id,
    ) -> None:
        """Store every record as it comes; of the job that an interruption ends, that it was interrupted.

        `kept` is said then: what is kept, and how to go on; `{}` in it becomes the folder, as a shell wants it.
        """
        try:
            with progress:
                for _, record in carry_out(schedule, place):
                    folder.append(record)
                    progress.took(record)
                    took(record)
        except KeyboardInterrupt:
            if (unfinished := place.interrupted()) is not None:
                folder.append(unfinished)
            self.say(kept.format(shlex.quote(str(folder.path))))
            raise


def refuse_changes(path: Path, known: RunInfo, present: RunInfo) -> None:
    """A run goes on only where nothing has changed on which its numbers depend. Raises UsageError."""
    if different := known.differences(present):
        lines = "\n  ".join(different)
        raise UsageError(f"{path} cannot be continued; what has changed since:\n  {lines}\nstart a new one instead")
