"""What a method may cost, beside a cell that says what it loses: of that cell, or of the same method's cells that say more."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import share_of_dense
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate
from attnbench.report.drawing.ticks import Ticks, byte_ticks, factor_ticks, time_ticks
from attnbench.report.findings import Findings
from attnbench.report.text.per import per
from attnbench.schema.cell import Batch, Workload

_Beside = Callable[[CellSummary], CellSummary | None]
"""Of a cell that has a quality, the one that has a cost."""
_Identity = Callable[[CellSummary], tuple[object, ...]]
_MODEL = ("task", "data", "layers", "feedforward", "mixtures")
"""What of a model is of account for generating as well."""


@dataclass(frozen=True)
class Cost:
    """Read off the cell that has a quality, or off another one of its method."""

    name: str
    of: Callable[[CellSummary], Estimate | None]
    ticks: Callable[[float, float], Ticks]
    beside: _Beside = lambda cell: cell
    """The cell that it is read off, also where that one failed."""


def costs(findings: Findings, section: Section) -> list[Cost]:
    """As far as the run has them, time and memory of each workload, and state; of fidelity else the FLOPs of its definition."""
    found = _of_training(findings) if section.workload is Workload.TRAIN else _of_attention(findings)
    with_points = [cost for cost in found if any(cost.of(cell) for cell in section.summaries)]
    return with_points or ([_flops(findings)] if section.workload is Workload.FIDELITY else [])


def _of_attention(findings: Findings) -> list[Cost]:
    """Of cells on the same problem, which are those of the attention alone."""
    alone = [s for s in findings.summaries if not s.cell.workload.has_model]
    workloads = dict.fromkeys(s.cell.workload for s in alone if s.ok and s.medians)
    places = {w.value: _beside([s for s in alone if s.cell.workload is w], _problem) for w in workloads}
    found = [cost for w in workloads for cost in _each(findings.counter, places[w.value], per(w), w.value)]
    decoding = [w.value for w in workloads if w.decodes]
    return [*found, *(_bytes(places[name], STATE, f"state of one sequence, {name}") for name in decoding[:1])]


def _of_training(findings: Findings) -> list[Cost]:
    """Of an update; of generating by the same model, and of decoding by its attention, whatever the batch."""
    found = [_update_time(), *([_update_memory(findings.counter)] if findings.counter else [])]
    later: dict[tuple[Workload, str], list[CellSummary]] = {}
    for cell in findings.summaries:
        if cell.cell.workload.keeps_state:
            later.setdefault((cell.cell.workload, _batch(cell)), []).append(cell)
    kinds = {kind: cells for kind, cells in later.items() if any(s.ok and s.medians for s in cells)}
    places = {f"{w.value}, {batch}": _beside(cells, _model if w.has_model else _shape) for (w, batch), cells in kinds.items()}
    for (workload, _), name in zip(kinds, places, strict=True):
        found += _each(findings.counter, places[name], per(workload), name)
    # what one sequence keeps is no matter of the batch
    return [*found, _bytes(_first(list(places.values())), STATE, "state of one sequence")]


def _each(counter: MainCounter | None, beside: _Beside, what: str, name: str) -> list[Cost]:
    """Time and memory of one kind of cell."""
    return [_time(beside, f"time {what}, {name}"), *([_bytes(beside, counter, f"memory {what}, {name}")] if counter else [])]


def _beside(cells: Sequence[CellSummary], identity: _Identity) -> _Beside:
    known: dict[tuple[object, ...], CellSummary] = {}
    for summary in sorted(cells, key=lambda s: not s.ok):
        # the first that was measured, else the first
        known.setdefault(identity(summary), summary)
    return lambda cell: known.get(identity(cell))


def _first(places: Sequence[_Beside]) -> _Beside:
    """The first of several that was measured, else the first that there is."""

    def place(cell: CellSummary) -> CellSummary | None:
        found = [other for each in places if (other := each(cell)) is not None]
        return next((other for other in found if other.ok), found[0] if found else None)

    return place


def _problem(summary: CellSummary) -> tuple[object, ...]:
    return summary.cell.label, summary.cell.problem, summary.cell.device


def _shape(summary: CellSummary) -> tuple[object, ...]:
    """The problem but for its batch."""
    return summary.cell.label, summary.cell.problem.model_copy(update={"B": 1}), summary.cell.device


def _model(summary: CellSummary) -> tuple[object, ...]:
    model = summary.cell.training
    return *_shape(summary), *(getattr(model, name, None) for name in _MODEL)


def _batch(summary: CellSummary) -> str:
    return "largest B" if summary.cell.batch is Batch.LARGEST else f"B={summary.cell.problem.B}"


def _update_time() -> Cost:
    def of(cell: CellSummary) -> Estimate | None:
        return None if cell.time is None else cell.time.times(cell.B)

    return Cost("time per update", of, time_ticks)


def _update_memory(counter: MainCounter) -> Cost:
    def of(cell: CellSummary) -> Estimate | None:
        value = counter.per_sample(cell)
        return None if value is None else Estimate.exact(value / cell.per_sample)

    return Cost("memory of an update", of, byte_ticks)


def _time(beside: _Beside, name: str) -> Cost:
    def of(cell: CellSummary) -> Estimate | None:
        other = beside(cell)
        return None if other is None else other.time

    return Cost(name, of, time_ticks, beside)


def _bytes(beside: _Beside, counter: MainCounter, name: str) -> Cost:
    def of(cell: CellSummary) -> Estimate | None:
        other = beside(cell)
        value = counter.per_sample(other) if other is not None and other.ok else None
        return None if value is None else Estimate.exact(value)

    return Cost(name, of, byte_ticks, beside)


def _flops(findings: Findings) -> Cost:
    def of(cell: CellSummary) -> Estimate | None:
        share = share_of_dense(cell, findings.run)
        return None if share is None or not math.isfinite(share) else Estimate.exact(share)

    return Cost("FLOPs of the definition over dense attention's", of, factor_ticks)
