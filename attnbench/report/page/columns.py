"""A figure of the vocabulary over all cells of a board: its numbers, how it grows, and what is weighed against what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from attnbench.analyze.best import Candidate, front
from attnbench.analyze.quantities import Center, Quantity
from attnbench.analyze.scaling import exponent
from attnbench.analyze.sections import grouped
from attnbench.analyze.statistics import Estimate
from attnbench.report.figures.tradeoffs import MODEL, Key, alike
from attnbench.report.page.board import Board, Place
from attnbench.report.text.numbers import exponent_text, heading, shown
from attnbench.schema.cell import Workload


@dataclass(frozen=True)
class Column:
    """One figure, cell by cell in the board's order."""

    board: Board
    key: str
    quantities: tuple[Quantity | None, ...]
    """By run; memory that was counted differently in two runs is two columns."""

    @cached_property
    def quantity(self) -> Quantity:
        """The figure of the first run that has it."""
        return next(each for each in self.quantities if each is not None)

    @property
    def titles(self) -> list[str]:
        """By group, what the figure is called there: `time per token`."""
        return [heading(self.quantity, group.section.workload) for group in self.board.groups]

    @property
    def shown_titles(self) -> list[str]:
        """What it is called in the groups that have such a figure."""
        there = {place.group for place, found in zip(self.board.places, self.estimates, strict=True) if found}
        return [title for group, title in enumerate(self.titles) if group in there]

    @cached_property
    def estimates(self) -> tuple[Estimate | None, ...]:
        """By cell; None of one without a figure."""
        every = ((self.quantities[place.run], place.summary) for place in self.board.places)
        return tuple(quantity.estimate(summary) if quantity else None for quantity, summary in every)

    @property
    def texts(self) -> list[str]:
        """By cell, as tables show it; empty of one without a figure."""
        return [shown(self.quantity, each) for each in self.estimates]

    @property
    def fits(self) -> dict[str, str]:
        """By `group/run/method`: `N^1.98 [1.95, 2.01]`; absent where nothing is fitted."""
        found = {}
        for (group, run, method), numbers in self.board.lines.items():
            quantity, cells = self.quantities[run], [self.board.places[n].summary for n in numbers]
            if quantity is not None and (text := exponent_text(exponent(cells, quantity))):
                found[f"{group}/{run}/{method}"] = text
        return found


def columns(board: Board) -> list[Column]:
    """Return a column for every figure of the vocabulary that some cell has."""
    found = []
    for known in zip(*(findings.figures for findings in board.runs), strict=True):
        number = 0
        for about in dict.fromkeys(each.about for each in known):
            key = f"{known[0].name}{f'_{number + 1}' if number else ''}"
            column = Column(board, key, tuple(each if each.about == about else None for each in known))
            if any(column.estimates):
                found.append(column)
                number += 1
    return found


def pairs(board: Board, found: Sequence[Column]) -> list[dict[str, Any]]:
    """Return by group, run and length the cells of a cost and of a loss that belong together.

    With them, for each cost and loss, come the pairs that none beats in both, by rising cost.
    """
    # scores are what is lost; any other figure of which less is better is paid
    less = [each for each in found if not each.quantity.more_is_better]
    costs = [each for each in less if each.quantity.center is not Center.SUMS]
    losses = [each for each in less if each.quantity.center is Center.SUMS]
    together = ((board.places[paid], (paid, lost)) for paid, lost in (_pairs(board) if losses else ()))
    members = grouped(((place.group, place.run, place.summary.cell.problem.N), pair) for place, pair in together)
    made = []
    for (group, run, N), cells in members.items():
        fronts = {}
        for cost, loss in product(costs, losses):
            every = ((number, cost.estimates[paid], loss.estimates[lost]) for number, (paid, lost) in enumerate(cells))
            candidates = [
                Candidate(str(number), paid, lost) for number, paid, lost in every if paid and paid.value > 0 and lost
            ]
            if candidates:
                fronts[f"{cost.key}/{loss.key}"] = [int(each.label) for each in front(candidates)]
        made.append({"group": group, "run": run, "N": N, "cells": cells, "fronts": fronts})
    return made


def _pairs(board: Board) -> Iterator[tuple[int, int]]:
    """Pair every cell that has numbers with those that say what it loses: itself, or the same method's scores or training.

    They are those of the same run where it has some, else those of the first other run on the page.
    """
    ok = [(number, place) for number, place in enumerate(board.places) if place.summary.ok]
    known: dict[Workload, dict[Key, int]] = {}
    for number, place in ok:
        if _has_quality(place):
            for key in _keys(place):
                known.setdefault(place.summary.cell.workload, {}).setdefault(key, number)
    for number, place in ok:
        if _has_quality(place):
            yield number, number
        else:
            owns = (next((found[key] for key in _keys(place) if key in found), None) for found in known.values())
            yield from ((number, own) for own in owns if own is not None)


def _has_quality(place: Place) -> bool:
    return not place.summary.cell.workload.is_timed or place.summary.cell.workload is Workload.TRAIN


def _keys(place: Place) -> list[Key]:
    """Return the keys by which cells that belong together are found, first those of the same run, and of the same problem.

    Scores are those of one head of one sequence: H and B may differ where none agrees in them.
    """
    cell = place.summary.cell
    problem, model = cell.problem, cell.training
    about: Key = (problem.N, problem.D, problem.M, problem.causal, problem.dtype, problem.padding)
    if model is not None:
        about += (problem.H, *(getattr(model, name) for name in MODEL))
    keys = alike(cell, *about)
    return [*((place.run, problem, key) for key in keys), *((place.run, key) for key in keys), *keys]
