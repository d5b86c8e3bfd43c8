"""What a method loses beside what it costs: cells of one method and length, and those that none beats in both."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from attnbench.analyze.pareto import Candidate, front
from attnbench.report.page.board import Board, Place
from attnbench.report.page.charts.columns import Column
from attnbench.schema.cell import Workload

_Key = tuple[object, ...]
Pair = tuple[int, int]
"""The numbers of the cell that has the cost and of the one that has the loss."""


def pairs(board: Board, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """By group, run and length: the pairs, and of each cost and loss which of them are on the front, by rising cost."""
    costs = [column for column in columns if column.quantity.cost]
    losses = [column for column in columns if column.quantity.loss]
    found: dict[tuple[int, int, int], list[Pair]] = {}
    for pair in _pairs(board) if losses else ():
        place = board.places[pair[0]]
        found.setdefault((place.group, place.run, place.summary.cell.problem.N), []).append(pair)
    return [
        {"group": group, "run": run, "N": N, "cells": members, "fronts": _fronts(members, costs, losses)}
        for (group, run, N), members in found.items()
    ]


def _pairs(board: Board) -> Iterator[Pair]:
    """Of every cell with numbers those that say what it loses: itself, or the same method's scores or training.

    Of the same run where it has one, else of the first other run on the page.
    """
    known: dict[Workload, dict[_Key, int]] = {}
    for number, place in enumerate(board.places):
        if place.summary.ok and _has_quality(place):
            found = known.setdefault(place.summary.cell.workload, {})
            found.setdefault((place.run, *_what(place)), number)
            found.setdefault(_what(place), number)
    for number, place in enumerate(board.places):
        if place.summary.ok and _has_quality(place):
            yield number, number
        elif place.summary.ok:
            owns = (found.get((place.run, *_what(place)), found.get(_what(place))) for found in known.values())
            yield from ((number, own) for own in owns if own is not None)


def _has_quality(place: Place) -> bool:
    return not place.summary.cell.workload.is_timed or place.summary.cell.workload is Workload.TRAIN


def _what(place: Place) -> _Key:
    """A score is that of one head of one sequence: H and B may differ. A model is one of the same shape, at any B."""
    cell = place.summary.cell
    problem, model = cell.problem, cell.training
    same = (place.method, problem.N, problem.D, problem.M, problem.causal, problem.dtype, problem.padding)
    if model is None:
        return same
    return (*same, problem.H, model.task, model.data, model.layers, model.feedforward, model.mixtures)


def _fronts(members: Sequence[Pair], costs: Sequence[Column], losses: Sequence[Column]) -> dict[str, list[int]]:
    """`time/output_error`: places within the pairs; absent where no pair has both figures."""
    found = {}
    for cost, loss in product(costs, losses):
        candidates = [c for n, pair in enumerate(members) if (c := _candidate(n, pair, cost, loss)) is not None]
        if candidates:
            found[f"{cost.quantity.key}/{loss.quantity.key}"] = [int(each.label) for each in front(candidates)]
    return found


def _candidate(number: int, pair: Pair, cost: Column, loss: Column) -> Candidate | None:
    """Its label is its place within the pairs."""
    paid, lost = cost.points[pair[0]], loss.points[pair[1]]
    if paid is None or lost is None:
        return None
    return Candidate(str(number), paid.estimate, lost.estimate)
