"""Generating as a table: sequences and tokens per second, and how much faster than softmax with a cache and without one."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.main_counter import STATE
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import speedup, strongest_exact
from attnbench.report.conditions import model_note, notes, state_notes
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import by_length, model_of, where
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import factor, margin, timed
from attnbench.report.text.statuses import short
from attnbench.report.text.table import Table
from attnbench.schema.training import Task
from attnbench.schema.units import bytes_, three_digits

_SOFTMAX, _UNCACHED = "softmax.", "softmax.recompute"
_ANEW = "whole prefix anew"
_TIME, _RATE = 3, 4
"""Columns that are bold for the fastest."""


def generate_tables(findings: Findings, section: Section) -> list[Table]:
    """One for each length; a row a method, one that failed included."""
    return [_table(findings, part) for part in by_length(section)]


def _table(findings: Findings, section: Section) -> Table:
    bases, what = _baselines(findings, section), _made(section)
    over = [f"speed-up over {name}" for name in map(_named, bases)] or ["speed-up (no exact softmax ran)"]
    (N,) = section.lengths
    first = fastest(section, N)
    rows = [row for row, cell in enumerate(section.summaries) if cell.cell.label in first]
    return Table(
        title=f"Generating: {where(section)}",
        headers=(
            *("method", "tier", "B", "time per sequence", f"{what}/s", "tokens/s", "state of one sequence"),
            *(*over, "stopped by"),
        ),
        rows=tuple(_row(findings, cell, bases) for cell in section.summaries),
        bold=frozenset((row, column) for row in rows for column in (_TIME, _RATE)),
        notes=(*_explained(section, bases, what), *state_notes(section.summaries), *notes(findings, section.summaries)),
    )


def _made(section: Section) -> str:
    model = model_of(section)
    return "images" if model is not None and model.task is Task.PIXELS else "sequences"


def _baselines(findings: Findings, section: Section) -> list[CellSummary]:
    """The methods that the suite names; else the strongest exact one that keeps a cache, and the one that keeps none."""
    named = findings.run.suite.report.baselines
    if named:
        return [s for s in section.summaries if s.cell.method in named]
    strongest = strongest_exact(s for s in section.summaries if s.cell.method != _UNCACHED)
    without = [s for s in section.summaries if s.cell.method == _UNCACHED]
    return [s for s in (strongest, *without) if s is not None]


def _named(base: CellSummary) -> str:
    """`softmax.sdpa (cached)`."""
    return f"{base.cell.label} ({_how(base)})" if base.cell.method.startswith(_SOFTMAX) else base.cell.label


def _how(base: CellSummary) -> str:
    return "uncached" if base.cell.method == _UNCACHED or base.facts.get("generation") == _ANEW else "cached"


def _row(findings: Findings, cell: CellSummary, bases: Sequence[CellSummary]) -> tuple[str, ...]:
    start = (findings.names[cell.cell.label], findings.tier(cell))
    if cell.time is None:
        return (*start, "", short(cell.status), "", "", "", *("" for _ in bases or " "), short(cell.status))
    rate, state = cell.time.under(1.0), STATE.per_sample(cell)
    return (
        *(*start, f"{cell.B:,}"),
        timed(cell.time),
        three_digits(rate.value) + margin(rate),
        three_digits(rate.value * cell.tokens / cell.B),
        "n/a" if state is None else bytes_(state),
        *([_speedup(base, cell) for base in bases] or [""]),
        "",
    )


def _speedup(base: CellSummary, cell: CellSummary) -> str:
    return "1 (baseline)" if base is cell else factor(speedup(base, cell)) or "n/a"


def _explained(section: Section, bases: Sequence[CellSummary], what: str) -> list[str]:
    anew = [s.cell.label for s in section.summaries if s.ok and s.facts.get("generation") == _ANEW]
    about = {"cached": "keeps keys and values", "uncached": "keeps nothing and attends the whole prefix again for each token"}
    kinds = dict.fromkeys(_how(base) for base in bases if base.cell.method.startswith(_SOFTMAX))
    return [
        f"A call makes B sequences of N tokens, one token after the other, from nothing; {what}/s: B over its time. "
        "Bold: fastest, and whatever overlaps with it.",
        *([f"Softmax, {'; '.join(f'{kind}: {about[kind]}' for kind in kinds)}."] if kinds else []),
        "Speed-up: time of one sequence of the baseline over that of the method, replicates paired, each at its own B.",
        *([f"Whole prefix anew for each token: {', '.join(map(one_line, anew))}."] if anew else []),
        f"{model_note(section.summaries)} Its weights are as they were drawn: speed knows nothing of them.".strip(),
    ]
