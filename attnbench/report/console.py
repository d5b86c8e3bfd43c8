"""The summary for a terminal: 80 columns of text; built here, printed by the command line."""

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fastest import fastest
from attnbench.analyze.scaling import time_exponent
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH
from attnbench.report.conditions import FIRST_LOOK, backends, machine, warnings
from attnbench.report.fidelity_notes import top_keys
from attnbench.report.fidelity_table import recall_text
from attnbench.report.findings import Findings
from attnbench.report.names import ascii_only, one_line, short_names
from attnbench.report.per import per
from attnbench.report.statuses import reasons, short
from attnbench.schema.cell import Workload
from attnbench.schema.units import length, seconds

WIDTH = 80
_NAMES, _COLUMNS = (44, 38, 32, 25), 5
_REASONS = 12


def summary(findings: Findings, *, unicode: bool = True) -> str:
    """Time per sample, best marked by *, and what the statuses mean; plain ASCII where the terminal is not UTF-8."""
    lines = textwrap.wrap(f"{findings.run.suite.name}: {'; '.join(_about(findings.sections))}", WIDTH)
    for section in findings.sections:
        lines += ["", section.title, *_grid(section)]
    text = "\n".join([*lines, "", *_explained(findings)])
    return text if unicode else ascii_only(text)


def _about(sections: Sequence[Section]) -> list[str]:
    """What the numbers are, of all sections together."""
    timed = [s for s in sections if s.workload is not Workload.FIDELITY]
    other = [summary for s in sections if s not in timed for summary in s.summaries]
    what = " or ".join(dict.fromkeys(per(s.workload) for s in timed)) or "per sample"
    time = f"time {what}, median of replicates; * fastest, and whatever overlaps with it"
    recall = f"fidelity is mass recall of the {top_keys(other)} top keys, mean of replicates"
    return [*([time] if timed or not other else []), *([recall] if other else [])]


def _grid(section: Section) -> list[str]:
    """Methods by as many lengths as fit, and then with as much of their names; and how time grows."""
    columns = _recalls if section.workload is Workload.FIDELITY else _columns
    tries = (columns(section, count, name) for count in range(_COLUMNS, 0, -1) for name in _NAMES)
    return next((lines for lines in tries if max(map(len, lines)) <= WIDTH), columns(section, 1, _NAMES[-1]))


def _recalls(section: Section, count: int, name: int) -> list[str]:
    lengths, names = _few(section.lengths, count), short_names(section.series, name)
    cells = {label: [section.at(label, N) for N in lengths] for label in section.series}
    rows = [[names[label], *(recall_text(cell) if cell else "" for cell in row)] for label, row in cells.items()]
    align = ("left", *("right" for _ in lengths))
    headers = ["method", *(f"N={length(N)}" for N in lengths)]
    return tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True).split("\n")


def _columns(section: Section, count: int, name: int) -> list[str]:
    lengths, names = _few(section.lengths, count), short_names(section.series, name)
    winners = {N: fastest(section, N) for N in lengths}
    rows = []
    for label, series in section.series.items():
        times = [_entry(section.at(label, N), best=label in winners[N]) for N in lengths]
        fit = time_exponent(series)
        rows.append([names[label], *times, f"N^{fit.value:z.2f}" if fit else ""])
    headers = ["method", *(f"N={length(N)} " for N in lengths), "growth"]
    align = ("left", *("right" for _ in headers[1:]))
    # a no-break space keeps the column of stars: tabulate strips plain ones
    table = tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True)
    return table.replace("\u00a0", " ").split("\n")


def _few(lengths: Sequence[int], count: int) -> list[int]:
    """The last, the first and evenly spaced ones between."""
    if len(lengths) <= count or count == 1:
        return list(lengths[-count:])
    step = (len(lengths) - 1) / (count - 1)
    return [lengths[round(i * step)] for i in range(count)]


def _entry(cell: CellSummary | None, *, best: bool) -> str:
    if cell is None:
        return ""
    text = short(cell.status) if cell.median is None else seconds(cell.median * cell.per_sample)
    return f"{text}{'*' if best else chr(0xA0)}"


def _explained(findings: Findings) -> list[str]:
    """Reasons, flags, the machine; wrapped."""
    why = reasons(findings.summaries)
    more = [f"{len(why) - _REASONS} more reasons: see table.md"] if len(why) > _REASONS else []
    look = [FIRST_LOOK] if any(s.ok and s.replicates < ENOUGH for s in findings.summaries) else []
    about = (*warnings(findings, findings.summaries), *backends(findings, findings.summaries), machine(findings))
    lines = [*why[:_REASONS], *more, *look, *about]
    return [part for line in lines for part in textwrap.wrap(one_line(line), WIDTH, subsequent_indent="  ")]
