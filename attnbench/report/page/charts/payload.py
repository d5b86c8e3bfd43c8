"""The numbers of a page as one JSON text: columns, not objects, and nothing in it that HTML could take for markup."""

import json
from collections.abc import Sequence
from typing import Any

from attnbench.analyze.intensity import placed
from attnbench.report.drawing.lines.quantity import Point
from attnbench.report.findings import Findings
from attnbench.report.page.appearance import corners, dashes, name
from attnbench.report.page.board import Board, Group, telling
from attnbench.report.page.charts.columns import Column
from attnbench.report.page.charts.learning import learning
from attnbench.report.page.charts.pairs import pairs
from attnbench.report.page.charts.rounding import all_rounded, rounded
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import BYTE_UNITS, TIME_UNITS
from attnbench.report.text.per import per
from attnbench.report.text.statuses import short
from attnbench.schema.units import length

Json = dict[str, Any]
_UNITS = {
    "s": TIME_UNITS,
    "B": BYTE_UNITS,
    "%": ((0.01, "%"),),
    "nats": ((1.0, "nats"),),
    "bits": ((1.0, "bits"),),
    "tokens/s": ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
    "": ((1.0, ""),),
}
_INERT = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def dumps(data: Json) -> str:
    """Strict JSON that may stand within any element; raises ValueError on what is no number."""
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_INERT)


def payload(board: Board, columns: Sequence[Column]) -> Json:
    """All that the script draws. It computes no statistics: these come from here."""
    statuses = sorted({place.summary.status for place in board.places})
    return {
        "runs": [_run(findings, name) for findings, name in zip(board.runs, board.names, strict=True)],
        "methods": [_method(board, label) for label in board.labels],
        "groups": [_group(board, group) for group in board.groups],
        "first": board.first,
        "statuses": [{"key": status, "short": short(status)} for status in statuses],
        "cells": _cells(board, statuses),
        "quantities": [_quantity(column) for column in columns],
        "roofline": _roofline(board),
        "pairs": pairs(board, columns),
        "learning": learning(board),
        "units": _UNITS,
        "lengths": {str(N): length(N) for group in board.groups for N in group.lengths},
    }


def _run(findings: Findings, name: str) -> Json:
    roofs = findings.run.surroundings.roof
    return {
        "name": name,
        "roofs": {each: [rounded(roof.flops_per_second), rounded(roof.bytes_per_second)] for each, roof in roofs.items()},
    }


def _method(board: Board, label: str) -> Json:
    look = board.looks[label]
    return {
        "name": board.method_names[label],
        "color": f"var({name(look.color)})",
        "dash": dashes(look.line),
        "corners": corners(look.marker),
        "filled": look.filled,
    }


def _group(board: Board, group: Group) -> Json:
    named = board.runs[group.members[0][0]].run.suite.report.baselines
    numbers = {label: number for number, label in enumerate(board.labels)}
    cell = group.members[0][1].summaries[0].cell
    return {
        "workload": group.workload.value,
        "mask": group.mask,
        "conditions": one_line(group.conditions),
        "roof": cell.ceiling,
        "per": per(group.workload),
        "methods": [numbers[label] for label in group.labels],
        "first": [numbers[label] for label in telling(group, named)],
    }


def _cells(board: Board, statuses: Sequence[str]) -> Json:
    places = board.places
    return {
        "run": [place.run for place in places],
        "group": [place.group for place in places],
        "method": [place.method for place in places],
        "N": [place.summary.cell.problem.N for place in places],
        "status": [statuses.index(place.summary.status) for place in places],
    }


def _quantity(column: Column) -> Json:
    quantity, points = column.quantity, column.points
    return {
        "key": quantity.key,
        "title": quantity.title,
        "unit": quantity.unit,
        "per": quantity.per,
        "scales": quantity.scales,
        "cost": quantity.cost,
        "loss": quantity.loss,
        "value": all_rounded(point.value if point else None for point in points),
        **_ends(points),
        "beyond": {str(cell): rounded(value) for cell, value in column.beyond.items()} if quantity.scales else {},
        "fits": {"/".join(map(str, key)): text for key, text in column.fits.items()},
    }


def _ends(points: Sequence[Point | None]) -> Json:
    """Empty where no cell has a range."""
    ranges = [point.estimate.interval if point and not point.estimate.is_exact else None for point in points]
    if not any(ranges):
        return {"low": [], "high": []}
    return {
        "low": all_rounded(each.low if each else None for each in ranges),
        "high": all_rounded(each.high if each else None for each in ranges),
    }


def _roofline(board: Board) -> Json:
    found = [placed(place.summary, board.runs[place.run].run) for place in board.places]
    if not any(found):
        return {"intensity": [], "rate": [], "roof": []}
    return {
        "intensity": all_rounded(each.intensity if each else None for each in found),
        "rate": all_rounded(each.flops_per_second if each else None for each in found),
        "roof": all_rounded(each.roof if each else None for each in found),
    }
