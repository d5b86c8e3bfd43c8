"""Printed figures beside ours: their words, the table of a run, and the lines on a terminal."""

import math
import textwrap
from collections.abc import Callable, Sequence
from itertools import groupby

from attnbench.analyze.published import Finding, Row, in_short, rows
from attnbench.analyze.published_figures import BATCH, FEWEST, LONGEST, MEMORY_GROWTH, Figure, Kind
from attnbench.analyze.quantities import MEMORY
from attnbench.analyze.sections import grouped
from attnbench.report.conditions import machine, shapes
from attnbench.report.findings import Findings
from attnbench.report.text.models import model_note
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.table import WIDTH, Table
from attnbench.schema.figures import OVER_LENGTHS
from attnbench.schema.published import Comparable, Published
from attnbench.schema.units import bytes_, seconds, three_digits

TITLE = "Published and reproduced"
_HEADERS = ("where", "published", "reproduced", "comparable?", "verdict")
_MOST = 20
"""Rows of a table: a page of a paper holds no more, where the columns stand in two rows."""
_COMPARABLE = {
    Comparable.RATIO: "yes, as a ratio",
    Comparable.QUALITY: "yes, as quality",
    Comparable.HARDWARE: "no, other hardware",
    Comparable.CLAIM: "yes, as a claim",
}
_MOST_DECIMALS = 6
_PLACES, _LONGEST = 3, 240
"""Rows that are named for one reason; letters of a reason."""
_VERDICT, _BRIEF = 16, 150
"""Letters of the first column on a terminal, and of a reason there."""
# no place to break a line at
_EQUALS = "\u00a0=\u00a0"


