"""Handing a run out to Slurm: an array of tasks, which measure its shards beside each other."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from attnbench.library.measuring import refuse_others
from attnbench.library.runs import Run
from attnbench.measure import environment
from attnbench.places import slurm
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import bundles
from attnbench.schema.errand import Surroundings
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.noun import Noun
from attnbench.schema.run import RunInfo, new_id
from attnbench.session.asked import Only, SuiteLike, placing, select
from attnbench.session.lanes import Shard, fill, is_whole
from attnbench.session.scene import How, Measuring
from attnbench.store.run_folder import RunFolder
from attnbench.suite.expand import expand

_MOST = 32
_EVERY, _PATIENCE = 5.0, 300.0
"""Seconds between two looks at the queue, and for how long Slurm may fail to answer."""


class Handed(Noun):
    """The facts of a run that was handed out: the shards, the jobs that measure them, and the folder they start in."""

    shards: int
    options: str
    here: str = ""
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submission:
    """A run in the hands of Slurm."""

    folder: RunFolder
    script: str
    shards: int
    jobs: tuple[str, ...] = ()
    submitted: tuple[int, ...] = ()
    """The numbers of the tasks that were submitted now."""

    def waiting(self) -> dict[int, str]:
        """Return the state of each task that waits or runs, by its number. Raises SlurmError."""
        return slurm.queued(self.jobs)

    def unfinished(self) -> list[int]:
        """Return the shards that are not measured whole. Raises StoreError."""
        info, found = self.folder.own(), []
        for number in range(1, self.shards + 1):
            part, ledgers = RunFolder(self.folder.path, number), dict[str, Ledger]()
            fill(ledgers, part.read())
            jobs = CellJobs(info, Ledger())
            if not all(is_whole(each, jobs, ledgers.values()) for each in Shard(number, self.shards).bundles(info.cells)):
                found.append(number)
        return found

    def wait(self, say: Callable[[str], object] = id, every: float = _EVERY) -> list[int]:
        """Wait until no task waits or runs; the shards that are unfinished then. Raises SlurmError."""
        told, silent_since = "", time.monotonic()
        while True:
            try:
                states = list(self.waiting().values())
                silent_since = time.monotonic()
            except slurm.SlurmError:
                # the controller may be started anew
                if time.monotonic() - silent_since > _PATIENCE:
                    raise
                time.sleep(every)
                continue
            if not states:
                return self.unfinished()
            counts = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
            if (words := f"{self.shards - len(states)} of {self.shards} tasks are over; {counts}") != told:
                told = words
                say(words)
            time.sleep(every)

    def endings(self, numbers: Sequence[int]) -> list[str]:
        """Say how these tasks ended, and where to read what they said."""
        lines = []
        for number in numbers:
            words = next(filter(None, (slurm.ended(job, number) for job in reversed(self.jobs))), "gone")
            lines.append(f"shard {number}/{self.shards}: {words}; {self.folder.path / f'slurm-{number}.out'}")
        return lines

    @property
    def run(self) -> Run:
        """The run, as far as it is measured."""
        return Run(self.folder)


def submit(
    suite: SuiteLike | None = None,
    *,
    resume: str | Path | None = None,
    only: Only | None = None,
    array: int | None = None,
    sbatch: str = "",
    dry_run: bool = False,
    **how: Unpack[Measuring],
) -> Submission:
    """Submit a run to Slurm as an array of so many tasks, each for a share of its bundles; or, to `resume`, what is missing.

    `sbatch` are further options of sbatch, as `--gres=gpu:1 --time=2:00:00`. The run folder has to lie where all nodes see it.
    A `dry_run` changes nothing, and answers with the script. Raises UsageError, SlurmError, StoreError.
    """
    asked = How.of(how, "run", suite)
    if array is not None and array < 1:
        raise ArgumentError("array", array, "must be 1 or more")
    if resume is not None:
        refuse_others(suite, only or Only(), how)
        if suite or array:
            raise UsageError("a run that was handed to Slurm goes on as it was begun; leave out the suite and array")
        return _what_is_missing(RunFolder(Path(resume).absolute()), sbatch, dry_run=dry_run)
    info = _planned(suite, only or Only(), asked)
    # a task without a bundle would have nothing to do
    shards = min(array or _MOST, len(bundles(info.cells)))
    folder = RunFolder.at(Path(asked.results).absolute(), info)
    handed = Handed(shards=shards, options=sbatch, here=str(Path.cwd()))
    known = _known(folder, info, handed)
    if dry_run:
        return known
    RunFolder.create(Path(asked.results).absolute(), info)
    # before Slurm is asked: what it refuses may be submitted later
    folder.keep("slurm.json", handed)
    return _submitted(known, handed, range(1, shards + 1))


def _planned(given: SuiteLike | None, only: Only, how: How) -> RunInfo:
    """Write what run.json says of a run before any node has seen it; nothing of the machine on which it is submitted."""
    loaded, suite = select(given, how.impl, how.device, how.replicates, only)
    if suite.device == "auto":
        raise ArgumentError(
            "device", "auto", "the nodes are not asked first; say what they have: --device cuda or --device cpu"
        )
    suite = suite.resolved("cuda:0" if suite.device == "cuda" else suite.device)
    now = datetime.now(UTC)
    with placing(loaded):
        cells = expand(suite)
    return RunInfo(
        id=new_id(now),
        suite=suite,
        command=how.command.encode(errors="replace").decode(),
        started=now.isoformat(timespec="seconds"),
        environment={},
        environment_digest="",
        git=environment.git_state(Path.cwd()),
        surroundings=Surroundings(device=suite.device, facts={}, memory_bytes=0, roof={}),
        methods={},
        cells=tuple(cells),
    )


def _what_is_missing(folder: RunFolder, sbatch: str, *, dry_run: bool) -> Submission:
    """Submit the shards that are neither measured nor in the queue."""
    handed = folder.recall("slurm.json", Handed, "a run that was handed to Slurm")
    # methods of one's own lie where the run was submitted first
    handed = handed.model_copy(update={"options": sbatch or handed.options, "here": handed.here or str(Path.cwd())})
    known = _known(folder, folder.own(), handed)
    if next(folder.own_records(), None) is not None:
        raise UsageError(f"{folder.path} has records of the whole run; go on here: attnbench run --resume {folder.path}")
    waiting = known.waiting()
    missing = [number for number in known.unfinished() if number not in waiting]
    if dry_run or not missing:
        return known
    return _submitted(known, handed, missing)


def _known(folder: RunFolder, info: RunInfo, handed: Handed) -> Submission:
    text = slurm.script(folder.path, info.suite.name, handed.shards, handed.options, Path(handed.here))
    return Submission(folder, text, handed.shards, handed.jobs)


def _submitted(known: Submission, handed: Handed, numbers: Sequence[int]) -> Submission:
    known.folder.keep("slurm.sh", known.script)
    try:
        jobs = (*known.jobs, slurm.submit(known.folder.path / "slurm.sh", numbers))
    except slurm.SlurmError as error:
        again = f"attnbench run --resume {shlex.quote(str(known.folder.path))} --on slurm"
        raise slurm.SlurmError(f"{error}; submit it again, with other options by --sbatch: {again}") from None
    known.folder.keep("slurm.json", handed.model_copy(update={"jobs": jobs}))
    return replace(known, jobs=jobs, submitted=tuple(numbers))
