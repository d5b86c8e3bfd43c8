"""A judgement for a terminal: 80 columns, what needs a look first, and what was the same only counted."""

import textwrap

from tabulate import tabulate

from attnbench.analyze.compare import Comparison
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.table import ratio_text, reasons
from attnbench.report.text.names import ascii_only, one_line, shorten
from attnbench.schema.units import length, three_digits

WIDTH = 80
_ROWS, _REASONS = 30, 8
_NAMES = (40, 32, 26, 20, 14)
"""Letters of a method's name, as many as fit."""
_QUIET = (Verdict.SAME, Verdict.ABSENT)


def console(judgement: Judgement, *, unicode: bool = True) -> str:
    """The conclusion, the rows that are not SAME, and the notes."""
    loud = [c for c in judgement.sorted if c.verdict not in _QUIET or _memory(c)]
    # an answer of nothing but SAME is shown in full, as far as it fits
    rows = loud or [c for c in judgement.sorted if c.verdict is Verdict.SAME] or judgement.sorted
    more = [f"{len(rows) - _ROWS} more: see --out"] if len(rows) > _ROWS else []
    lines = [*_wrapped(judgement.title), "", *_grid(rows[:_ROWS]), *more, "", *_wrapped(f"{judgement.conclusion}.")]
    why = reasons(judgement)
    lines += [part for line in why[:_REASONS] for part in _wrapped(line)]
    lines += [part for note in judgement.notes for part in _wrapped(note)]
    text = "\n".join(lines)
    return text if unicode else ascii_only(text)


def _grid(rows: list[Comparison]) -> list[str]:
    if not rows:
        return ["no cell of one side has numbers on the other"]
    tries = (_table(rows, name) for name in _NAMES)
    return next((lines for lines in tries if max(map(len, lines)) <= WIDTH), _table(rows, _NAMES[-1]))


def _table(rows: list[Comparison], name: int) -> list[str]:
    align = ("left", "left", "right", "left", "left")
    headers = ["method", "what", "N", "new/old", "verdict"]
    cells = [_row(row, name) for row in rows]
    return tabulate(cells, headers, tablefmt="simple", colalign=align, disable_numparse=True).split("\n")


def _row(comparison: Comparison, name: int) -> list[str]:
    cell = comparison.pair.any.cell
    what = f"{_SHORT.get(cell.workload.value, cell.workload.value)} {'causal' if cell.problem.causal else 'full'}"
    verdict = " ".join(filter(None, (comparison.verdict.value, _memory(comparison))))
    # the title says against what
    return [shorten(cell.label, name), what, length(cell.problem.N), ratio_text(comparison.ratio), verdict]


_SHORT = {"forward": "fwd", "forward_backward": "f+b", "decode_total": "total"}


def _memory(comparison: Comparison) -> str:
    memory = comparison.memory
    if memory is None or memory.verdict is Verdict.SAME:
        return ""
    return f"mem {three_digits(memory.value)}x"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(one_line(text), WIDTH, subsequent_indent="  ")
