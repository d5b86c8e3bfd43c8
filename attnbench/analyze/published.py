"""Published against reproduced: of each printed figure what a run has to say to it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import main_counter
from attnbench.analyze.published_cells import FailedError, NoCellError, NoFigureError, UnclearError
from attnbench.analyze.published_entries import Entry, entries
from attnbench.analyze.published_figure import FEWEST, Figure, figure
from attnbench.analyze.published_metrics import Measured
from attnbench.schema.published import Published


class Finding(StrEnum):
    """What came of holding a figure of ours against a printed one."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_TELL = "cannot tell"
    NOT_RUN = "not run"
    BESIDE = ""
    """Only shown beside it: no bounds were set."""


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
        return self.finding is Finding.NOT_RUN and self.why == _needed(self.entry) != ""


def rows(published: Iterable[Published], summaries: Sequence[CellSummary]) -> list[Row]:
    """One for each printed figure, in the order in which they are written; whatever cannot be read says why."""
    measured = Measured(summaries, main_counter(summaries))
    return [_row(entry, measured) for entry in entries(published)]


def not_run(published: Iterable[Published], why: str) -> list[Row]:
    """The same without any run: what each would need, or why there is none."""
    return [Row(entry, None, Finding.NOT_RUN, _needed(entry) or why) for entry in entries(published)]


def _row(entry: Entry, measured: Measured) -> Row:
    ours = entry.written.ours
    if ours is None:
        return Row(entry, None, Finding.NOT_RUN, _needed(entry))
    try:
        found = figure(ours, entry.pinned, measured)
    except UnclearError as error:
        return Row(entry, None, Finding.CANNOT_TELL, str(error))
    except FailedError as error:
        # a claim that failed where it was tried is not one that nobody tried
        return Row(entry, None, Finding.NOT_RUN if entry.band is None else Finding.CANNOT_TELL, str(error))
    except NoCellError as error:
        # what was never planned is not missed: the suite says what it would take
        return Row(entry, None, Finding.NOT_RUN, _needed(entry) or str(error))
    except NoFigureError as error:
        return Row(entry, None, Finding.NOT_RUN, str(error))
    return Row(entry, found, *_judged(found, entry.band))


def _needed(entry: Entry) -> str:
    needs = entry.written.needs
    return f"it needs {needs}" if needs else ""


def _judged(found: Figure, band: tuple[float, float] | None) -> tuple[Finding, str]:
    """By where the whole interval lies; what is exact is its own interval."""
    if band is None:
        return Finding.BESIDE, ""
    low, high = _ends(found)
    least, most = band
    if math.isnan(low):
        return Finding.CANNOT_TELL, f"{found.replicates} of at least {FEWEST} replicates"
    if least <= low and high <= most:
        return Finding.REPRODUCED, ""
    if high < least or most < low:
        return Finding.NOT_REPRODUCED, ""
    return Finding.CANNOT_TELL, "the interval reaches over a bound"


def _ends(found: Figure) -> tuple[float, float]:
    if found.exact:
        return found.value, found.value
    return (found.interval.low, found.interval.high) if found.interval else (math.nan, math.nan)
