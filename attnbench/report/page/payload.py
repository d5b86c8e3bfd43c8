"""The numbers and looks of a page as one JSON text: columns, not objects, and nothing that HTML could take for markup."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from attnbench.analyze.cells import learning_curve
from attnbench.analyze.roofline import placed
from attnbench.report.drawing.images import on_dark
from attnbench.report.drawing.style import Dashes, Look
from attnbench.report.page.board import Board, Group, telling
from attnbench.report.page.columns import Column, pairs
from attnbench.report.questions.learning.words import CURVES
from attnbench.report.text.latex import SPECIAL
from attnbench.report.text.models import chance
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import SCALES
from attnbench.schema.cell import Workload
from attnbench.schema.units import length

Json = dict[str, Any]
_WIDTH = 1.6
"""The width of a line; dashes grow with it."""
_INERT = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def dumps(data: Json) -> str:
    """Write strict JSON that may stand within any element; raise ValueError on what is no number."""
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_INERT)


def payload(board: Board, columns: Sequence[Column]) -> Json:
    """Return all that the script draws. It computes no statistics: these come from here."""
    places = board.places
    statuses = sorted({place.summary.status for place in places})
    every = (placed(place.summary, board.runs[place.run].run) for place in places)
    roofline = [at if at is not None and at.flops and at.traffic else None for at in every]
    roofline = roofline if any(roofline) else []
    return {
        "runs": [{"name": name} for name in board.names],
        "methods": [
            {
                "name": board.method_names[label],
                "color": f"var({variable(look.color)})",
                "dash": dashes(look.line),
                "corners": corners(look.marker),
                "filled": look.filled,
            }
            for label, look in board.looks.items()
        ],
        "groups": [_group(board, group) for group in board.groups],
        "first": board.first,
        "workloads": {work.value: work.words for work in Workload},
        "statuses": statuses,
        "cells": {
            "run": [place.run for place in places],
            "group": [place.group for place in places],
            "method": [place.method for place in places],
            "N": [place.summary.cell.problem.N for place in places],
            "status": [statuses.index(place.summary.status) for place in places],
        },
        "quantities": [_quantity(column) for column in columns],
        "roofline": {
            "intensity": rounded(each.intensity if each else None for each in roofline),
            "rate": rounded(each.flops_per_second if each else None for each in roofline),
        },
        "pairs": pairs(board, columns),
        "learning": _learning(board),
        "learnt": {name: words for name, (_, words) in CURVES.items()},
        "units": {unit.value: scales for unit, scales in SCALES.items()},
        "lengths": {str(N): length(N) for group in board.groups for N in group.lengths},
        "tex": SPECIAL,
    }


def _group(board: Board, group: Group) -> Json:
    _, section = group.members[0]
    roofs: Json = {}
    for run, own in group.members:
        first = own.summaries[0]
        # a run may have been measured on unlike devices; the cells of a section are of one
        roof = board.runs[run].run.on(first.environment).surroundings.roof.get(first.cell.ceiling)
        if roof is not None:
            roofs[str(run)] = rounded([roof.flops_per_second, roof.bytes_per_second])
    return {
        "workload": section.workload.value,
        "mask": section.mask,
        "conditions": one_line(section.conditions),
        "roofs": roofs,
        "methods": [board.labels.index(label) for label in group.labels],
        "first": [board.labels.index(label) for label in telling(group)],
    }


def _quantity(column: Column) -> Json:
    # empty where no cell has a range
    ranges = [each.interval if each and not each.is_exact else None for each in column.estimates]
    ends = [rounded(getattr(each, end, None) for each in ranges) if any(ranges) else [] for end in ("low", "high")]
    return {
        "key": column.key,
        # a figure that is read by several counters has a column for each
        "column": column.quantity.column + column.key.removeprefix(column.quantity.name),
        "titles": column.titles,
        "unit": column.quantity.unit.value,
        "scales": not column.quantity.is_complement,
        "value": rounded(each.value if each else None for each in column.estimates),
        "low": ends[0],
        "high": ends[1],
        "fits": column.fits,
    }


def _learning(board: Board) -> list[Json]:
    """Return for each cell that was trained its curves: medians over the seeds, the range that they span, and chance."""
    found = []
    for cell, place in enumerate(board.places):
        if place.summary.cell.workload is Workload.TRAIN:
            curves: Json = {}
            for name, (series, _) in CURVES.items():
                if curve := learning_curve(place.summary, series):
                    columns = {"update": "update", "seconds": "seconds", "value": "middle", "low": "low", "high": "high"}
                    moments = {key: rounded(getattr(each, field) for each in curve) for key, field in columns.items()}
                    curves[name] = {**moments, "chance": rounded([chance(place.summary, name)])[0]}
            if "loss" in curves:
                found.append({"cell": cell, **curves})
    return found


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Round to six digits, finer than any screen, what is no whole number; return None for what JSON cannot say.

    Whole numbers, as bytes, are copied from the page as they are.
    """

    def short_(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        if not float(value).is_integer():
            value = float(f"{value:.6g}")
        return int(value) if float(value).is_integer() and abs(value) < 2**53 else value

    return list(map(short_, values))


def variables(looks: Iterable[Look]) -> str:
    """Return a CSS variable for each colour, which is lighter on a dark ground where it would be lost there."""
    colors = sorted({look.color for look in looks})
    return "".join(f"{variable(color)}:light-dark({color},{on_dark(color)});" for color in colors)


def variable(color: str) -> str:
    """Return the name of the CSS variable of a colour: `--c-d55e00`."""
    return f"--c-{color.removeprefix('#').lower()}"


def dashes(line: Dashes) -> str:
    """Return what `stroke-dasharray` takes; empty for a line without gaps."""
    return "" if isinstance(line, str) else " ".join(f"{part * _WIDTH:.3g}" for part in line[1])


def corners(marker: str) -> list[list[float]]:
    """Return the corners of a marker, in units of a circle's radius, down being positive; none of a circle."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    if path.codes is not None and (np.asarray(path.codes) == Path.CURVE4).any():
        return []
    first = np.asarray(path.to_polygons(closed_only=False)[0], dtype=float)
    # matplotlib's circle has a radius of one half
    return [[round(2 * x, 2), round(-2 * y, 2)] for x, y in first.tolist()]
