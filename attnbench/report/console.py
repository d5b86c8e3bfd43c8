"""The summary for a terminal: 80 columns of text; built here, printed by the command line."""

import math
import textwrap
from collections.abc import Callable, Sequence
from itertools import product

from tabulate import tabulate

from attnbench.analyze.best import Contest
from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import TIME, Center, Quantity, main_quantity
from attnbench.analyze.scaling import exponent
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baseline
from attnbench.report.conditions import backends, first_look, machine, warnings
from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.questions.learning.words import by_length, qualities, where
from attnbench.report.questions.published.table import published_lines
from attnbench.report.text.names import ascii_only, one_line, short_names, shorten
from attnbench.report.text.numbers import heading, shown, written
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import WIDTH
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.units import counted, length

_NAMES, _COLUMNS, _SIGNS = (44, 38, 32, 25, 16, 14), 5, 16
"""Letters of a name, lengths with a number, lengths in a sparkline: at most."""
_ROWS, _REASONS, _LINES = 24, 12, 4
"""Methods of a section, reasons, and lines of each: at most; the rest is counted and stands in table.md."""
# for private use: neither white space, which tabulate strips, nor a place to break a line at
_SPACE = "\ue000"
_BRIEF = {Status.UNSUPPORTED.value: "unsupp.", Status.INTERRUPTED.value: "interr."}
"""As wide as a time; below the tables statuses stand in full."""
_Plain = Callable[[str], str]
"""Leaves a text as it is, or makes it ASCII."""
BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "._-=#"
"""Signs of a sparkline by rising height; the second for terminals that know no others."""
_ASCII = str.maketrans({BLOCKS[0]: PLAIN[0], BLOCKS[-1]: PLAIN[-1]})


def summary(findings: Findings, *, unicode: bool = True) -> str:
    """Return the sentence of result, a grid a section with the best marked by *, and what the statuses mean."""
    # some signs become two letters: before the lines are broken
    plain: _Plain = str if unicode else lambda text: ascii_only(text.translate(_ASCII))
    # every length stays beside its N
    held = plain(headline(findings)).replace("N = ", f"N{_SPACE}={_SPACE}")
    lines = [line.replace(_SPACE, " ") for line in textwrap.wrap(held, WIDTH, break_on_hyphens=False)]
    lines += ["", *textwrap.wrap(plain(f"{findings.run.suite.name}: {'; '.join(_about(findings))}"), WIDTH)]
    for section in findings.sections:
        for part in by_length(section) if section.workload is Workload.TRAIN else [section]:
            lines += ["", *_section(findings, part, plain)]
    if claims := published_lines(findings):
        lines += ["", "published, and what came of it:", *map(plain, claims)]
    why = reasons(findings.summaries, findings.names)
    more = [f"{counted(len(why) - _REASONS, 'more reason')}: see table.md"] if len(why) > _REASONS else []
    few = (
        quantity
        for section in findings.sections
        if section.workload is not Workload.TRAIN and (quantity := findings.quantities[main_quantity(section.workload)])
        if any(cell.ok and cell.replicates < quantity.enough for cell in section.summaries)
    )
    look = dict.fromkeys(map(first_look, few))
    about = (*warnings(findings, findings.summaries), *backends(findings, findings.summaries), machine(findings.run))
    lines.append("")
    for line in (*why[:_REASONS], *more, *look, *about):
        # over a few lines; of a longer one the middle goes, where most methods are listed
        lengths = range(_LINES * WIDTH, WIDTH, -10)
        texts = (shorten(plain(line), letters) for letters in lengths)
        tries = (textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in texts)
        lines += next(wrapped for wrapped in tries if len(wrapped) <= _LINES)
    return plain("\n".join(lines))


def _about(findings: Findings) -> list[str]:
    """Say what the numbers are, of all sections together."""
    found: dict[str, None] = {}
    for section in findings.sections:
        quantity = findings.quantities[main_quantity(section.workload)]
        middle = "mean" if quantity.center is Center.SUMS else "median"
        found[f"{heading(quantity, section.workload)}, {middle} of replicates"] = None
    shaped = any(_is_shaped(section) for section in findings.sections)
    shape = [f"over N: from {BLOCKS[0]} to {BLOCKS[-1]} on one logarithmic scale a section, × no number"] if shaped else []
    return [*(found or {"time per sample": None}), "* the best, and what cannot be told from it", *shape]


def _is_shaped(section: Section) -> bool:
    return main_quantity(section.workload) == TIME and len(section.lengths) > 1


