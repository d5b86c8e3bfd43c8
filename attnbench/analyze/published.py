"""Published against reproduced: for each printed figure, what a run has to say to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, product

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.published_figures import FEWEST, Figure, Lack, NoFigureError, figure
from attnbench.analyze.quantities import quantities
from attnbench.schema.noun import Scalar
from attnbench.schema.published import Comparable, Published
from attnbench.schema.run import RunInfo

NO_FIGURE = "n/a"
"""Stands where nothing was printed, or not found."""


class Finding(StrEnum):
    """A finding says how a figure of ours stands to a printed one."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_TELL = "cannot tell"
    NOT_RUN = "not run"
    BESIDE = ""
    """Only shown beside it: no bounds were set."""


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

    @property
    def needed(self) -> str:
        """Say what it would take, where the suite does."""
        return f"it needs {self.written.needs}" if self.written.needs else ""


@dataclass(frozen=True)
class Row:
    """One printed figure, ours, and what follows."""

    entry: Entry
    figure: Figure | None
    finding: Finding
    why: str = ""
    """In words, where there is no figure or no telling."""

    @property
    def judged(self) -> bool:
        """Whether bounds were set."""
        return self.entry.written.reproduced is not None

    @property
    def elsewhere(self) -> bool:
        """Whether the run was not made for it: the suite says what it would take."""
        return self.finding is Finding.NOT_RUN and self.why == self.entry.needed != ""


def rows(published: Iterable[Published], summaries: Sequence[CellSummary], run: RunInfo | None = None) -> list[Row]:
    """Return one for each printed figure, in the order in which they are written; whatever cannot be read says why.

    What hangs on formulas of cost and on the roof is read only where the run is given.
    """
    known = quantities(summaries, run)
    found = []
    for entry in entries(published):
        if entry.written.ours is None:
            found.append(Row(entry, None, Finding.NOT_RUN, entry.needed))
            continue
        try:
            ours = figure(entry.written.ours, entry.pinned, summaries, known)
        except NoFigureError as error:
            # a claim that failed where it was tried is not one that nobody tried
            tried = error.lack is Lack.UNCLEAR or (error.lack is Lack.FAILED and entry.band is not None)
            why = entry.needed if error.lack is Lack.NO_CELL and entry.needed else str(error)
            found.append(Row(entry, None, Finding.CANNOT_TELL if tried else Finding.NOT_RUN, why))
        else:
            found.append(Row(entry, ours, *_judged(ours, entry.band)))
    return found


def not_run(published: Iterable[Published], why: str) -> list[Row]:
    """Return the same without any run: what each would need, or why there is none."""
    return [Row(entry, None, Finding.NOT_RUN, entry.needed or why) for entry in entries(published)]


def _judged(found: Figure, band: tuple[float, float] | None) -> tuple[Finding, str]:
    """Judge by where the whole interval lies; what is exact is its own interval."""
    if band is None:
        return Finding.BESIDE, ""
    if found.interval is None and not found.exact:
        return Finding.CANNOT_TELL, f"{found.replicates} of at least {FEWEST} replicates"
    low, high = (found.interval.low, found.interval.high) if found.interval else (found.value, found.value)
    least, most = band
    if least <= low and high <= most:
        return Finding.REPRODUCED, ""
    if high < least or most < low:
        return Finding.NOT_REPRODUCED, ""
    return Finding.CANNOT_TELL, "the interval reaches over a bound"


def entries(published: Iterable[Published]) -> list[Entry]:
    """Return the figures in the order in which they are written; a grid row by row, without its gaps."""
    found = []
    for each in published:
        if each.grid is None:
            found.append(Entry(each, each.what, _said(each, each.number), each.number))
            continue
        (down, below), (across, beside) = _axes(each).items()
        for (row, column), number in zip(product(below, beside), chain(*each.grid.numbers), strict=True):
            if number is not None:
                pinned = {down: row, across: column}
                found.append(Entry(each, _filled(each.what, pinned), _said(each, number), number, pinned))
    return found


def in_short(each: Published) -> str:
    """Say what a whole grid is about: `n = 512…65536`; what is no grid keeps its own words."""
    axes = {name: values for name, values in _axes(each).items() if values}
    return _filled(each.what, {name: f"{v[0]}…{v[-1]}" if len(v) > 1 else str(v[0]) for name, v in axes.items()})


def _axes(each: Published) -> dict[str, tuple[Scalar, ...]]:
    return {} if each.grid is None else {**each.grid.down, **each.grid.across}


def _filled(text: str, values: Mapping[str, Scalar]) -> str:
    # not by `format`: whatever else is in braces stays as it is
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _said(each: Published, number: float | None) -> str:
    if number is None:
        return each.says
    if each.says != NO_FIGURE:
        return each.says.replace("{number}", f"{number:g}")
    return f"{number:g}{'×' if each.comparable is Comparable.RATIO else ''}"
