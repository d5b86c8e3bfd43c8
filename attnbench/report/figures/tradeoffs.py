"""The loss of each method against its cost: of one cell, or of the same method's cells that say more about its cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.best import Candidate
from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import MEMORY, STATE_BYTES, TIME, Quantity, Unit
from attnbench.analyze.sections import Section, grouped
from attnbench.analyze.statistics import Estimate
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import per
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.model import TIMED
from attnbench.schema.outcome import BITS, ERROR_RATE, GRADIENT_ROUNDING, LOSS, OUTPUT_ERROR, PERPLEXITY, ROUNDING

_LOSSES: dict[Workload, tuple[str, ...]] = {
    Workload.FIDELITY: (OUTPUT_ERROR, "missed_mass"),
    Workload.NUMERICS: (ROUNDING, GRADIENT_ROUNDING),
    Workload.TRAIN: ("wrong", LOSS),
    Workload.MODEL_QUALITY: (PERPLEXITY,),
}
MODEL = ("task", "data", "layers", "softmax_every", "feedforward", "mixtures")
"""The settings of a model that also apply to generating."""
Key = tuple[object, ...]
"""What cells that belong together agree in."""
_Beside = Callable[[CellSummary], CellSummary | None]
"""Gives for a cell that has a quality the cell that has a cost."""


@dataclass(frozen=True)
class Cost:
    """A figure of which less is better, read off the cell that has a quality or off another one of its method."""

    name: str
    """With a line of its own for a device that is not that of the section."""
    unit: Unit
    of: Callable[[CellSummary], Estimate | None]
    beside: _Beside = lambda cell: cell
    """The cell that it is read off, also where that one failed."""


@dataclass(frozen=True)
class Tradeoff:
    """One panel: a section that has a quality at one length, by one loss and one cost."""

    section: Section
    loss: Quantity
    cost: Cost

    @cached_property
    def by_length(self) -> dict[int, list[Candidate]]:
        """All cells that have both figures; 0 has no place on a logarithmic axis, which that of costs always is."""
        found: dict[int, list[Candidate]] = {}
        for cell in self.section.summaries:
            loss, cost = self.loss.estimate(cell), self.cost.of(cell)
            if loss is not None and cost is not None and cost.value > 0 and (loss.value > 0 or not self.loss.is_rounding):
                found.setdefault(cell.cell.problem.N, []).append(Candidate(cell.cell.label, cost, loss))
        return found

    @property
    def N(self) -> int:
        """The longest of the lengths at which the most methods have both figures."""
        return max(self.by_length, key=lambda N: (len(self.by_length[N]), N))

    @property
    def candidates(self) -> list[Candidate]:
        """The cells of this length."""
        return self.by_length[self.N]


def tradeoffs(findings: Findings) -> list[list[Tradeoff]]:
    """Return a row for each loss of each section that has a quality, a column for each cost; only such as have a point."""
    rows = [
        [Tradeoff(section, loss, cost) for cost in costs(findings, section)]
        for section in findings.sections
        for loss in losses(findings, section)
    ]
    return [kept for row in rows if (kept := [each for each in row if each.by_length])]


def losses(findings: Findings, section: Section) -> list[Quantity]:
    """Return the figures of a section that say what is lost, the less the better; none of workloads that lose nothing known."""
    names = _LOSSES.get(section.workload, ())
    if section.workload is Workload.TRAIN:
        scores = set[str]().union(*(cell.scores for cell in section.summaries))
        names = (BITS,) if BITS in scores else (ERROR_RATE, LOSS) if ERROR_RATE in scores else names
    return [findings.quantities[name] for name in names]


def costs(findings: Findings, section: Section) -> list[Cost]:
    """Return time and memory of each workload, and state, as far as the run has them; else the FLOPs of the definition."""
    found = _of_training(findings, section) if section.workload is Workload.TRAIN else _on_the_same_problem(findings, section)
    with_points = [cost for cost in found if any(cost.of(cell) for cell in section.summaries)]
    flops = Cost("FLOPs of the definition over dense attention's", Unit.FACTOR, findings.quantities["flops_of_dense"].estimate)
    return with_points or ([flops] if section.workload is Workload.FIDELITY else [])


def _on_the_same_problem(findings: Findings, section: Section) -> list[Cost]:
    """Return the costs of cells on the same problem: those of the attention alone, or of the whole models of the section."""
    whole, found, states = section.workload.has_whole_model, list[Cost](), list[Cost]()
    cells = [s for s in findings.summaries if s.cell.workload.has_whole_model is whole and not s.cell.workload.has_task]
    for workload in dict.fromkeys(s.cell.workload for s in cells if s.time):
        own = [s for s in cells if s.cell.workload is workload]
        found += _of_calls(findings, section, own, _problem, workload.words)
        if workload.keeps_state:
            name = f"state of one sequence, {workload.words}"
            states.append(_read(findings.quantities[STATE_BYTES], _beside(own, _problem), name))
    return [*found, *states[:1]]


def _problem(summary: CellSummary) -> Key:
    return (summary.cell.problem,)


def _of_training(findings: Findings, section: Section) -> list[Cost]:
    """Return the costs of an update; of generating by the same model, and of decoding by its attention, whatever the batch."""

    def of_update(name: str, title: str) -> Cost:
        quantity = findings.quantities[name]
        return Cost(title, quantity.unit, lambda s: found.times(s.B) if (found := quantity.estimate(s)) else None)

    def shape(summary: CellSummary) -> Key:
        """Return the problem but for its batch, and the model around it."""
        known = [getattr(summary.cell.training, name, None) for name in MODEL]
        return summary.cell.problem.model_copy(update={"B": 1}), *known

    later = grouped(
        ((s.cell.workload, "largest B" if s.cell.batch is Batch.LARGEST else f"B={s.cell.problem.B}"), s)
        for s in findings.summaries
        if s.cell.workload.keeps_state
    )
    found = [of_update(TIME, "time per update"), of_update(MEMORY, "memory of an update")]
    places: list[_Beside] = []
    for (workload, batch), cells in later.items():
        if any(s.time for s in cells):
            about: Callable[[CellSummary], Key] = shape if workload.has_model else lambda s: shape(s)[:1]
            places.append(_beside(cells, about))
            found += _of_calls(findings, section, cells, about, f"{workload.words}, {batch}")

    def first(cell: CellSummary) -> CellSummary | None:
        """Return the first of several that was measured, else the first that there is."""
        known = [other for place in places if (other := place(cell)) is not None]
        return next((other for other in known if other.ok), known[0] if known else None)

    # what one sequence keeps is no matter of the batch, nor of the device
    return [*found, _read(findings.quantities[STATE_BYTES], first, "state of one sequence")]


def _of_calls(
    findings: Findings, section: Section, cells: Sequence[CellSummary], about: Callable[[CellSummary], Key], name: str
) -> list[Cost]:
    """Return time and memory of cells of one workload, of each device apart; another one than the section's is named."""
    found, workload = list[Cost](), cells[0].cell.workload
    for there, own in grouped((findings.place(s), s) for s in cells).items():
        beside, on = _beside(own, about), "" if there == findings.place(section.summaries[0]) else f"\non {there}"
        found += [_read(findings.quantities[each], beside, f"{each} {per(workload)}, {name}{on}") for each in (TIME, MEMORY)]
    return found


