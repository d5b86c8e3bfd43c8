"""The length from which on one method is ahead of another: read off a run, or measured around where the lead changes."""

import shlex
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import recorded
from attnbench.analyze.speedup import baseline
from attnbench.library.answers import Answer, title
from attnbench.library.runs import Run, RunLike, read
from attnbench.places.place import carry_out
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.table import crossover_csv, crossover_tables, lines
from attnbench.report.text.numbers import percent
from attnbench.report.text.table import wrapped
from attnbench.schedule.bisection import Goal, grown, of_lengths, side_by_side, wanted
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import rounds
from attnbench.schema.cell import Workload
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.figures import FIGURES
from attnbench.schema.units import counted
from attnbench.session.asked import SuiteLike, check_methods, narrowed, pick, pick_one, placing, select, share
from attnbench.session.progress import Progress, block_of, processes
from attnbench.session.scene import How, Measuring, Scene, only_read
from attnbench.session.scout import Scouted
from attnbench.store.run_folder import RunFolder
from attnbench.suite.load import SuiteError, shipped

_LONGEST_NAME, _REPLICATES = 64, 5
_RESOLUTION, _POINTS = "10%", 6


def crossover(  # noqa: PLR0913 - one parameter an option
    source: RunLike | SuiteLike,
    *,
    of: str | None = None,
    over: str | None = None,
    metric: str = "time",
    measure: bool = False,
    resolution: float | str = _RESOLUTION,
    max_points: int = _POINTS,
    minutes: float | None = None,
    **how: Unpack[Measuring],
) -> Answer:
    """Find from which length on one method is ahead of another: of a run, or of a suite that is measured for it."""
    near = share(resolution, "resolution")
    if measure:
        goal = Goal(of or "", over or "", metric, near, max_points)
        findings = Run(_measured(source, goal, minutes, How.of(how, "crossover", source))).findings  # type: ignore[arg-type]
    elif isinstance(source, Run) or (isinstance(source, str | Path) and Path(source).is_dir()):
        given = {"resolution": (resolution, _RESOLUTION), "max_points": (max_points, _POINTS), "minutes": (minutes, None)}
        for name, (value, usual) in given.items():
            if value != usual:
                raise ArgumentError(name, value, "it says how a suite is measured; a run folder is only read")
        only_read(how)
        findings = read(source).findings
    else:
        raise UsageError(
            f"{source} is no run folder; to measure the suite of that name: "
            f"attnbench crossover {shlex.quote(str(source))} --of METHOD --over METHOD --measure"
        )
    compared = _versus(findings, of, over, metric)
    said = lines(findings, compared)
    if measure and any(crossing.reach > 1 + near for pair in compared for crossing in pair.crossover.crossings):
        advice = "more replicates narrow an interval, a larger --max-points a bracket"
        said.append(f"not all of it is known to ±{percent(near)}: {advice}")

    def image(form: str) -> bytes:
        # matplotlib takes a second to import
        from attnbench.report.questions.crossover.figure import crossover_plot

        return crossover_plot(findings, compared, form)

    tables = crossover_tables(findings, compared)
    return Answer(title(findings.run), tables, lambda: "\n".join(map(wrapped, said)), lambda: crossover_csv(compared), image)


def _versus(findings: Findings, of: str | None, over: str | None, metric: str) -> list[Versus]:
    """Return all pairs that are asked for, section by section; by default every method against the strongest exact softmax.

    Raises UsageError where a name or the metric is not the run's, or no section has both methods.
    """
    known = recorded(findings.summaries, findings.run)
    if metric not in known:
        has = f"it has: {', '.join(known) or 'no numbers at all'}"
        raise ArgumentError("metric", metric, f"no cell of the run has that; {has}")
    chosen = known[metric]
    ours = pick(of, findings.labels, "of") if of is not None else findings.labels
    theirs = pick_one(over, findings.labels, "over") if over is not None else None
    if theirs is not None and ours == [theirs]:
        raise UsageError(f"--of and --over both name {theirs}; there is nothing to compare")
    found = []
    for section in findings.sections:
        other = theirs if theirs is not None else baseline(section)
        if other in section.series and any(chosen.values(cell) for cell in section.summaries):
            found += [Versus(section, label, other, chosen) for label in ours if label != other and label in section.series]
    if not found and theirs is None:
        other = next((label for label in findings.labels if ours != [label]), "METHOD")
        none = f"the run has no baseline beside {of or 'a method'}, of the suite or else the strongest exact softmax"
        raise UsageError(f"{none}; name one: --over {other}")
    if not found:
        raise UsageError(f"no section of the run has both {of or 'another method'} and {theirs}")
    return found


