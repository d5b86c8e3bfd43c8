"""`attnbench run`: from a suite to a run folder with records, tables and plots."""

import secrets
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from attnbench.cli.collect import collect, exits_when_interrupted, lane_of_command
from attnbench.cli.doctor import disturbance
from attnbench.cli.errors import FAILED, UsageError
from attnbench.cli.progress import Progress
from attnbench.cli.report import make_report
from attnbench.cli.select import check_methods, select
from attnbench.cli.signals import Interrupted
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.local import LocalExecutor
from attnbench.executors.scout import Scouted, scout
from attnbench.measure import environment
from attnbench.schema.run import RunInfo
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation

_ASK_ABOVE = 1000


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    suite: str
    impls: tuple[str, ...]
    device: str | None
    replicates: int | None
    results: Path
    resume: Path | None
    fresh: bool
    yes: bool
    wait: bool = True
    """Whether another run that measures on the device is waited for."""


def run_suite(options: Options) -> None:
    """Measure; exits with 130 or 143 when interrupted, after saving, and with 1 where no cell was measured."""
    with exits_when_interrupted():
        _run(options)


def _run(options: Options) -> None:
    # whom the methods are asked by measures the first round too: a server takes two seconds to get warm
    lane = lane_of_command(wait=options.wait)
    with Isolation(fresh=options.fresh) as worker:
        begin = _begin(options, worker, lane) if options.resume is None else _go_on(options, options.resume, worker, lane)
        _measure(options, *begin, worker, lane)


def _begin(options: Options, worker: Isolation, lane: Lane) -> tuple[RunFolder, Scouted, RunInfo]:
    if not options.suite:
        raise UsageError("name a suite: attnbench run quick, or attnbench run path/to/suite.yaml")
    loaded, suite = select(options.suite, options.impls, options.device, options.replicates)
    scouted = scout(suite, worker, lane=lane)
    check_methods(loaded, scouted)
    _ask_if_many(len(scouted.cells), options)
    info = describe_run(scouted)
    return RunFolder.create(options.results, info), scouted, info


def _go_on(options: Options, path: Path, worker: Isolation, lane: Lane) -> tuple[RunFolder, Scouted, RunInfo]:
    """Ask everything anew for a run that goes on, and refuse where it would not be the same run."""
    folder = RunFolder(path)
    info = folder.info()
    suite = info.suite
    if options.suite:
        _, suite = select(options.suite, options.impls, options.device, options.replicates)
    scouted = scout(suite, worker, roof=False, lane=lane)
    present = describe_run(scouted)
    silent = {name: failed.reason for name, failed in scouted.failures.items() if name in info.methods}
    if silent:
        lines = "\n  ".join(f"method.{name}: {reason}" for name, reason in silent.items())
        raise UsageError(f"{path} cannot be continued; what could be asked then, and cannot now:\n  {lines}")
    if different := info.differences(present):
        lines = "\n  ".join(different)
        raise UsageError(f"{path} cannot be continued; what has changed since:\n  {lines}\nstart a new run instead")
    return folder, scouted, present


def describe_run(scouted: Scouted, source: Path | None = None) -> RunInfo:
    """What run.json will say; `source` is the checkout that the methods come from, else the current one."""
    now = datetime.now(UTC)
    facts = environment.gather() | scouted.surroundings.facts
    return RunInfo(
        id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        suite=scouted.suite,
        # names of files may be bytes that are no text
        command=shlex.join(["attnbench", *sys.argv[1:]]).encode(errors="replace").decode(),
        started=now.isoformat(timespec="seconds"),
        environment=facts,
        environment_digest=environment.digest(facts),
        git=environment.git_state(source or Path.cwd()),
        surroundings=scouted.surroundings,
        methods=scouted.descriptions_without_prospects(),
        cells=scouted.cells,
        costs=scouted.costs(),
    )


def _ask_if_many(count: int, options: Options) -> None:
    if count <= _ASK_ABOVE or options.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"the suite has {count:,} cells; add --yes to measure them all")
    typer.confirm(f"The suite has {count:,} cells. Go on?", abort=True)


def _measure(options: Options, folder: RunFolder, scouted: Scouted, present: RunInfo, first: Isolation, lane: Lane) -> None:
    servers = iter([first])
    with FolderLock(folder.path) as lock:
        known = folder.info()
        info = known.with_answers_of(present)
        if info != known:
            folder.rewrite(info)
        records = folder.repair()
        progress = Progress(info, records)
        if lock.took_over:
            progress.say(f"took over the lock of {lock.took_over}, which is gone")
        for line in folder.set_aside:
            progress.say(f"a record was set aside and its cell is measured again: {line}")
        executor = LocalExecutor(
            run_info=info,
            ledger=Ledger.of(records),
            refusals=scouted.refusals(),
            check_cells=scouted.check_cells(),
            isolation=lambda: next(servers, None) or Isolation(fresh=options.fresh),
            on_start=progress.starts,
            checkpoints=folder.checkpoints,
            lane=lane,
        )
        if words := disturbance():
            progress.say(words)
        size = f"{len(info.cells)} cells x {info.suite.replicates} replicates"
        progress.say(f"{size} on {info.surroundings.device}: {folder.path}")
        _collect(executor, folder, progress)
        make_report(folder)
        anything = any(map(executor.ledger.measured, info.cells))
    progress.say(f"\nrecords, tables and plots: {folder.path}")
    if not anything:
        progress.say("no cell was measured")
        sys.exit(FAILED)


def _collect(executor: LocalExecutor, folder: RunFolder, progress: Progress) -> None:
    try:
        with progress:
            collect(executor, folder, progress.took)
    except Interrupted:
        progress.say(f"what was measured is kept; go on with: attnbench run --resume {shlex.quote(str(folder.path))}")
        raise