def _read(quantity: Quantity, beside: _Beside, name: str) -> Cost:
    return Cost(name, quantity.unit, lambda cell: quantity.estimate(beside(cell)), beside)


def _beside(cells: Sequence[CellSummary], about: Callable[[CellSummary], Key]) -> _Beside:
    """Find the cell of the same method and conditions among these: the first that was measured, else the first."""
    known: dict[Key, CellSummary] = {}
    for summary in sorted(cells, key=lambda s: not s.ok):
        for key in alike(summary.cell, *about(summary)):
            known.setdefault(key, summary)
    return lambda cell: next((known[key] for key in alike(cell.cell, *about(cell)) if key in known), None)


def alike(cell: Cell, *about: object) -> tuple[Key, Key]:
    """Return the keys by which a cell with a quality and one with a cost are matched, the closer match first.

    Both hold the method and every condition that may change a score. The first also holds the clock, the allocator and where
    the batch came from: no score depends on them, so they need not agree where no cell of the run has them alike.
    """
    model = cell.model and tuple(getattr(cell.model, name) for name in TIMED)
    same = (cell.label, cell.device_kind, cell.inputs, cell.recording, cell.scale, cell.matmul_precision, model, *about)
    return (same, (cell.clock, cell.allocator, cell.batch)), (same, None)
