"""The summary for a terminal: 80 columns of text; built here, printed by the command line."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tabulate import tabulate

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.fidelity import score
from attnbench.analyze.metric import TIME, compared_by
from attnbench.analyze.scaling import time_exponent
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.versus import baseline
from attnbench.report.conditions import FIRST_LOOK, backends, machine, warnings
from attnbench.report.findings import Findings
from attnbench.report.headline.sentence import headline
from attnbench.report.questions.fidelity.metrics import main_metric
from attnbench.report.questions.learning.console import ABOUT, Terminal, train_lines
from attnbench.report.questions.published.console import published_lines
from attnbench.report.text.names import ascii_only, one_line, short_names, shorten
from attnbench.report.text.per import per
from attnbench.report.text.sparkline import BLOCKS, PLAIN, Scale, sparkline
from attnbench.report.text.statuses import reasons, short
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.units import length, seconds

WIDTH = 80
_NAMES, _COLUMNS, _SIGNS = (44, 38, 32, 25), 5, 16
"""Letters of a name, lengths with a time, lengths in a sparkline: at most."""
_ROWS, _REASONS, _LINES = 24, 12, 4
"""Methods of a section, reasons, and lines of each: at most; the rest is counted and stands in table.md."""
# neither stripped by tabulate, nor a place to break a line at
_SPACE = "\u00a0"
_SCORES = {
    Workload.FIDELITY: "fidelity is the output's error over the exact output",
    Workload.NUMERICS: "numerics is the error of a row against its definition in float64",
}
"""What a section shows where it shows no times; of each the mean of replicates."""
_BRIEF = {Status.UNSUPPORTED.value: "unsupp.", Status.INTERRUPTED.value: "interr."}
"""As wide as a time; below the tables statuses stand in full."""
_Plain = Callable[[str], str]
"""Leaves a text as it is, or makes it ASCII."""
_ASCII = str.maketrans({BLOCKS[0]: PLAIN[0], BLOCKS[-1]: PLAIN[-1]})


def summary(findings: Findings, *, unicode: bool = True) -> str:
    """The sentence of result, times per sample with the best marked by *, and what the statuses mean; else plain ASCII."""
    # some signs become two letters: before the lines are broken
    plain = _same if unicode else _ascii
    lines = [*_sentence(plain(headline(findings))), ""]
    lines += textwrap.wrap(plain(f"{findings.run.suite.name}: {'; '.join(_about(findings.sections))}"), WIDTH)
    for section in findings.sections:
        lines += ["", *_section(findings, section, plain)]
    if claims := published_lines(findings):
        lines += ["", "published, and what came of it:", *map(plain, claims)]
    return plain("\n".join([*lines, "", *(part for line in _explained(findings) for part in _wrapped(plain(line)))]))


def _same(text: str) -> str:
    return text


def _ascii(text: str) -> str:
    return ascii_only(text.translate(_ASCII))


def _sentence(text: str) -> list[str]:
    """Wrapped, with every length beside its N."""
    held = text.replace("N = ", f"N{_SPACE}={_SPACE}")
    return [line.replace(_SPACE, " ") for line in textwrap.wrap(held, WIDTH, break_on_hyphens=False)]


def _about(sections: Sequence[Section]) -> list[str]:
    """What the numbers are, of all sections together."""
    timed = [s for s in sections if compared_by(s.workload) == TIME]
    least = ", mean of replicates; * least, and whatever overlaps"
    scored = [_SCORES[s.workload] + least for s in sections if not s.workload.is_timed]
    learnt = [ABOUT] if any(s.workload is Workload.TRAIN for s in sections) else []
    what = " or ".join(dict.fromkeys(per(s.workload) for s in timed)) or "per sample"
    shape = f"; over N: from {BLOCKS[0]} to {BLOCKS[-1]} on one logarithmic scale a section, × no number"
    time = f"time {what}, median of replicates; * fastest, and whatever overlaps with it"
    shaped = any(len(section.lengths) > 1 for section in timed)
    said = [*([time + shape * shaped] if timed else []), *dict.fromkeys(scored), *learnt]
    return said or [time]


@dataclass(frozen=True)
class _Shown:
    """A section, and those of its methods that are shown."""

    section: Section
    labels: tuple[str, ...]
    plain: _Plain

    def names(self, width: int) -> dict[str, str]:
        """By label, at most so wide."""
        return {label: self.plain(name)[:width] for label, name in short_names(self.section.series, width).items()}


def _section(findings: Findings, section: Section, plain: _Plain) -> list[str]:
    """Title and grid, and how many methods are left out."""
    if section.workload is Workload.TRAIN:
        return train_lines(section, Terminal(WIDTH, plain))
    labels = _labels(findings, section)
    shown, N = _Shown(section, labels, plain), section.common_length
    more = len(section.series) - len(labels)
    worse = "slower" if section.workload.is_timed else "of larger errors"
    why = f"{worse} at {length(N)} or without a number there" if N else "all without a number"
    out = [f"and {more} more method{'s' if more > 1 else ''}, {why}: see table.md"] if more else []
    return [*textwrap.wrap(plain(one_line(section.title)), WIDTH), *_grid(shown), *out]


def _labels(findings: Findings, section: Section) -> tuple[str, ...]:
    """All in suite order; of very many the fastest or most faithful first, and the baseline whatever its place."""
    if len(section.series) <= _ROWS:
        return tuple(section.series)
    N = section.common_length
    cells = section.ok_at(N) if N is not None else {}
    rank = _time if section.workload.is_timed else partial(_error, compared_by(section.workload))
    rising = sorted(section.series, key=lambda label: rank(cells.get(label)))
    base = baseline(section, findings.run.suite.report.baselines)
    first = rising[:_ROWS]
    return (*first[:-1], base) if base is not None and base not in first else tuple(first)


def _time(cell: CellSummary | None) -> float:
    """Per sample; infinite where there is none."""
    return math.inf if cell is None or cell.time is None else cell.time.value


def _error(metric: str, cell: CellSummary | None) -> float:
    """Of the output; infinite where there is none."""
    found = score(cell, metric) if cell is not None else None
    return math.inf if found is None else found.value


def _grid(shown: _Shown) -> list[str]:
    """Methods by as many lengths as fit, and then with as much of their names; how time grows, and its shape."""
    columns = _times if shown.section.workload.is_timed else _errors
    tries = (columns(shown, count, name) for count in range(_COLUMNS, 0, -1) for name in _NAMES)
    return next((lines for lines in tries if max(map(len, lines)) <= WIDTH), columns(shown, 1, _NAMES[-1]))


def _errors(shown: _Shown, count: int, name: int) -> list[str]:
    section, lengths = shown.section, _few(shown.section.lengths, count)
    names, best, metric = shown.names(name), {N: _least(section, N) for N in lengths}, main_metric(section.workload)
    rows = []
    for label in shown.labels:
        cells = {N: section.at(label, N) for N in lengths}
        rows.append([names[label], *(_marked(metric.text(c), label in best[N]) if c else "" for N, c in cells.items())])
    return _table(["method", *(f"N={length(N)}{_SPACE}" for N in lengths)], rows)


def _least(section: Section, N: int) -> set[str]:
    """The methods of least error at a length, and those whose range overlaps."""
    metric = compared_by(section.workload)
    found = {label: kept for label, cell in section.ok_at(N).items() if (kept := score(cell, metric)) is not None}
    best = min(found.values(), key=lambda kept: kept.value, default=None)
    return {label for label, kept in found.items() if best is not None and kept.interval.overlaps(best.interval)}


def _times(shown: _Shown, count: int, name: int) -> list[str]:
    section, lengths = shown.section, _few(shown.section.lengths, count)
    names, best = shown.names(name), {N: fastest(section, N) for N in lengths}
    shapes = _shapes(shown) if len(section.lengths) > 1 else {}
    rows = []
    for label in shown.labels:
        fit = time_exponent(section.series[label])
        cells = {N: section.at(label, N) for N in lengths}
        times = [_entry(cell, best=label in best[N]) for N, cell in cells.items()]
        shape = [shapes[label]] if shapes else []
        rows.append([names[label], *times, f"N^{fit.value:z.2f}" if fit else "", *shape])
    return _table(["method", *(f"N={length(N)}{_SPACE}" for N in lengths), "growth", *(["over N"] if shapes else [])], rows)


def _shapes(shown: _Shown) -> dict[str, str]:
    """By label: time over all lengths, on a scale that all methods of the section share."""
    section, lengths = shown.section, _few(shown.section.lengths, _SIGNS)
    heights = [math.log(_time(cell)) for cell in section.summaries if cell.median is not None]
    scale = Scale(min(heights, default=0.0), max(heights, default=0.0), PLAIN if shown.plain is _ascii else BLOCKS)
    return {label: sparkline([_point(section.at(label, N)) for N in lengths], scale) for label in shown.labels}


def _point(cell: CellSummary | None) -> float | str:
    if cell is None:
        return _SPACE
    return "×" if cell.median is None else math.log(_time(cell))


def _table(headers: list[str], rows: list[list[str]]) -> list[str]:
    """The first column is text, and so is a sparkline; all others are numbers."""
    align = ["left", *("left" if header == "over N" else "right" for header in headers[1:])]
    table = tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True)
    return [line.replace(_SPACE, " ").rstrip() for line in table.split("\n")]


def _few(lengths: Sequence[int], count: int) -> list[int]:
    """The last, the first and evenly spaced ones between."""
    if len(lengths) <= count or count == 1:
        return list(lengths[-count:])
    step = (len(lengths) - 1) / (count - 1)
    return [lengths[round(i * step)] for i in range(count)]


def _entry(cell: CellSummary | None, *, best: bool) -> str:
    if cell is None:
        return ""
    if cell.median is None:
        return _marked(_BRIEF.get(cell.status, short(cell.status)), best)
    return _marked(seconds(_time(cell)), best)


def _marked(text: str, best: bool) -> str:
    return f"{text}{'*' if best else _SPACE}"


def _explained(findings: Findings) -> list[str]:
    """Reasons, flags, the machine."""
    why = reasons(findings.summaries)
    more = [f"{len(why) - _REASONS} more reasons: see table.md"] if len(why) > _REASONS else []
    timed = [s for s in findings.summaries if s.ok and s.cell.workload is not Workload.TRAIN]
    look = [FIRST_LOOK] if any(s.replicates < ENOUGH for s in timed) else []
    about = (*warnings(findings, findings.summaries), *backends(findings, findings.summaries), machine(findings))
    return [*why[:_REASONS], *more, *look, *about]


def _wrapped(line: str) -> list[str]:
    """Over a few lines; of a longer one the middle goes, where most methods are listed."""
    lengths = range(_LINES * WIDTH, WIDTH, -10)
    tries = (textwrap.wrap(shorten(line, letters), WIDTH, subsequent_indent="  ") for letters in lengths)
    return next(lines for lines in tries if len(lines) <= _LINES)
