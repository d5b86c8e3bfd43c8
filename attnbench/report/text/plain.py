"""Tables for a terminal: plain text, what is noted below any of them once, at the end."""

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

WIDTH = 80


def plain(tables: Sequence[Table]) -> str:
    """Titles and grids, each as wide as its rows are; then the notes, wrapped."""
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return "\n\n".join([*map(_grid, tables), "\n".join(map(wrapped, notes))])


def _grid(table: Table) -> str:
    rows = [[one_line(text) for text in row] for row in table.rows]
    align = ("left", *("right" for _ in table.headers[1:]))
    grid = tabulate(rows, table.headers, tablefmt="simple", colalign=align, disable_numparse=True)
    return f"{one_line(table.title)}\n{grid}"


def wrapped(text: str, width: int = WIDTH) -> str:
    """Over several lines, further in from the second on; what the text itself is indented by stays."""
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.fill(one_line(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ")
