"""What stands below a table of printed figures: what its words mean, and why there is no figure or no telling."""

import math
from collections.abc import Sequence
from itertools import groupby

from attnbench.analyze.published import Finding, Row
from attnbench.analyze.published_entries import in_short
from attnbench.analyze.published_figure import FEWEST
from attnbench.analyze.published_metrics import BATCH, MEMORY, MEMORY_GROWTH
from attnbench.report.conditions import machine, model_note, shapes
from attnbench.report.findings import Findings
from attnbench.report.questions.published.words import place
from attnbench.report.text.names import one_line, shorten

_PLACES, _LONGEST = 3, 240
"""Rows that are named for one reason; letters of a reason."""
_QUOTIENT = " / "
"""Stands between the two printed numbers that a ratio is computed from."""


def legend(rows: Sequence[Row]) -> list[str]:
    """What the columns mean, as far as they are used here."""
    computed = any(_QUOTIENT in row.entry.says for row in rows)
    but = ", but a ratio with two numbers beside it is computed from these two, which are printed" if computed else ""
    lines = [f"Published: as printed{but}; n/a where no figure was found, or none was printed."]
    figures = [row.figure for row in rows if row.figure]
    replicated = [figure for figure in figures if figure.interval and figure.metric not in {BATCH, MEMORY_GROWTH}]
    if replicated:
        counts = {figure.replicates for figure in replicated}
        n = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        lines.append(
            f"[a, b]: 95 % t interval over n = {n} replicates, each with its own seed; two methods are paired by replicate, "
            "ratios and rates by logarithms. "
            f"Without brackets: exact, or of fewer than {FEWEST} replicates."
        )
    if any(figure.interval and figure.metric == BATCH for figure in figures):
        lines.append("[a, b] of batches: all that what fitted and what did not leave open.")
    if any(figure.interval and figure.metric == MEMORY_GROWTH for figure in figures):
        lines.append("[a, b] of memory's growth: 95 % t interval of the fit, by how far the lengths lie from its line.")
    if any(row.judged for row in rows):
        lines.append(
            "Verdict, by the bounds in brackets: reproduced where the whole interval lies within, not reproduced where all "
            "of it lies outside, else cannot tell. Without bounds the figure only stands beside the printed one."
        )
    if any(math.isinf(end) for row in rows for end in row.entry.band or ()):
        lines.append(
            "A lower or an upper bound is judged on its one side. Reproduced means beyond it, by however much: it does not say "
            "that the printed value came out here."
        )
    counters = dict.fromkeys(figure.about for figure in figures if figure.metric == MEMORY and figure.about)
    return [*lines, *([f"Memory: {one_line(', '.join(counters))}."] if counters else [])]


def about(findings: Findings) -> list[str]:
    """Of what the figures of ours are: the model where there is one, the shapes, and the machine."""
    timed = [s for s in findings.summaries if s.cell.training is None]
    shaped = [f"Attention alone: {shapes(timed)}."] if timed else []
    return [*filter(None, [model_note(findings.summaries)]), *shaped, machine(findings)]


def reasons(rows: Sequence[Row]) -> list[str]:
    """`not run: Table 2: ... and 3 more: it needs a GPU`: one line for each reason."""
    found: dict[tuple[Finding, str], list[Row]] = {}
    for row in rows:
        if row.why:
            found.setdefault((row.finding, one_line(row.why)), []).append(row)
    return [f"{finding}: {_places(of)}: {shorten(why, _LONGEST)}" for (finding, why), of in found.items()]


def _places(rows: Sequence[Row]) -> str:
    """Figures of one printed table by its name and their number."""
    groups = [(written, list(of)) for written, of in groupby(rows, key=lambda row: row.entry.written)]
    places = [place(of[0]) if len(of) == 1 else one_line(f"{w.where}: {in_short(w)} ({len(of)})") for w, of in groups]
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    return "; ".join(places[:_PLACES]) + more
