"""What a plot shows on its vertical axis: time, the run's one memory counter, the state, each per sample; or an error."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.scaling import Exponent, memory_exponent, time_exponent
from attnbench.analyze.statistics import Estimate
from attnbench.report.drawing.ticks import Ticks, byte_ticks, factor_ticks, time_ticks
from attnbench.report.text.per import per
from attnbench.schema.cell import Workload


@dataclass(frozen=True)
class Point:
    """One cell that has a number."""

    N: int
    estimate: Estimate

    @property
    def value(self) -> float:
        """Without its range."""
        return self.estimate.value


class Kind(StrEnum):
    """What there is to show; also the names of the files."""

    TIME = "time"
    MEMORY = "memory"
    STATE = "state"
    FIDELITY = "fidelity"
    NUMERICS = "numerics"
    RATIO = "ratio"
    CURVES = "curves"
    DRAWINGS = "drawings"


@dataclass(frozen=True)
class Quantity:
    """How to read it off a cell, how it grows, and how its axis is marked."""

    title: str
    point: Callable[[CellSummary], Point | None]
    exponent: Callable[[Sequence[CellSummary]], Exponent | None]
    ticks: Callable[[float, float], Ticks]
    kind: Kind = Kind.TIME
    level: float | None = None
    """What is drawn across as a line: of a ratio, 1."""

    def points(self, series: Sequence[CellSummary]) -> list[Point]:
        """Of one method, by rising N."""
        return [point for cell in series if (point := self.point(cell))]


def time(workload: Workload) -> Quantity:
    """Median seconds per sample, with its range."""

    def point(cell: CellSummary) -> Point | None:
        return Point(cell.cell.problem.N, cell.time) if cell.time is not None else None

    return Quantity(f"time {per(workload)}", point, time_exponent, time_ticks)


def memory(counter: MainCounter | None, workload: Workload) -> Quantity:
    """Bytes per sample; 0 B has no place on a logarithmic axis and is left out."""
    return _bytes(counter, f"memory {per(workload)} ({counter.name if counter else 'no counter'})", Kind.MEMORY)


def state() -> Quantity:
    """Bytes that a method keeps between tokens, of one sequence."""
    return _bytes(STATE, "state of one sequence", Kind.STATE)


def error(metric: str, title: str) -> Quantity:
    """A score of which less is better, with its range; 0 has no place on a logarithmic axis and is left out."""

    def point(cell: CellSummary) -> Point | None:
        found = score(cell, metric)
        if found is None or found.value <= 0:
            return None
        return Point(cell.cell.problem.N, found if found.interval.low > 0 else Estimate.exact(found.value))

    return Quantity(title, point, lambda _: None, factor_ticks, Kind.NUMERICS)


def _bytes(counter: MainCounter | None, title: str, kind: Kind) -> Quantity:

    def point(cell: CellSummary) -> Point | None:
        value = counter.per_sample(cell) if counter else None
        return Point(cell.cell.problem.N, Estimate.exact(value)) if value else None

    def exponent(series: Sequence[CellSummary]) -> Exponent | None:
        return memory_exponent(series, counter) if counter else None

    return Quantity(title, point, exponent, byte_ticks, kind)


def beyond(points: Sequence[Point], N: int) -> float | None:
    """Where the line through the two nearest points would be at N, in logarithms; None without a point."""
    near = sorted(points, key=lambda p: abs(math.log(p.N / N)))[:2]
    if len(near) < 2:
        return near[0].value if near else None
    (x0, y0), (x1, y1) = ((math.log(p.N), math.log(p.value)) for p in near)
    return math.exp(y0 + (y1 - y0) / (x1 - x0) * (math.log(N) - x0))
