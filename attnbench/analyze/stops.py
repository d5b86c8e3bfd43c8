"""Where a method's line ends, and by what."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary


@dataclass(frozen=True)
class Stop:
    """A status and the lengths, rising, that it stands at."""

    status: str
    lengths: tuple[int, ...]


def stops(series: Sequence[CellSummary]) -> list[Stop]:
    """All statuses but ok of one method, by the first length of each."""
    found: dict[str, list[int]] = {}
    for summary in series:
        if not summary.ok:
            found.setdefault(summary.status, []).append(summary.cell.problem.N)
    return [Stop(status, tuple(lengths)) for status, lengths in found.items()]


def longest(series: Sequence[CellSummary]) -> CellSummary | None:
    """The cell of the longest N that has numbers."""
    return next((s for s in reversed(series) if s.ok), None)
