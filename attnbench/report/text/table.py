"""A table is text already, and a format is a pure function of it. Here are plain text for a terminal and CSV of data."""

import csv
import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from attnbench.report.text.names import harmless, one_line
from attnbench.schema.noun import Scalar

WIDTH = 80
"""Columns of a terminal."""


@dataclass(frozen=True)
class Table:
    """A table whose first column is text and whose others are aligned as numbers; the notes are shown below."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    """Row and column of each best number, and of what cannot be told from it."""
    notes: tuple[str, ...] = ()


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV that no spreadsheet takes for formulas."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([harmless(value) for value in row] for row in rows)
    return out.getvalue()


def rows_csv(rows: Sequence[Mapping[str, Scalar | None]], otherwise: Sequence[str] = ("method",)) -> str:
    """Write rows below their keys, or below `otherwise` where there are none."""
    return csv_text([rows[0] if rows else otherwise, *(row.values() for row in rows)])


def plain(tables: Sequence[Table]) -> str:
    """Return titles and grids, each as wide as its rows are; then the notes, wrapped."""
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    grids = []
    for table in tables:
        rows = [[one_line(text) for text in row] for row in table.rows]
        align = ("left", *("right" for _ in table.headers[1:]))
        grid = tabulate(rows, table.headers, tablefmt="simple", colalign=align, disable_numparse=True)
        grids.append(f"{one_line(table.title)}\n{grid}")
    return "\n\n".join([*grids, "\n".join(map(wrapped, notes))])


def wrapped(text: str) -> str:
    """Break a text over several lines, further in from the second on; its own indentation stays."""
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.fill(one_line(text), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
