"""Another commit and the present one, measured in turns until the verdicts are clear or the replicates are spent."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from attnbench.analyze.cells import summarize
from attnbench.analyze.gate import level_of, looks, unclear
from attnbench.cli.collect import lane_of_command
from attnbench.cli.doctor import disturbance
from attnbench.cli.errors import UsageError
from attnbench.cli.progress import Progress
from attnbench.cli.run import describe_run
from attnbench.cli.select import check_methods, select
from attnbench.cli.signals import Interrupted
from attnbench.cli.told_apart import told_apart
from attnbench.executors.checkout import Checkout, checkout
from attnbench.executors.interleaved import Interleaved
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.local import LocalExecutor
from attnbench.executors.scout import Scouted, scout
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.judging import judge_runs
from attnbench.schema.outcome import Status
from attnbench.schema.run import RunInfo
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.worker.isolate import Isolation


@dataclass(frozen=True)
class Live:
    """What is to be measured, and until when."""

    ref: str | None
    suite: str
    impls: tuple[str, ...]
    device: str | None
    margin: float
    most: int
    """Replicates a side at most."""
    results: Path
    fresh: bool = False
    wait: bool = True
    """Whether another run that measures on the device is waited for."""


@dataclass
class _Side:
    """One of the two: where its records go, and who measures."""

    folder: RunFolder
    info: RunInfo
    executor: LocalExecutor


def measure_live(live: Live, check_margin: Callable[[float, str, int], object] = lambda *_: None) -> Judgement:
    """Judge the present methods against those of another commit; both sides leave a run folder.

    `check_margin(margin, environment digest, replicates)` may refuse before anything is measured. Raises UsageError,
    CheckoutError, ScoutError.
    """
    if not live.ref or not live.suite:
        raise UsageError("name both, a suite to measure and a commit to measure it against, as origin/main")
    loaded, suite = select(live.suite, live.impls, live.device, live.most)
    with checkout(live.ref, Path.cwd()) as base, ExitStack() as stack:
        # warm from here on: whom the methods are asked by measures the first round too
        workers = [stack.enter_context(worker) for worker in (_isolation(live, base), _isolation(live, None))]
        lane = lane_of_command(wait=live.wait)
        new = scout(suite, workers[1], lane=lane)
        old = _scout_base(new, workers[0], lane)
        check_methods(loaded, new, old)
        check_margin(live.margin, describe_run(new).environment_digest, live.most)
        sides = _sides(live, (old, new), base, workers, lane)
        for side in sides:
            stack.enter_context(FolderLock(side.folder.path))
        return _measured(live, sides)


def _isolation(live: Live, base: Checkout | None) -> Isolation:
    return Isolation(live.fresh, base.folder, base.packages) if base else Isolation(live.fresh)


def _isolations(live: Live, base: Checkout | None, warm: Isolation) -> Callable[[], Isolation]:
    """The one that is warm already for the first round, and a new one for each that follows."""
    first = iter([warm])
    return lambda: next(first, None) or _isolation(live, base)


def _scout_base(new: Scouted, worker: Isolation, lane: Lane) -> Scouted:
    """The other commit's methods, asked about the same cells; of one machine, and so of one roof."""
    old = scout(new.suite, worker, roof=False, lane=lane)
    old.surroundings = new.surroundings
    return old


def _sides(
    live: Live, scouted: tuple[Scouted, Scouted], base: Checkout, workers: Sequence[Isolation], lane: Lane
) -> list[_Side]:
    """Old and new, with a run folder each and one word for both."""
    now = describe_run(scouted[1])
    infos = (describe_run(scouted[0], base.folder), now)
    found = []
    for name, info, asked, worker, source in zip(("base", "new"), infos, scouted, workers, (base, None), strict=True):
        info = info.model_copy(update={"id": f"{now.id}-{name}", "started": now.started, "interleaved": now.id})  # noqa: PLW2901
        executor = LocalExecutor(
            run_info=info,
            # nothing is called lost on one try
            ledger=Ledger(doubted=frozenset(Status)),
            refusals=asked.refusals(),
            check_cells=asked.check_cells(),
            isolation=_isolations(live, source, worker),
            lane=lane,
        )
        found.append(_Side(RunFolder.create(live.results, info), info, executor))
    return found


def _measured(live: Live, sides: Sequence[_Side]) -> Judgement:
    """Look after 5, 10, 20, … replicates, each time going on with what is still unclear."""
    steps = looks(live.most)
    progress = Progress(_of(sides[1].info, steps[0]), [])
    wanted = {cell.key for cell in sides[1].info.cells}
    turns = Interleaved((sides[0].executor, sides[1].executor))
    if words := disturbance():
        progress.say(words)
    progress.say(f"{len(wanted)} cells, in turns with {live.ref}, up to {live.most} replicates a side: {sides[1].folder.path}")
    with progress:
        for before, step in pairwise((0, *steps)):
            _collect(turns, range(before, step), wanted, sides, progress)
            judgement = _judged(sides, live.margin, level_of(len(steps)))
            if not before:
                progress.say(told_apart([c.ratio for c in judgement.comparisons if c.ratio], live.margin))
            wanted = unclear(judgement.comparisons)
            if not wanted or step == live.most:
                break
            progress.say(f"{len(wanted)} of {len(judgement.comparisons)} cells are unclear after {step} replicates: going on")
    _finish(sides, step)
    return judgement


def _collect(turns: Interleaved, replicates: range, wanted: set[str], sides: Sequence[_Side], progress: Progress) -> None:
    """Store what comes; what was in flight when the user interrupts is a record too."""
    try:
        for side, record in turns.run(replicates, wanted):
            sides[side].folder.append(record)
            if side == 1:
                progress.took(record)
    except Interrupted:
        for side, record in turns.interrupted():
            sides[side].folder.append(record)
        folders = " ".join(shlex.quote(str(side.folder.path)) for side in sides)
        progress.say(f"what was measured is kept; judge it as it is with: attnbench compare {folders}")
        raise


def _judged(sides: Sequence[_Side], margin: float, level: float) -> Judgement:
    old, new = ((side.info, summarize(side.info.cells, side.folder.read())) for side in sides)
    return judge_runs(old, new, margin, level)


def _finish(sides: Sequence[_Side], done: int) -> None:
    """Runs like any other: as many replicates as were made, with tables and plots."""
    # pandas and matplotlib take seconds to import, and comparing stored runs needs neither
    from attnbench.report import write

    for side in sides:
        info = _of(side.info, done)
        side.folder.rewrite(info)
        write.write(side.folder.path, Findings.of(info, side.folder.read()))


def _of(info: RunInfo, replicates: int) -> RunInfo:
    return info.model_copy(update={"suite": info.suite.model_copy(update={"replicates": replicates})})
