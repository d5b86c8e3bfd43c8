"""Scores as tables: a summary at one length, and each metric by lengths."""

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score, share_of_dense
from attnbench.analyze.sections import Section
from attnbench.analyze.stops import longest, stops
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.metrics import RECALL, ScoreMetric, main_metric, metrics
from attnbench.report.questions.fidelity.notes import score_notes
from attnbench.report.text.statuses import stop_text
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.units import length, three_digits


def score_summary(findings: Findings, section: Section) -> Table:
    """One row per method, at the longest length that most of them reach: its scores, and of fidelity at which cost."""
    N, shown = section.common_length, metrics(section.workload, section.summaries)
    where, costs = f"at {length(N)}" if N else "(nothing measured)", section.workload is Workload.FIDELITY
    cost = "FLOPs of dense: those that the definition needs, hashing and the like included, over those of dense attention."
    best = RECALL if costs else main_metric(section.workload)
    return Table(
        title=f"Summary: {section.title}",
        headers=(
            *("method", "tier", "longest N", *(f"{each.name} {where}" for each in shown)),
            *((f"FLOPs of dense {where}",) if costs else ()),
            "stopped by",
        ),
        rows=tuple(
            (
                *(findings.names[label], findings.tier(series[0]), _longest(series)),
                *(_at(section, label, N, each) for each in shown),
                *((_share(findings, section, label, N),) if costs else ()),
                "; ".join(stop_text(stop, series) for stop in stops(series)),
            )
            for label, series in section.series.items()
        ),
        bold=_best(section, N, best, 3 + shown.index(best)) if N else frozenset(),
        notes=(
            *(each.note(section.summaries) for each in shown),
            *((cost,) if costs else ()),
            *score_notes(findings, section.summaries),
        ),
    )


def score_tables(findings: Findings, section: Section) -> list[Table]:
    """Methods by lengths, for each metric."""
    return [_by_length(findings, section, metric) for metric in metrics(section.workload, section.summaries)]


def _longest(series: tuple[CellSummary, ...]) -> str:
    last = longest(series)
    return length(last.cell.problem.N) if last else "none"


def _at(section: Section, label: str, N: int | None, metric: ScoreMetric) -> str:
    cell = section.at(label, N) if N else None
    return "" if cell is None else metric.text(cell)


def _share(findings: Findings, section: Section, label: str, N: int | None) -> str:
    cell = section.at(label, N) if N else None
    share = share_of_dense(cell, findings.run) if cell and cell.ok else None
    return "" if share is None else f"{three_digits(100 * share)}%"


def _by_length(findings: Findings, section: Section, metric: ScoreMetric) -> Table:
    rows = [
        (findings.names[label], findings.tier(series[0]), *(_at(section, label, N, metric) for N in section.lengths))
        for label, series in section.series.items()
    ]
    about = metric.note(section.summaries)
    return Table(
        title=f"{metric.name.capitalize()}: {section.title}",
        headers=("method", "tier", *(f"N={length(N)}" for N in section.lengths)),
        rows=tuple(rows),
        bold=frozenset(place for column, N in enumerate(section.lengths, 2) for place in _best(section, N, metric, column)),
        notes=(about, "Bold: best at its length, and whatever overlaps with it.", *score_notes(findings, section.summaries)),
    )


def _best(section: Section, N: int, metric: ScoreMetric, column: int) -> frozenset[tuple[int, int]]:
    """Rows of the most, or the least error, and those whose range overlaps with theirs."""
    found = {label: s for label, cell in section.ok_at(N).items() if (s := score(cell, metric.key)) is not None}
    pick = min if metric.is_loss else max
    best = pick(found.values(), key=lambda s: s.value, default=None)
    return frozenset(
        (row, column)
        for row, label in enumerate(section.series)
        if best is not None and label in found and found[label].interval.overlaps(best.interval)
    )