def _section(findings: Findings, section: Section, plain: _Plain) -> list[str]:
    """Return title and grid, and how many methods and lengths are left out."""
    trained = section.workload is Workload.TRAIN
    title = f"training: {where(section)}" if trained else one_line(section.title)
    contest = Contest.of(section, findings.quantities[main_quantity(section.workload)])
    labels, N = list(section.series), section.common_length
    if len(labels) > _ROWS:
        # all in suite order; of very many the best first, and the baseline whatever its place
        cells = section.ok_at(N) if N is not None else {}
        labels = sorted(labels, key=lambda label: _value(contest.quantity, cells.get(label)))[:_ROWS]
        base = baseline(section)
        labels = [*labels[:-1], base] if base is not None and base not in labels else labels
    widest: list[str] = []
    for count, name in product(range(_COLUMNS, 0, -1), _NAMES):
        heads, rows = _learnt(findings, contest, labels) if trained else _over_lengths(contest, labels, count, plain)
        # the first column is text, and so is a sparkline; all others are numbers
        align = ["left", *("left" if head == "over N" else "right" for head in heads)]
        names = short_names([findings.names[label] for label in labels], name)
        texts = [[plain(names[findings.names[label]])[:name], *rows[label]] for label in labels]
        table = tabulate(texts, ["method", *heads], tablefmt="simple", colalign=align, disable_numparse=True)
        widest = [line.replace(_SPACE, " ").rstrip() for line in table.split("\n")]
        if max(map(len, widest)) <= WIDTH:
            break
    more = len(section.series) - len(labels)
    why = f"behind at {length(N)} or without a number there" if N else "all without a number"
    out = [f"and {counted(more, 'more method')}, {why}: see table.md"] if more else []
    if not trained and (hidden := len(section.lengths[count:])):
        out.append(f"and {counted(hidden, 'more length')}: see table.md")
    return [*textwrap.wrap(plain(title), WIDTH), *widest, *out]


def _value(quantity: Quantity, cell: CellSummary | None) -> float:
    """Return what methods are sorted by; infinite where there is no number."""
    found = quantity.estimate(cell)
    return math.inf if found is None else -found.value if quantity.more_is_better else found.value


_Grid = tuple[list[str], dict[str, list[str]]]
"""Heads but for the method's; by label the texts of a row."""


def _over_lengths(contest: Contest, labels: Sequence[str], count: int, plain: _Plain) -> _Grid:
    """Return the figure at some lengths; of times how they grow, and their shape over all lengths."""
    section, quantity = contest.section, contest.quantity
    lengths = _few(section.lengths, count)
    heads = [f"N={length(N)}{_SPACE}" for N in lengths]
    rows = {label: [_entry(contest, label, N) for N in lengths] for label in labels}
    if quantity.grows:
        heads.append("growth")
        for label, row in rows.items():
            fit = exponent(section.series[label], quantity)
            row.append(f"N^{fit.value:z.2f}" if fit else "")
    if _is_shaped(section):
        heads.append("over N")
        ok = [cell for cell in section.summaries if quantity.values(cell)]
        heights = {(s.cell.label, s.cell.problem.N): math.log(_value(quantity, s)) for s in ok}
        low, high = min(heights.values(), default=0.0), max(heights.values(), default=0.0)
        signs = BLOCKS if plain(BLOCKS) == BLOCKS else PLAIN
        for label, row in rows.items():
            shown_at = _few(section.lengths, _SIGNS)
            points = [heights.get((label, N), "×" if section.at(label, N) else _SPACE) for N in shown_at]
            row.append(sparkline(points, low, high, signs))
    return heads, rows


def sparkline(points: Sequence[float | str], low: float, high: float, signs: str = BLOCKS) -> str:
    """Return a sign for each height, in equal steps from `low` to `high`; what is no number stands for itself.

    Beyond the ends stands the sign of the end, and the lowest where there is no range.
    """
    letters = []
    for point in points:
        if isinstance(point, str):
            letters.append(point)
        else:
            share = (point - low) / (high - low) if low < high else 0.0
            letters.append(signs[min(int(max(0.0, min(share, 1.0)) * len(signs)), len(signs) - 1)])
    return "".join(letters)


def _learnt(findings: Findings, contest: Contest, labels: Sequence[str]) -> _Grid:
    """Return the loss with its range, accuracy or bits, and the time of an update, of one length."""
    section, time = contest.section, findings.quantities[TIME]
    (N,) = section.lengths
    more = [(Contest.of(section, findings.quantities[name]), head) for name, head in qualities(section).items()]
    rows = {}
    for label in labels:
        cell = section.at(label, N)
        update = time.estimate(cell)
        scores = [_entry(other, label, N) for other, _ in more]
        written_time = written(update.value * cell.B, time.unit) if update and cell else ""
        rows[label] = [_entry(contest, label, N, ranged=True), *scores, written_time]
    return [f"loss{_SPACE}", *(f"{head}{_SPACE}" for _, head in more), "update"], rows


def _entry(contest: Contest, label: str, N: int, *, ranged: bool = False) -> str:
    """Return a number, marked where it is the best; a status in few letters; nothing where no cell was planned."""
    cell, quantity = contest.section.at(label, N), contest.quantity
    if cell is None:
        return ""
    found = quantity.estimate(cell)
    if found is None:
        return f"{_BRIEF.get(cell.status, short(cell.status))}{_SPACE}" if not cell.ok else ""
    alone = quantity.center is not Center.SUMS or contest.section.workload is Workload.TRAIN
    text = written(found.value, quantity.unit) if alone and not ranged else shown(quantity, found)
    return f"{text}{'*' if contest.wins(label, N) else _SPACE}"


def _few(lengths: Sequence[int], count: int) -> list[int]:
    """Return the last, the first and evenly spaced ones between."""
    if len(lengths) <= count or count == 1:
        return list(lengths[-count:])
    step = (len(lengths) - 1) / (count - 1)
    return [lengths[round(i * step)] for i in range(count)]
