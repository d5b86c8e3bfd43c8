"""Which cells of a run a side of a comparison means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.schema.cell import Cell, Workload, label
from attnbench.schema.condition import NAMES, compile_condition
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Status
from attnbench.schema.published import Side

_NEVER = frozenset({NOT_RUN, Status.UNSUPPORTED, Status.MISSING, Status.INTERRUPTED})
"""Statuses of what was not run."""
_SHOWN = 3
"""Cells that are named where there are too many."""


class NoFigureError(ValueError):
    """A figure cannot be read off a run; the message says why."""


class NoCellError(NoFigureError):
    """The run has no such cell, nor was to have one."""


class FailedError(NoFigureError):
    """The method was run there, and failed."""


class UnclearError(NoFigureError):
    """There are numbers, and they are not what a figure can be made of."""


@dataclass(frozen=True)
class Wanted:
    """A side, what is done there, and where in a grid the figure stands."""

    side: Side
    workload: Workload
    pinned: Mapping[str, Scalar]
    loosely: bool = False
    """Whether a name of the grid counts only where this method has such a parameter; axes always count."""

    @property
    def words(self) -> str:
        """`linformer.linformer(k=128), forward, N=512`."""
        at = [f"{name}={value}" for name, value in self.pinned.items()]
        return ", ".join([label(self.side.method, self.side.params), self.workload.value, *at, *filter(None, [self.side.when])])


def cells(wanted: Wanted, summaries: Sequence[CellSummary]) -> list[CellSummary]:
    """At least one; raises NoCellError, and UnclearError where the condition cannot be decided."""
    side = wanted.side
    ours = [s for s in summaries if s.cell.method == side.method and s.cell.workload is wanted.workload]
    pinned = _counting(wanted, ours)
    when = compile_condition(side.when, None) if side.when else None
    try:
        found = [s for s in ours if _fits(s.cell, side.params, pinned) and (when is None or when(s.cell.values))]
    except ValueError as error:
        raise UnclearError(f"{wanted.words}: {error}") from None
    if not found:
        raise NoCellError(f"the run has no cell of {wanted.words}")
    return found


def one_cell(wanted: Wanted, summaries: Sequence[CellSummary]) -> CellSummary:
    """Raises NoCellError, NoFigureError with the status of a cell that failed, and UnclearError where there are several."""
    found = cells(wanted, summaries)
    if len(found) > 1:
        raise several(wanted, found)
    if not found[0].ok:
        raise missing(found[0], failure(found[0]))
    return found[0]


def several(wanted: Wanted, found: Sequence[CellSummary]) -> UnclearError:
    """Which they are, in the words by which they differ."""
    names = [", ".join(f"{name}={value}" for name, value in _own(s.cell, found).items()) for s in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return UnclearError(f"{wanted.words} leaves {len(found)} cells: {'; '.join(names[:_SHOWN])}{more}")


def missing(summary: CellSummary | None, words: str) -> NoFigureError:
    """The error for want of this cell: one that was run, and failed, is not one that nobody ran."""
    return (NoFigureError if summary is None or summary.status in _NEVER else FailedError)(words)


def failure(summary: CellSummary) -> str:
    """`softmax.naive at N=8192: oom_host: memory limit reached`."""
    status = "" if summary.status == NOT_RUN else f"{summary.status}: "
    return f"{summary.cell.label} at N={summary.cell.problem.N}: {status}{summary.reason}"


def _counting(wanted: Wanted, ours: Sequence[CellSummary]) -> dict[str, Scalar]:
    if not wanted.loosely:
        return dict(wanted.pinned)
    known = NAMES.union(*(s.cell.params for s in ours))
    return {name: value for name, value in wanted.pinned.items() if name in known}


def _fits(cell: Cell, params: Mapping[str, Scalar], pinned: Mapping[str, Scalar]) -> bool:
    values = cell.values
    of_params = all(_same(cell.params.get(name), value) for name, value in params.items())
    return of_params and all(_same(values.get(name), value) for name, value in pinned.items())


def _same(found: Scalar | None, wanted: Scalar) -> bool:
    """1 and True are not."""
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


def _own(cell: Cell, others: Sequence[CellSummary]) -> dict[str, Scalar]:
    values = [s.cell.values for s in others]
    return {name: value for name, value in cell.values.items() if any(other.get(name) != value for other in values)}
