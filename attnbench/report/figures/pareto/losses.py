"""What a method may lose: exact attention, by its fidelity; digits, by rounding; of a task, by what a model has learnt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score
from attnbench.analyze.learnt import learnt
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import ACCURACY, BITS, GRADIENT_ROUNDING, LOSS, MASS_RECALL, OUTPUT_ERROR, ROUNDING


@dataclass(frozen=True)
class Loss:
    """Read off a cell that has a quality; less is better."""

    name: str
    of: Callable[[CellSummary], Estimate | None]
    logarithmic: bool = False
    """Whether methods differ by factors; a loss of 0 has no place then."""


_FIDELITY = (
    Loss("output error", lambda cell: score(cell, OUTPUT_ERROR)),
    Loss("1 - mass recall", lambda cell: _rest(score(cell, MASS_RECALL))),
)
_NUMERICS = (
    Loss("rounding of rows", lambda cell: score(cell, ROUNDING), logarithmic=True),
    Loss("rounding of gradients", lambda cell: score(cell, GRADIENT_ROUNDING), logarithmic=True),
)
_BITS = Loss("bits per dimension or byte", lambda cell: learnt(cell, BITS))
_TASK = (
    Loss("1 - accuracy", lambda cell: _rest(learnt(cell, ACCURACY))),
    Loss("loss, nats", lambda cell: learnt(cell, LOSS)),
)


def losses(section: Section) -> Sequence[Loss]:
    """Of fidelity, numerics and training; other workloads lose nothing that is known."""
    if section.workload is Workload.FIDELITY:
        return _FIDELITY
    if section.workload is Workload.NUMERICS:
        return _NUMERICS
    if section.workload is not Workload.TRAIN:
        return ()
    return (_BITS,) if any(BITS in cell.scores for cell in section.summaries) else _TASK


def _rest(share: Estimate | None) -> Estimate | None:
    return share.rest() if share is not None else None
