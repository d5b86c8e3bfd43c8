"""Table: text already. A format is a pure function of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """The first column is text and the others are numbers, as far as alignment goes; notes stand below."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    """Row and column of what is best."""
    notes: tuple[str, ...] = ()
