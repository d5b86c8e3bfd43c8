"""The figures that others printed, one by one: a grid is written out, a number for each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attnbench.schema.noun import Scalar
from attnbench.schema.published import Comparable, Published

NO_FIGURE = "n/a"
"""Stands where nothing was printed, or not found."""


@dataclass(frozen=True)
class Entry:
    """One printed figure."""

    written: Published
    """As the suite has it; of a grid the whole."""
    what: str
    says: str
    number: float | None
    pinned: Mapping[str, Scalar] = field(default_factory=dict)
    """Of a grid: by name of its two axes, where in it the figure stands."""

    @property
    def band(self) -> tuple[float, float] | None:
        """From where to where a figure of ours counts as this one; None where no bounds were set."""
        return None if self.written.reproduced is None else self.written.reproduced.ends(self.number)


def entries(published: Iterable[Published]) -> list[Entry]:
    """In the order in which they are written; a grid row by row, without its gaps."""
    return [entry for each in published for entry in _of(each)]


def in_short(each: Published) -> str:
    """What a whole grid is about: `n = 512…65536`; what is no grid, in its own words."""
    return _filled(each.what, {name: _span(values) for name, values in _axes(each).items() if values})


def _span(values: Sequence[Scalar]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}…{values[-1]}"


def _of(each: Published) -> Iterator[Entry]:
    if each.grid is None:
        yield Entry(each, each.what, _said(each, each.number), each.number)
        return
    (down, rows), (across, columns) = _axes(each).items()
    for row, numbers in zip(rows, each.grid.numbers, strict=True):
        for column, number in zip(columns, numbers, strict=True):
            if number is not None:
                pinned = {down: row, across: column}
                yield Entry(each, _filled(each.what, pinned), _said(each, number), number, pinned)


def _axes(each: Published) -> dict[str, tuple[Scalar, ...]]:
    return {} if each.grid is None else {**each.grid.down, **each.grid.across}


def _filled(text: str, values: Mapping[str, Scalar]) -> str:
    """Not by `format`: whatever else is in braces stays as it is."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _said(each: Published, number: float | None) -> str:
    if number is None:
        return each.says
    if each.says != NO_FIGURE:
        return each.says.replace("{number}", f"{number:g}")
    return f"{number:g}{'×' if each.comparable is Comparable.RATIO else ''}"
