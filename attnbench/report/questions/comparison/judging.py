"""From what was recorded to a judgement: of two runs, or of the methods of one run against a baseline."""

from collections.abc import Iterable, Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.compare import Pair, Terms, compare, same_cells
from attnbench.analyze.main_counter import steady_counter
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baselines
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.text.names import shorten
from attnbench.schema.run import RunInfo

_MOST = 12
"""Differences between two runs that are told one by one."""
Side = tuple[RunInfo, Sequence[CellSummary]]


def judge_runs(old: Side, new: Side, margin: float, level: float) -> Judgement:
    """Cells of one key against each other; paired where the two runs were measured in turns."""
    (before, old_cells), (now, new_cells) = old, new
    terms = Terms(margin, level, paired=bool(now.interleaved) and now.interleaved == before.interleaved)
    counter = steady_counter([*old_cells, *new_cells])
    found = compare(same_cells(old_cells, new_cells), terms, counter)
    title = f"{now.suite.name}: {now.id} against {before.id}"
    return Judgement(title, (_name(before), _name(now)), tuple(found), terms, counter, tuple(_differences(before, now)))


def judge_methods(findings: Findings, baseline: str | None, margin: float, level: float) -> Judgement:
    """Every method against one label of the same run, or against the strongest exact softmax of each length."""
    pairs = [pair for section in findings.sections for pair in _against(section, baseline)]
    terms, counter = Terms(margin, level, paired=True), steady_counter(findings.summaries)
    found = compare(pairs, terms, counter)
    over = baseline or "the strongest exact softmax"
    title = f"{findings.run.suite.name}: methods against {over}, run {findings.run.id}"
    return Judgement(title, (over, "method"), tuple(found), terms, counter)


def _against(section: Section, baseline: str | None) -> Iterable[Pair]:
    for N in section.lengths:
        base = section.at(baseline, N) if baseline else next(iter(baselines(section.ok_at(N).values())), None)
        cells = [cell for label in section.series if (cell := section.at(label, N)) is not None]
        yield from (Pair(base, cell) for cell in cells if cell is not base)


def _name(run: RunInfo) -> str:
    """The commit where it is known, which says more than a date."""
    commit = run.git.get("commit")
    changed = "+" if run.git.get("dirty") else ""
    return f"{str(commit)[:10]}{changed}" if commit else run.id


def _differences(old: RunInfo, new: RunInfo) -> list[str]:
    """What else is different: versions, machine, suite."""
    lines = [shorten(line, 160) for line in old.differences(new)]
    more = [f"{len(lines) - _MOST} more differences stand in the two run.json"] if len(lines) > _MOST else []
    return [f"Not alike: {line}." for line in [*lines[:_MOST], *more]]
