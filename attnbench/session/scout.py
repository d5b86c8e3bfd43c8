"""Scouting: asking the machine and the methods about a suite before anything is measured."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from attnbench.analyze.sections import grouped
from attnbench.measure import environment
from attnbench.places.station import Station
from attnbench.schedule.bisection import of_lengths
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import CHANCE, Ledger
from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Answer, Description, Inquiry, Prospect, Surroundings, Survey
from attnbench.schema.errors import AttnbenchError
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.store.cache import with_highest_roofs
from attnbench.suite.expand import expand

SURVEY_TIMEOUT = 120.0
INQUIRY_TIMEOUT = 30.0
_AT_ONCE = 5000
"""The cells that a method is asked about at a time."""


CellsOf = Callable[[Suite], Sequence[Cell]]
"""Gives those cells of a suite that was resolved for its device which are wanted."""


class ScoutError(AttnbenchError):
    """The machine cannot be surveyed: no such device, or torch does not work."""


@dataclass
class Scouted:
    """A suite resolved for its device, its cells, and what is known about each of them."""

    suite: Suite
    cells: tuple[Cell, ...]
    surroundings: Surroundings
    descriptions: dict[str, Description] = field(default_factory=dict)
    """What the methods say about themselves; what they say about cells are the prospects."""
    failures: dict[str, Failed] = field(default_factory=dict)
    """How a method failed that could not be asked, by its name."""
    prospects: dict[str, Prospect] = field(default_factory=dict)

    def jobs(self, info: RunInfo, ledger: Ledger) -> CellJobs:
        """Return the jobs of a run of this suite, by what is known of it."""
        return CellJobs(info, ledger, self.refusals(), self.check_cells())

    def added_to(self, jobs: CellJobs, cells: Sequence[Cell]) -> CellJobs:
        """Return the jobs of a run with further cells of this suite, which has their lengths."""
        info, keys = jobs.run_info, {cell.key for cell in cells}
        changes = {
            "cells": (*info.cells, *cells),
            "costs": info.costs | {key: cost for key, cost in self.costs().items() if key in keys},
            "suite": of_lengths(info.suite, {*info.suite.axes.N, *(cell.problem.N for cell in cells)}),
        }
        return replace(
            jobs,
            run_info=info.model_copy(update=changes),
            refusals=jobs.refusals | self.refusals(),
            check_cells=jobs.check_cells | self.check_cells(),
        )

    def refusals(self) -> dict[str, Failed]:
        """Return why cells are ruled out, by cell key."""
        found = {}
        for cell in self.cells:
            if (failed := self.failures.get(cell.method)) is not None:
                found[cell.key] = failed
            elif absent := self.descriptions[cell.method].missing:
                reason = f"not installed; pip install {' '.join(map(repr, absent))}, or as docs/peers.md says"
                found[cell.key] = Failed(status=Status.MISSING, reason=reason)
            elif (why_not := self.prospects[cell.key].why_not) is not None:
                found[cell.key] = Failed(status=Status.UNSUPPORTED, reason=why_not)
        return found

    def costs(self) -> dict[str, Cost]:
        """Return the cost by cell key, where the method has a formula."""
        return {key: p.cost for key, p in self.prospects.items() if p.cost is not None}

    def check_cells(self) -> dict[str, tuple[Cell, ...]]:
        """Return the cells on which to check the method, by cell key."""
        return {key: p.checks for key, p in self.prospects.items() if p.checks}


def environment_of(station: Station, surroundings: Surroundings) -> Facts:
    """Return what numbers depend on. Two GPUs of one kind are like devices; which of them measured is in each record."""
    return station.environment() | {name: fact for name, fact in surroundings.facts.items() if name != "gpu_uuid"}


def surveyed(device: str, cells: Sequence[Cell], station: Station, like: Surroundings) -> Surroundings:
    """Return the surroundings of another lane, with the roofs of a device that it is like, or else its own.

    Raises ScoutError, LaneTakenError.
    """
    here = _survey(device, (), station)
    if all(here.facts.get(name) == fact for name, fact in like.facts.items() if name != "gpu_uuid"):
        return here.model_copy(update={"roof": like.roof})
    with station.held(here):
        return _with_roofs(device, cells, station)


def _with_roofs(device: str, cells: Sequence[Cell], station: Station) -> Surroundings:
    surroundings = _survey(device, tuple(dict.fromkeys(cell.ceiling for cell in cells)), station)
    return with_highest_roofs(environment.digest(environment_of(station, surroundings)), surroundings)


def scout(suite: Suite, station: Station, cells_of: CellsOf = expand, *, roof: bool = True, waits: bool = True) -> Scouted:
    """Resolve `device: auto`, expand the suite, and ask every method about its cells.

    If it `waits`, no other run measures meanwhile. Raises ScoutError, TooManyCellsError, LaneTakenError.
    """
    surroundings = _survey(suite.device, (), station)
    resolved = suite.resolved(surroundings.device)
    cells = tuple(cells_of(resolved))
    with station.held(surroundings) if waits else nullcontext():
        if roof:
            surroundings = _with_roofs(suite.device, cells, station)
        scouted = Scouted(resolved, cells, surroundings)
        known: dict[str, Cell] = {}
        for method, own in grouped((cell.method, cell) for cell in cells).items():
            for start in range(0, len(own), _AT_ONCE):
                part = tuple(own[start : start + _AT_ONCE])
                answer = _answer(station, Inquiry(method=method, cells=part), INQUIRY_TIMEOUT)
                if not isinstance(answer, Description):
                    unknown = Failed(status=Status.ERROR, reason=f"it answered with a {type(answer).__name__}")
                    scouted.failures[method] = answer if isinstance(answer, Failed) else unknown
                    break
                scouted.descriptions[method] = answer.model_copy(update={"prospects": ()})
                for cell, prospect in zip(part, answer.prospects, strict=True):
                    # a few cells are checked for many, and each is kept once
                    checks = tuple(known.setdefault(small.key, small) for small in prospect.checks)
                    scouted.prospects[cell.key] = prospect.model_copy(update={"checks": checks})
    return scouted


def _survey(device: str, ceilings: tuple[str, ...], station: Station) -> Surroundings:
    surroundings = _answer(station, Survey(device=device, ceilings=ceilings), SURVEY_TIMEOUT)
    if not isinstance(surroundings, Surroundings):
        why = surroundings.reason if isinstance(surroundings, Failed) else "no answer"
        raise ScoutError(f"device {device!r} cannot be used: {why}")
    return surroundings


def _answer(station: Station, question: Inquiry | Survey, timeout: float) -> Answer:
    """Return the answer; a process that died may have been killed from outside: then ask again, as often as a job is tried."""
    for _ in range(CHANCE[Status.CRASHED]):
        answer, _ = station.ask(question, timeout)
        if not (isinstance(answer, Failed) and answer.status is Status.CRASHED):
            break
    return answer
