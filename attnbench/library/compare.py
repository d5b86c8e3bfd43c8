"""Verdicts on two stored runs, the methods of one, a cell that is measured again, or two commits that are measured in turns."""

import shlex
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Unpack

from attnbench.analyze.compare import level_of, looks, unclear
from attnbench.analyze.quantities import TIME, recorded
from attnbench.analyze.verdict import LEVEL, Ratio, resolution
from attnbench.library.answers import Comparison
from attnbench.library.measuring import run as measure
from attnbench.library.runs import Run, RunLike, read
from attnbench.places.checkout import checkout
from attnbench.places.place import Place, carry_out
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison.judgement import Judgement, judge_methods, judge_runs
from attnbench.report.text.numbers import percent
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import CHANCE, Ledger
from attnbench.schedule.rounds import turns
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.outcome import Status
from attnbench.schema.run import RunInfo
from attnbench.schema.units import counted
from attnbench.session.asked import SuiteLike, cells_meant, check_methods, one_of, placing, select, share
from attnbench.session.progress import Progress, block_of
from attnbench.session.reporter import Reporter
from attnbench.session.scene import How, Measuring, Scene, only_read
from attnbench.store.cache import known_noise_floor
from attnbench.store.lock import locked
from attnbench.store.run_folder import RunFolder

_REPLICATES = 20


def compare(
    *runs: RunLike,
    baseline: str | None = None,
    live: str | None = None,
    suite: SuiteLike | None = None,
    margin: float | str = "5%",
    metric: str = TIME,
    across_machines: bool = True,
    **how: Unpack[Measuring],
) -> Comparison:
    """Judge two runs, the old one first; or the methods of one; or, `live`, another commit and the present one in turns.

    By time, or by any other figure of stored runs. Where verdicts must say something of a change alone,
    `across_machines=False` refuses runs of unlike machines.
    """
    reach = share(margin, "margin")
    if live is not None or suite is not None:
        if runs or baseline:
            raise UsageError("--live GIT_REF --suite SUITE measures; it takes neither runs nor --baseline")
        if metric != TIME:
            raise UsageError("--live measures and judges time; give --metric with stored runs")
        return Comparison.of(_in_turns(suite, live, reach, How.of(how, "compare", live, suite)))
    only_read(how)
    if len(runs) not in {1, 2}:
        raise UsageError("name two runs, or one (its methods are compared), or --live GIT_REF --suite SUITE")
    if baseline and len(runs) == 2:
        raise UsageError("--baseline names a method of one run; with two runs the first is the baseline")
    old, *others = (read(each).findings for each in runs)
    if baseline is not None and not others:
        one_of(old.labels, baseline, "baseline")
    for other in others:
        # a verdict says something of a change; a difference between two machines says nothing of it
        if not across_machines and (unlike := _unlike(old, other)):
            raise UsageError(
                f"the runs are of unlike machines: {unlike[0]}; and {unlike[1]}. What differs between them is "
                "no regression; measure both on one machine, or judge them all the same with --across-machines"
            )
    # time is always judged, for failures are told by it
    known = {name: None for findings in (old, *others) for name in recorded(findings.summaries, findings.run)}
    if metric != TIME and metric not in known:
        there = ", ".join(known) or "no numbers at all"
        raise UsageError(f"--metric {metric}: no cell of the runs has that; they have: {there}")
    if not others:
        return Comparison.of(judge_methods(old, baseline, reach, LEVEL, metric))
    return Comparison.of(judge_runs(old, others[0], reach, LEVEL, metric))


def _unlike(old: Findings, new: Findings) -> tuple[str, str] | None:
    """Return the machines on which a cell was measured in two runs, where they are not alike; one such pair is enough."""
    before = {cell.cell.key: old.run.on(cell.environment).machine for cell in old.summaries}
    for cell in new.summaries:
        there, here = before.get(cell.cell.key), new.run.on(cell.environment).machine
        if there is not None and there != here:
            return there, here
    return None


