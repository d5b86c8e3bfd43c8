"""Training as a table: what each method's model has learnt after its updates, and what an update costs."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.learnt import SEEDS, best_learnt, learnt
from attnbench.analyze.sections import Section
from attnbench.report.conditions import backends, machine, memory_notes, model_note, warnings
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import by_length, chance_note, qualities, training_notes, where
from attnbench.report.text.numbers import timed
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import Table
from attnbench.schema.outcome import ACCURACY, LOSS
from attnbench.schema.units import bytes_, three_digits

_ROUNDING = 1e-4
_BEFORE = 3
"""Columns before the first score."""


def train_tables(findings: Findings, section: Section) -> list[Table]:
    """One for each length; a row a method, one that failed included."""
    return [_table(findings, part) for part in by_length(section)]


def learnt_text(cell: CellSummary, metric: str) -> str:
    """`0.512 [0.498, 0.526]`, or `98.1% [97.0, 99.2]`; of one seed without a range; empty of a cell without the score."""
    found = learnt(cell, metric)
    if found is None:
        return ""
    scale, unit = (100.0, "%") if metric == ACCURACY else (1.0, "")
    value = f"{_digits(scale * found.value)}{unit}"
    low, high = (_digits(scale * end) for end in (found.interval.low, found.interval.high))
    return value if cell.replicates < 2 else f"{value} [{low}, {high}]"


def update_time(cell: CellSummary) -> str:
    """`12.3 ms (-1.0 +2.0%)`; empty of a cell without a time."""
    return "" if cell.time is None else timed(cell.time.times(cell.B))


def _digits(value: float) -> str:
    """Three; in exponent form where a loss is all but nothing."""
    return f"{value:.2e}" if 0 < abs(value) < _ROUNDING else three_digits(value)


def _table(findings: Findings, section: Section) -> Table:
    metrics = {LOSS: "loss, nats", **qualities(section)}
    headers = ("method", "tier", "parameters", *metrics.values(), "time per update", "memory of an update", "updates")
    return Table(
        title=f"Training: {where(section)}",
        headers=(*headers, "stopped by"),
        rows=tuple(_row(findings, cell, tuple(metrics)) for cell in section.summaries),
        bold=_bold(section, tuple(metrics)),
        notes=tuple(filter(None, (*_meaning(section), *_notes(findings, section.summaries)))),
    )


def _row(findings: Findings, cell: CellSummary, metrics: Sequence[str]) -> tuple[str, ...]:
    scores = [learnt_text(cell, metric) for metric in metrics]
    if not cell.ok:
        scores[0] = short(cell.status)
    done = f"{cell.cell.training.updates:,}" if cell.ok and cell.cell.training else ""
    end = "" if cell.ok else short(cell.status)
    start = (findings.names[cell.cell.label], findings.tier(cell), _parameters(cell))
    return (*start, *scores, update_time(cell), _memory(findings, cell), done, end)


def _parameters(cell: CellSummary) -> str:
    count = cell.facts.get("parameters")
    return f"{count:,}" if isinstance(count, int) else ""


def _memory(findings: Findings, cell: CellSummary) -> str:
    """Of the whole batch of an update."""
    value = findings.counter.per_sample(cell) if findings.counter else None
    if value is None:
        return "n/a" if cell.ok else ""
    return bytes_(value / cell.per_sample)


def _bold(section: Section, metrics: Sequence[str]) -> frozenset[tuple[int, int]]:
    (N,) = section.lengths
    best = {column: best_learnt(section, N, metric) for column, metric in enumerate(metrics, _BEFORE)}
    rows = list(enumerate(section.summaries))
    return frozenset((row, column) for column, labels in best.items() for row, cell in rows if cell.cell.label in labels)


def _meaning(section: Section) -> list[str]:
    cells = [(s, s.cell.training) for s in section.summaries if s.cell.training]
    # there may be fewer than were asked for
    held = {int(s.facts.get("held_out") or training.held_out) for s, training in cells}
    judged = f"{', '.join(map(str, sorted(held)))} held-out sequences"
    return [
        f"Loss: cross-entropy of {judged} after the last update, nats per judged token.",
        chance_note(section.summaries),
        "Bold: best, and whatever overlaps with it.",
        *seeds_notes(section.summaries),
    ]


def seeds_notes(summaries: Sequence[CellSummary]) -> list[str]:
    """How many seeds, and what stands in brackets."""
    counts = sorted({s.replicates for s in summaries if s.ok})
    if not counts:
        return ["No method was trained to its end."]
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    if n == "1":
        return ["n = 1: one seed, so no range; what another seed would give cannot be told."]
    kinds = [
        *(["95 % t interval of the mean"] if counts[-1] >= SEEDS else []),
        *([f"smallest and largest seed, below {SEEDS} seeds"] if counts[0] < SEEDS else []),
    ]
    return [
        f"n = {n} seeds, of weights and of data: their mean; in brackets {'; '.join(kinds)}. "
        "Time: median of the seeds' medians, with its range."
    ]


def _notes(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    return [
        model_note(summaries),
        *training_notes(summaries),
        *memory_notes(findings, summaries),
        *reasons(summaries),
        *warnings(findings, summaries),
        *backends(findings, summaries),
        machine(findings),
    ]
