"""The scene that all measuring shares: a warm worker, the lane of the device, the run folder, and who is told."""

import secrets
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

from attnbench.measure import environment
from attnbench.places.checkout import Checkout
from attnbench.places.lane import Lane
from attnbench.places.local import Local
from attnbench.places.place import Made, Place
from attnbench.schema.errand import Surroundings
from attnbench.schema.errors import UsageError
from attnbench.schema.noun import Facts
from attnbench.schema.record import Record
from attnbench.schema.run import Elsewhere, RunInfo
from attnbench.schema.suite import Suite
from attnbench.session.asked import Impl
from attnbench.session.machine import disturbance
from attnbench.session.progress import Progress
from attnbench.session.reporter import Reporter
from attnbench.session.scout import Scouted, scout, surveyed
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation
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
    portions: tuple[Portion, ...] = (ALL,)
    """The parts of this machine that are measured on at the same time, a lane on each."""
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
        self.lane = lane or self._new_lane(how.portions[0])
        self.worker = self._new_worker(how.portions[0])
        self._is_new = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.worker.close()

    def _new_lane(self, portion: Portion) -> Lane:
        return Lane(self.how.wait, self.say, self.how.command, portion.name)

    def _new_worker(self, portion: Portion) -> Isolation:
        folder, packages = (self._source.folder, self._source.packages) if self._source else (None, None)
        return Isolation(self.how.fresh, folder, packages, portion)

    def isolation(self) -> Isolation:
        """The worker that is warm already for the first round, and a new one for each that follows."""
        first, self._is_new = self._is_new, False
        return self.worker if first else self._new_worker(self.how.portions[0])

    def scout(self, suite: Suite, *, roof: bool = True) -> Scouted:
        """Ask the machine and the methods; raises ScoutError, TooManyCellsError, LaneTakenError.

        What is free is shared by the lanes of a CPU.
        """
        scouted, (portion, *_) = scout(suite, self.worker, roof=roof, lane=self.lane), self.how.portions
        if not portion.cores:
            return scouted
        share = {"memory_bytes": scouted.surroundings.memory_bytes // portion.of}
        return replace(scouted, surroundings=scouted.surroundings.model_copy(update=share))

    def describe(self, scouted: Scouted) -> RunInfo:
        """What run.json will say of a run that begins now."""
        now, facts = datetime.now(UTC), self._environment(scouted.surroundings)
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

    def _environment(self, surroundings: Surroundings) -> Facts:
        """What numbers depend on. Two GPUs of one kind are like devices; which of them measured stands in each record."""
        facts = environment.gather() | {name: fact for name, fact in surroundings.facts.items() if name != "gpu_uuid"}
        portion = self.how.portions[0]
        return facts | ({"cores": len(portion.cores), "lanes": portion.of} if portion.cores else {})

    def lanes(self, info: RunInfo) -> list[RunInfo]:
        """The run as each lane has it, on its own device; unlike devices are told in the first. Raises ScoutError."""
        found = [info]
        for portion in self.how.portions[1:]:
            here = info.surroundings
            if portion.gpu:
                with self._new_worker(portion) as worker:
                    here = surveyed(info.suite.device, info.cells, worker, self._new_lane(portion), like=here)
            facts = self._environment(here)
            changes = {"environment": facts, "environment_digest": environment.digest(facts), "surroundings": here}
            found.append(info.model_copy(update=changes))
        unlike = {i.environment_digest: i for i in found if i.environment_digest != info.environment_digest}
        elsewhere = {key: Elsewhere(environment=i.environment, surroundings=i.surroundings) for key, i in unlike.items()}
        found[0] = info.model_copy(update={"elsewhere": info.elsewhere | elsewhere})
        return found

    def create(self, scouted: Scouted) -> RunFolder:
        """The folder of a run that begins now; raises StoreError."""
        return RunFolder.create(Path(self.how.results), self.describe(scouted))

    def place(self, info: RunInfo) -> Local:
        """Where the jobs of a run are done, one after the other."""
        return Local(info, self.isolation, None, self.lane)

    def places(self, lanes: Sequence[RunInfo], checkpoints: Path) -> list[Local]:
        """Where the jobs of each lane are done."""
        found = []
        for number, (info, portion) in enumerate(zip(lanes, self.how.portions, strict=True)):
            server = partial(self._new_worker, portion) if number else self.isolation
            found.append(Local(info, server, checkpoints, self._new_lane(portion) if number else self.lane, portion))
        return found

    @contextmanager
    def writing(self, folder: RunFolder, lost: str) -> Iterator[list[Record]]:
        """Keep other writers out; gives the records that there are, after `lost` is said of those that cannot be read.

        Raises LockedError, StoreError.
        """
        with ExitStack() as held:
            lock = held.enter_context(FolderLock(folder.lock))
            parts = folder.parts() if folder.part is None else []
            for part in parts:
                held.enter_context(FolderLock(part.lock))
            records = [*(record for part in parts for record in part.read()), *folder.repair()]
            if lock.took_over:
                self.say(f"took over the lock of {lock.took_over}, which is gone")
            for line in folder.set_aside:
                self.say(f"a record was set aside and {lost}: {line}")
            if words := disturbance():
                self.say(words)
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


def refuse_changes(path: Path, known: RunInfo, present: RunInfo) -> None:
    """A run goes on only where nothing has changed on which its numbers depend. Raises UsageError."""
    if different := known.differences(present):
        lines = "\n  ".join(different)
        raise UsageError(f"{path} cannot be continued; what has changed since:\n  {lines}\nstart a new one instead")