def rerun(run: RunLike, cell: str, *, margin: float | str = "5%", **how: Unpack[Measuring]) -> tuple[Run, Comparison]:
    """Measure a cell of a stored run in a run folder of its own; return that run, and the verdict on both, the old one first.

    `cell` is the beginning of a key, as the column `cell` of table.csv has it; or a method with its parameters, as
    `linear.chunked(chunk=64)`, all of whose cells are measured. Raises ArgumentError where no cell is meant or several keys
    begin so, and what `run` raises.
    """
    How.of(how, "rerun", without=("impl", "device"))
    reach, then = share(margin, "margin"), read(run)
    chosen = cells_meant(then.info.cells, cell)
    made = measure(then.info.suite, cells=lambda _: chosen, **how)
    keys = {each.key for each in chosen}
    old = [summary for summary in then.findings.summaries if summary.cell.key in keys]
    # of methods that were not asked now nothing is to be said
    methods = {name: then.info.methods[name] for name in made.info.methods if name in then.info.methods}
    before = Findings.over(then.info.model_copy(update={"methods": methods}), old)
    return made, Comparison.of(judge_runs(before, made.findings, reach, LEVEL))


def gate(
    suite: SuiteLike | None = None,
    *,
    base: str | None = None,
    stored: tuple[RunLike, RunLike] | None = None,
    margin: float | str = "5%",
    across_machines: bool = False,
    **how: Unpack[Measuring],
) -> Comparison:
    """Judge whether a change may pass: a commit and the present one, measured now, or two runs. The answer's `code` says so.

    A margin that this machine cannot resolve is refused, where `selfcheck` has found out what it resolves.
    """
    asked = How.of(how, "gate", suite)
    reach = share(margin, "margin")

    def refuse_finer(run: RunInfo, replicates: int) -> None:
        known = known_noise_floor(run.environment_digest)
        least = known.at(replicates) if known else None
        if known is not None and least is not None and reach < least:
            tells = f"this machine tells {percent(least)} from chance with {replicates} replicates"
            more = "and nothing finer; use a larger margin or more replicates"
            raise ArgumentError("margin", percent(reach), f"{tells} (attnbench selfcheck, run {known.run}), {more}")
        if least is None:
            asked.reporter.say("the smallest effect that this machine can tell from chance is not known: attnbench selfcheck")

    if (stored is None) == (base is None and suite is None):
        raise UsageError("name a suite and --base GIT_REF, which are measured in turns; or --stored BASE_RUN NEW_RUN")
    if stored is None:
        return Comparison.of(_in_turns(suite, base, reach, asked, refuse_finer))
    only_read(how, "max_replicates")
    runs = [read(run) for run in stored]
    judged = compare(*runs, margin=margin, across_machines=across_machines)
    refuse_finer(runs[1].info, min(run.info.suite.replicates for run in runs))
    return judged


def _in_turns(
    suite: SuiteLike | None,
    ref: str | None,
    margin: float,
    how: How,
    check_margin: Callable[[RunInfo, int], object] = lambda *_: None,
) -> Judgement:
    """Judge the present methods against those of another commit; both sides leave a run folder.

    `check_margin` is told the present run and the replicates a side at most, and may refuse before anything is measured.
    Raises UsageError, CheckoutError, ScoutError, StoreError.
    """
    if not ref or not suite:
        raise UsageError("name both, a suite to measure and a commit to measure it against, as origin/main")
    most = how.replicates or _REPLICATES
    loaded, asked = select(suite, how.impl, how.device, most)
    with checkout(ref, Path.cwd()) as commit, ExitStack() as stack:
        new = stack.enter_context(Scene(how))
        base = stack.enter_context(Scene(how, commit, new.lane))
        with placing(loaded):
            now = new.scout(asked)
        # of one machine, and so of one roof
        before = replace(base.scout(now.suite, roof=False), surroundings=now.surroundings)
        check_methods(loaded, now, before)
        sources = [{name: about.version for name, about in each.descriptions.items()} for each in (before, now)]
        if sources[0] == sources[1] != {}:
            how.reporter.say(
                f"all methods have the same source at {ref} as now: what differs is chance, or code outside of them"
            )
        info = new.describe(now)
        check_margin(info, most)
        sides = []
        for name, scene, scouted in (("base", base, before), ("new", new, now)):
            # one word for both
            changes = {"id": f"{info.id}-{name}", "started": info.started, "interleaved": info.id}
            own = scene.describe(scouted).model_copy(update=changes)
            folder = RunFolder.create(Path(how.results), own)
            stack.enter_context(locked(folder.lock))
            # nothing is called lost on one try
            ledger = Ledger(doubted=dict.fromkeys(Status, 2) | CHANCE)
            sides.append(_Side(folder, scouted.jobs(own, ledger), scene.place(own)))
        new.warn([info])
        return _judged((sides[0], sides[1]), ref, margin, how, most)


