"""`attnbench crossover --measure`: two methods on the lengths of a suite, then on those around which the lead changes."""

import shlex
import time
from dataclasses import replace
from pathlib import Path

from attnbench.analyze.metric import USUAL
from attnbench.cli.choose import narrowed, pick_one
from attnbench.cli.collect import collect, exits_when_interrupted, lane_of_command
from attnbench.cli.crossover import Measuring
from attnbench.cli.doctor import disturbance
from attnbench.cli.errors import UsageError
from attnbench.cli.progress import Progress
from attnbench.cli.run import describe_run
from attnbench.cli.select import check_methods, select
from attnbench.cli.signals import Interrupted
from attnbench.executors.bisection import Bisection, Goal, side_by_side
from attnbench.executors.lane import Lane
from attnbench.executors.scout import Scouted, scout
from attnbench.schema.cell import Workload
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.suite.load import SuiteError, shipped
from attnbench.worker.isolate import Isolation

_LONGEST_NAME = 64


def measure(suite: str, of: str | None, over: str | None, metric: str, how: Measuring) -> RunFolder:
    """The run folder of what was measured; raises UsageError, SuiteError, ScoutError, StoreError.

    Exits with 130 or 143 when interrupted, after saving.
    """
    if of is None or over is None:
        raise UsageError("--measure needs both methods: --of METHOD --over METHOD")
    if metric not in USUAL:
        raise UsageError(f"--metric {metric}: what can be measured for is {', '.join(USUAL)}")
    if Path(suite).is_dir() and suite not in shipped():
        raise UsageError(f"--measure takes a suite; {suite} is a folder, and is read without it")
    # each round closes its server, and the next question or round starts one anew
    with exits_when_interrupted(), Isolation(how.fresh) as worker:
        lane = lane_of_command(wait=how.wait)
        scouted, goal = _scouted(suite, (of, over, metric), how, worker, lane)
        info = describe_run(scouted)
        folder = RunFolder.create(how.results, info)
        with FolderLock(folder.path):
            _measure(Bisection(info, goal, scouted.refusals(), scouted.check_cells(), lane), folder, worker, how)
    return folder


def _scouted(name: str, goal: tuple[str, str, str], how: Measuring, worker: Isolation, lane: Lane) -> tuple[Scouted, Goal]:
    """The suite with nothing but the two methods of the goal: of, over, metric."""
    of, over, metric = goal
    loaded, suite = select(name, how.impls, how.device, how.replicates)
    suite = narrowed(suite, (of, over), "--of, --over")
    title = f"crossover-{suite.name}"[:_LONGEST_NAME]
    scouted = scout(suite.model_copy(update={"name": title}), worker, lane=lane)
    check_methods(loaded, scouted)
    scouted = _without_training(scouted)
    labels = list(dict.fromkeys(cell.label for cell in scouted.cells))
    found = Goal(pick_one(of, labels, "--of"), pick_one(over, labels, "--over"), metric, how.resolution, how.most)
    if found.of == found.over:
        raise UsageError(f"--of and --over both name {found.of}; there is nothing to compare")
    cells = side_by_side(scouted.cells, scouted.suite.axes, frozenset({found.of, found.over}))
    if not cells:
        raise UsageError(f"the suite has no section with both {found.of} and {found.over}; look at its every `when`")
    return replace(scouted, cells=cells), found


def _without_training(scouted: Scouted) -> Scouted:
    """What is learnt has the length of its task, and no others to bisect; raises UsageError where there is nothing else."""
    workloads = tuple(workload for workload in scouted.suite.workloads if workload is not Workload.TRAIN)
    if not workloads:
        raise UsageError(
            "--measure looks between the lengths of a suite, and this one only trains; attnbench run, then read it"
        )
    cells = tuple(cell for cell in scouted.cells if cell.workload is not Workload.TRAIN)
    return replace(scouted, suite=scouted.suite.model_copy(update={"workloads": workloads}), cells=cells)


def _measure(search: Bisection, folder: RunFolder, worker: Isolation, how: Measuring) -> None:
    begin = time.monotonic()
    progress = Progress(search.run_info, [])
    if words := disturbance():
        progress.say(words)
    size = f"{len(search.run_info.cells)} cells x {how.replicates} replicates"
    progress.say(f"{size} on {search.run_info.surroundings.device}: {folder.path}")
    while True:
        _collect(search, folder, worker)
        if how.minutes is not None and time.monotonic() - begin > 60 * how.minutes:
            progress.say(f"{how.minutes:g} minutes are over; no length is added")
            return
        if not (added := _extend(search, folder, worker)):
            return
        folder.rewrite(search.run_info)
        for title, N in added.items():
            progress.say(f"next N = {N:,}, near where the lead changes: {title}")


def _extend(search: Bisection, folder: RunFolder, worker: Isolation) -> dict[str, int]:
    try:
        return search.extend(folder.read(), worker)
    except SuiteError:
        # a `when` leaves no cell of that length
        return {}


def _collect(search: Bisection, folder: RunFolder, worker: Isolation) -> None:
    progress = Progress(search.run_info, records := folder.records())
    try:
        with progress:
            collect(search.executor(records, lambda: worker, progress.starts), folder, progress.took)
    except Interrupted:
        path = shlex.quote(str(folder.path))
        progress.say(f"what was measured is kept; read it with: attnbench crossover {path} --of METHOD --over METHOD")
        raise
