"""Training for a terminal: loss, accuracy or bits, and the time of an update; as wide as its lines may be."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.learnt import SEEDS, best_learnt, learnt
from attnbench.analyze.sections import Section
from attnbench.report.questions.learning.table import learnt_text
from attnbench.report.questions.learning.words import by_length, qualities, where
from attnbench.report.text.names import short_names
from attnbench.report.text.statuses import short
from attnbench.schema.outcome import LOSS
from attnbench.schema.units import seconds

ABOUT = (
    f"training is loss of held-out sequences in nats, mean of seeds and, from {SEEDS} on, its 95 % t interval; "
    "* least, and whatever overlaps with it"
)
# neither stripped by tabulate, nor a place to break a line at
_SPACE = "\u00a0"
_ROWS = 24
"""Methods at most; the rest is counted and stands in table.md."""
_NAMES = (40, 34, 28, 22, 16)


@dataclass(frozen=True)
class Terminal:
    """How wide it is, and what it makes of a text that it may not be able to show."""

    width: int
    plain: Callable[[str], str]


def train_lines(section: Section, on: Terminal) -> list[str]:
    """A title and a grid for each length."""
    parts = [_part(part, on) for part in by_length(section)]
    return [line for number, lines in enumerate(parts) for line in ([""] * (number > 0) + lines)]


def _part(section: Section, on: Terminal) -> list[str]:
    cells, more = _shown(section)
    tries = [_grid(section, cells, name, on) for name in _NAMES]
    grid = next((lines for lines in tries if max(map(len, lines)) <= on.width), tries[-1])
    out = [f"and {more} more method{'s' if more > 1 else ''}, of greater loss or without one: see table.md"] if more else []
    return [*textwrap.wrap(on.plain(f"training: {where(section)}"), on.width), *grid, *out]


def _shown(section: Section) -> tuple[Sequence[CellSummary], int]:
    """All in suite order, or of very many those of least loss; and how many are left out."""
    cells = section.summaries
    if len(cells) <= _ROWS:
        return cells, 0
    return sorted(cells, key=_loss)[:_ROWS], len(cells) - _ROWS


def _loss(cell: CellSummary) -> float:
    found = learnt(cell, LOSS)
    return math.inf if found is None else found.value


def _grid(section: Section, cells: Sequence[CellSummary], width: int, on: Terminal) -> list[str]:
    (N,), metrics = section.lengths, qualities(section)
    names, best = short_names(section.series, width), {metric: best_learnt(section, N, metric) for metric in (LOSS, *metrics)}
    rows = []
    for cell in cells:
        label = cell.cell.label
        scores = [_marked(_brief(cell, metric), label in best[metric]) for metric in metrics]
        time = "" if cell.median is None else seconds(cell.median)
        rows.append([on.plain(names[label])[:width], _marked(_main(cell), label in best[LOSS]), *scores, time])
    headers = ["method", f"loss{_SPACE}", *(f"{name}{_SPACE}" for name in metrics.values()), "update"]
    align = ["left", *("right" for _ in headers[1:])]
    table = tabulate(rows, headers, tablefmt="simple", colalign=align, disable_numparse=True)
    return [line.replace(_SPACE, " ").rstrip() for line in table.split("\n")]


def _main(cell: CellSummary) -> str:
    """The loss with its range, or the status in its place."""
    return learnt_text(cell, LOSS) if cell.ok else short(cell.status)


def _brief(cell: CellSummary, metric: str) -> str:
    """Without its range, which the loss has."""
    return learnt_text(cell, metric).partition(" ")[0]


def _marked(text: str, best: bool) -> str:
    return f"{text}{'*' if best else _SPACE}"