@dataclass(frozen=True)
class _Side:
    """One of two commits that are measured in turns."""

    folder: RunFolder
    jobs: CellJobs
    place: Place


def _judged(sides: tuple[_Side, _Side], ref: str, margin: float, how: How, most: int) -> Judgement:
    """Look after 5, 10, 20, … replicates, each time going on with what is still unclear."""
    say, steps = how.reporter.say, looks(most)
    wanted = {cell.key for cell in sides[1].jobs.run_info.cells}
    say(f"{counted(len(wanted), 'cell')}, in turns with {ref}, up to {most} replicates a side: {sides[1].folder.path}")
    for before, step in pairwise((0, *steps)):
        _measure(sides, range(before, step), wanted, how.reporter)
        old, new = (Run(side.folder).findings for side in sides)
        judgement = judge_runs(old, new, margin, level_of(len(steps)))
        if not before:
            say(told_apart([c.ratio for c in judgement.comparisons if c.ratio], margin))
        wanted = unclear(judgement.comparisons)
        if not wanted or step == most:
            break
        say(f"unclear after {step} replicates: {len(wanted)} of {counted(len(judgement.comparisons), 'cell')}; going on")
    for side in sides:
        # runs like any other: as many replicates as were made, with tables and plots
        side.folder.rewrite(_of(side.jobs.run_info, step))
        Run(side.folder).report()
    return judgement


def _measure(sides: tuple[_Side, _Side], replicates: range, wanted: Collection[str], reporter: Reporter) -> None:
    """Measure replicates of the cells that are wanted on both sides; progress counts those of the second."""
    left = {(key, replicate) for key in wanted for replicate in replicates}
    schedule = turns((sides[0].jobs, sides[1].jobs), replicates, wanted)
    try:
        with Progress(reporter, left, block_of(_of(sides[1].jobs.run_info, replicates.stop))) as progress:
            made = carry_out(schedule, *(side.place for side in sides), begins=lambda _, job: progress.starts(0, job))
            for side, record in made:
                sides[side].folder.append(record)
                if side == 1:
                    progress.took(record)
    except KeyboardInterrupt:
        # what was in flight is a record too
        for each in sides:
            if (unfinished := each.place.interrupted()) is not None:
                each.folder.append(unfinished)
        paths = " ".join(shlex.quote(str(side.folder.path)) for side in sides)
        reporter.say(f"what was measured is kept; judge it as it is with: attnbench compare {paths}")
        raise


def _of(info: RunInfo, replicates: int) -> RunInfo:
    return info.model_copy(update={"suite": info.suite.model_copy(update={"replicates": replicates})})


def told_apart(ratios: Iterable[Ratio], margin: float) -> str:
    """`after 5 replicates a side ±3.1% is told from chance (worst cell ±12%); a verdict at 5% takes about 4 (…)`."""
    found = resolution(ratios, margin)
    if found is None:
        return "nothing can be told apart yet: no cell has two replicates a side"
    several = found.worst > found.typical
    worst = (f" (worst cell ±{percent(found.worst)})", f" (worst cell {found.enough_for_worst})") if several else ("", "")
    return (
        f"after {found.replicates} replicates a side ±{percent(found.typical)} is told from chance{worst[0]}; "
        f"a verdict at the margin of {percent(margin)} takes about {found.enough}{worst[1]}"
    )