def published_tables(findings: Findings) -> list[Table]:
    """Return one table, or several of a suite with very many figures; none where it names no figures."""
    found = rows(findings.run.suite.published, findings.summaries, findings.run)
    parts = [found[first : first + _MOST] for first in range(0, len(found), _MOST)]
    names = [TITLE] if len(parts) == 1 else [f"{TITLE}, {number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    return [table_of(name, part, about(findings)) for name, part in zip(names, parts, strict=True)]


def table_of(title: str, found: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Return a table of these rows, with what their words mean, and why some have no figure."""
    texts = []
    for row in found:
        says, verdict = one_line(row.entry.says), str(row.finding)
        if row.entry.band is not None and row.finding is not Finding.NOT_RUN:
            verdict = f"{verdict} ({bounds(*row.entry.band)})"
        texts.append((place(row), says, ours(row.figure), _COMPARABLE[row.entry.written.comparable], verdict))
    return Table(title, _HEADERS, tuple(texts), notes=(*legend(found), *reasons(found), *notes))


def published_lines(findings: Findings) -> list[str]:
    """Return what came of each claim that bounds were set for, wrapped to 80 columns.

    Figures of one printed table that came to the same share a line; what the run was not made for is counted.
    """
    judged = [row for row in rows(findings.run.suite.published, findings.summaries, findings.run) if row.judged]
    said = []
    for written, group in groupby((row for row in judged if not row.elsewhere), key=lambda row: row.entry.written):
        found = list(group)
        for finding in Finding:
            of = [row for row in found if row.finding is finding]
            bands = {row.entry.band for row in of}
            # each number of a printed table may be its own bound
            within = f" ({bounds(*band)})" if len(bands) == 1 and (band := bands.pop()) else ""
            if len(of) == 1:
                came = shorten(of[0].why, _BRIEF) if of[0].figure is None else value(of[0].figure)
                said.append((finding, f"{place(of[0])}: {came}{within}"))
            elif of:
                said.append((finding, f"{_table_name(written)}: {len(of)} of {len(found)} figures{within}"))
    if elsewhere := sum(row.elsewhere for row in judged):
        said.append((Finding.NOT_RUN, f"{elsewhere} more, for which this run was not made; table.md says what they need"))
    lines = []
    for finding, text in said:
        held = f"{finding:<{_VERDICT}}{text.replace(' = ', _EQUALS)}"
        lines += textwrap.wrap(held, WIDTH, subsequent_indent=" " * _VERDICT, break_on_hyphens=False)
    return [line.replace(_EQUALS, " = ") for line in lines]


def place(row: Row) -> str:
    """`Figure 2: linear reaches softmax's loss`."""
    return one_line(f"{row.entry.written.where}: {row.entry.what}")


def bounds(least: float, most: float) -> str:
    """`upper bound 0.05`, `lower bound 3`, `0.95 to 1.05`."""
    if math.isinf(least):
        return f"upper bound {most:g}"
    return f"lower bound {least:g}" if math.isinf(most) else f"{least:g} to {most:g}"


def ours(figure: Figure | None) -> str:
    """`2.38× [2.30×, 2.46×]`, `+0.003 [−0.010, 0.016] nats`, `N^1.98 [1.91, 2.05] (N = 512 to 8192)`; a dash for none."""
    if figure is None:
        return "–"
    return f"{value(figure)} ({figure.about})" if figure.about and figure.metric in OVER_LENGTHS else value(figure)


def value(figure: Figure) -> str:
    """Write the figure without what else must be said of it."""
    match figure.kind, figure.metric:
        case Kind.RATIO, _:
            return _ranged(figure, lambda end: f"{three_digits(end)}×")
        case Kind.DIFFERENCE, _:
            # a difference of 0 has no sign
            return f"{'+' if figure.value > 0 else ''}{_ranged(figure, _to_its_width(figure))} {figure.unit}".rstrip()
        case _, "growth" | "memory_growth":
            return f"N^{_ranged(figure, _to_its_width(figure))}"
        case _, "time":
            return _ranged(figure, seconds)
        case _, "memory":
            return _ranged(figure, bytes_)
    counted = figure.metric in {BATCH, LONGEST}
    return f"{_ranged(figure, '{:,.0f}'.format if counted else three_digits)} {figure.unit}".rstrip()


def _ranged(figure: Figure, write: Callable[[float], str]) -> str:
    interval = f" [{write(figure.interval.low)}, {write(figure.interval.high)}]" if figure.interval else ""
    return write(figure.value) + interval


def _to_its_width(figure: Figure) -> Callable[[float], str]:
    """Return how to write to the second digit of the interval's half width; without a width, to three digits."""
    width = figure.interval.high - figure.interval.low if figure.interval else 0.0
    decimals = min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(width / 2)))) if width > 0 else 0
    # a true minus, which no line is broken at
    return lambda end: (f"{end:z.{decimals}f}" if width > 0 else three_digits(end)).replace("-", "−")


def legend(rows: Sequence[Row]) -> list[str]:
    """Say what the columns mean, as far as they are used here."""
    # a ratio with the two printed numbers that it is computed from
    computed = any(" / " in row.entry.says for row in rows)
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
    """Say what our figures were measured on: the model where there is one, the shapes, and the machine."""
    timed = [s for s in findings.summaries if s.cell.training is None]
    shaped = [f"Attention alone: {shapes(timed)}."] if timed else []
    return [*filter(None, [model_note(findings.summaries)]), *shaped, machine(findings.run)]


def reasons(rows: Sequence[Row]) -> list[str]:
    """`not run: Table 2: ... and 3 more: it needs a GPU`: one line for each reason."""
    found = grouped(((row.finding, one_line(row.why)), row) for row in rows if row.why)
    lines = []
    for (finding, why), of in found.items():
        # the figures of one printed table are named by its name and their number
        groups = [(written, list(same)) for written, same in groupby(of, key=lambda row: row.entry.written)]
        places = [place(same[0]) if len(same) == 1 else f"{_table_name(w)} ({len(same)})" for w, same in groups]
        more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
        lines.append(f"{finding}: {'; '.join(places[:_PLACES])}{more}: {shorten(why, _LONGEST)}")
    return lines


def _table_name(written: Published) -> str:
    """Name all figures of one printed table."""
    return one_line(f"{written.where}: {in_short(written)}")