def _measured(suite: SuiteLike, goal: Goal, minutes: float | None, how: How) -> RunFolder:
    """Measure two methods on the lengths of a suite, then on those around which the lead changes.

    Of the goal, `of` and `over` are words as the caller wrote them. Raises UsageError, ScoutError, StoreError.
    """
    if not goal.of or not goal.over:
        raise UsageError("--measure needs both methods: --of METHOD --over METHOD")
    if goal.metric not in FIGURES:
        raise ArgumentError("metric", goal.metric, f"what can be measured for is {', '.join(FIGURES)}")
    if isinstance(suite, str | Path) and Path(suite).is_dir() and suite not in shipped():
        raise UsageError(f"--measure takes a suite; {suite} is a folder, and is read without it")
    with Scene(how) as scene:
        scouted, goal = _scouted(suite, goal, scene)
        folder, added = scene.create(scouted), Counter[str]()
        info, jobs = folder.info(), scouted.jobs(folder.info(), Ledger())
        with scene.writing(folder, "its cell is measured again"):
            begin = time.monotonic()
            scene.begins(f"{counted(len(info.cells), 'cell')} x {counted(info.suite.replicates, 'replicate')}", [info], folder)
            kept = "what was measured is kept; read it with: attnbench crossover {} --of METHOD --over METHOD"
            while True:
                progress = Progress(how.reporter, processes(info), block_of(info), folder.records())
                place = scene.place(info)
                scene.collect(carry_out(rounds(jobs), place, begins=progress.starts), [place], folder, progress, kept)
                if minutes is not None and time.monotonic() - begin > 60 * minutes:
                    scene.say(f"{minutes:g} minutes are over; no length is added")
                    return folder
                if not (lengths := wanted(info, goal, folder.read(), added)):
                    return folder
                try:
                    asked = scene.scout(of_lengths(info.suite, lengths.values()), roof=False)
                except SuiteError:
                    # a `when` leaves no cell of the next length
                    return folder
                if not (new := grown(info, goal, lengths, asked.cells)):
                    return folder
                jobs = asked.added_to(jobs, new)
                info = jobs.run_info
                added.update(lengths.keys())
                folder.rewrite(info)
                for section, N in lengths.items():
                    scene.say(f"next N = {N:,}, near where the lead changes: {section}")


def _scouted(given: SuiteLike, goal: Goal, scene: Scene) -> tuple[Scouted, Goal]:
    """Return the suite with nothing but the two methods of the goal, and the goal with their labels."""
    how = scene.how
    loaded, suite = select(given, how.impl, how.device, how.replicates or _REPLICATES)
    # the first one alone too, so that an error names the right argument
    narrowed(suite, (goal.of,), "of")
    suite = narrowed(suite, (goal.of, goal.over), "over")
    name = f"crossover-{suite.name}"[:_LONGEST_NAME]
    with placing(loaded):
        scouted = scene.scout(suite.model_copy(update={"name": name}))
    check_methods(loaded, scouted)
    # what is learnt has the length of its task, and no others to bisect
    workloads = tuple(workload for workload in scouted.suite.workloads if workload is not Workload.TRAIN)
    if not workloads:
        raise UsageError(
            "--measure looks between the lengths of a suite, and this one only trains; attnbench run, then read it"
        )
    cells = [cell for cell in scouted.cells if cell.workload is not Workload.TRAIN]
    labels = list(dict.fromkeys(cell.label for cell in cells))
    goal = replace(goal, of=pick_one(goal.of, labels, "of"), over=pick_one(goal.over, labels, "over"))
    if goal.of == goal.over:
        raise UsageError(f"--of and --over both name {goal.of}; there is nothing to compare")
    both = side_by_side(cells, scouted.suite.axes, frozenset({goal.of, goal.over}))
    if not both:
        raise UsageError(f"the suite has no section with both {goal.of} and {goal.over}; look at its every `when`")
    return replace(scouted, suite=scouted.suite.model_copy(update={"workloads": workloads}), cells=both), goal
