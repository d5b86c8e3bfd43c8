"""Scouting: what the machine and the methods say of a suite before anything is measured."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from attnbench.executors.lane import Lane
from attnbench.executors.local import Answer, Asking
from attnbench.measure import environment
from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Inquiry, Prospect, Surroundings, Survey
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.suite import Suite
from attnbench.store import roofs
from attnbench.suite.expand import expand

SURVEY_TIMEOUT = 120.0
INQUIRY_TIMEOUT = 30.0


class ScoutError(RuntimeError):
    """The machine cannot be surveyed: no such device, or torch does not work."""


@dataclass
class Scouted:
    """A suite resolved for its device, its cells, and what is known of each."""

    suite: Suite
    cells: tuple[Cell, ...]
    surroundings: Surroundings
    descriptions: dict[str, Description] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    """By method: one that cannot even be asked."""
    prospects: dict[str, Prospect] = field(default_factory=dict)

    def refusals(self) -> dict[str, Failed]:
        """By cell key: cells that are ruled out, and why."""
        found = {cell.key: self._refusal(cell) for cell in self.cells}
        return {key: failed for key, failed in found.items() if failed is not None}

    def _refusal(self, cell: Cell) -> Failed | None:
        if (failed := self.failures.get(cell.method)) is not None:
            return failed
        if absent := self.descriptions[cell.method].missing:
            return Failed(
                status=Status.MISSING,
                reason=f"not installed; pip install {' '.join(map(repr, absent))}, or as docs/peers.md says",
            )
        reason = self.prospects[cell.key].why_not
        return None if reason is None else Failed(status=Status.UNSUPPORTED, reason=reason)

    def descriptions_without_prospects(self) -> dict[str, Description]:
        """Who the methods are, without the cells they were asked about."""
        return {name: d.model_copy(update={"prospects": ()}) for name, d in self.descriptions.items()}

    def costs(self) -> dict[str, Cost]:
        """By cell key, where the method has a formula."""
        return {key: p.cost for key, p in self.prospects.items() if p.cost is not None}

    def check_cells(self) -> dict[str, tuple[Cell, ...]]:
        """By cell key: the cells to check its method on."""
        return {key: p.checks for key, p in self.prospects.items() if p.checks}


def scout(suite: Suite, worker: Asking, *, roof: bool = True, lane: Lane | None = None) -> Scouted:
    """Resolve `device: auto`, expand, and ask every method about its cells; with a lane, not while another run measures.

    Raises ScoutError, TooManyCellsError, LaneTakenError.
    """
    surroundings = _survey(suite.device, (), worker)
    resolved = suite.resolved(surroundings.device)
    cells = tuple(expand(resolved))
    with lane.held(surroundings) if lane else nullcontext():
        if roof:
            surroundings = _survey(suite.device, tuple(dict.fromkeys(cell.ceiling for cell in cells)), worker)
            surroundings = roofs.raised(environment.digest(environment.gather() | surroundings.facts), surroundings)
        scouted = Scouted(resolved, cells, surroundings)
        for method in dict.fromkeys(cell.method for cell in scouted.cells):
            _ask(scouted, worker, method, [cell for cell in scouted.cells if cell.method == method])
    return scouted


def _survey(device: str, ceilings: tuple[str, ...], worker: Asking) -> Surroundings:
    surroundings = _answer(worker, Survey(device=device, ceilings=ceilings), SURVEY_TIMEOUT)
    if not isinstance(surroundings, Surroundings):
        why = surroundings.reason if isinstance(surroundings, Failed) else "no answer"
        raise ScoutError(f"device {device!r} cannot be used: {why}")
    return surroundings


def _answer(worker: Asking, question: Inquiry | Survey, timeout: float) -> Answer:
    """The answer; asked once more where the process died of it, for it may have been killed by somebody else."""
    answer, _ = worker.ask(question, timeout)
    if isinstance(answer, Failed) and answer.status is Status.CRASHED:
        answer, _ = worker.ask(question, timeout)
    return answer


def _ask(scouted: Scouted, worker: Asking, method: str, cells: Sequence[Cell]) -> None:
    answer = _answer(worker, Inquiry(method=method, cells=tuple(cells)), INQUIRY_TIMEOUT)
    if isinstance(answer, Description):
        scouted.descriptions[method] = answer
        scouted.prospects |= {cell.key: p for cell, p in zip(cells, answer.prospects, strict=True)}
    else:
        unknown = Failed(status=Status.ERROR, reason=f"it answered with a {type(answer).__name__}")
        scouted.failures[method] = answer if isinstance(answer, Failed) else unknown
