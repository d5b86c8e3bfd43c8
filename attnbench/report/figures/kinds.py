"""The kinds of figures, by the names that the command line knows; what one comes to, and why one cannot be drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from attnbench.analyze.sections import Section
from attnbench.report.drawing.board import Board
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload


class Kind(StrEnum):
    """What is asked."""

    SCALING = "scaling"
    MEMORY = "memory"
    PARETO = "pareto"
    ROOFLINE = "roofline"
    CROSSOVER = "crossover"
    DECODE = "decode"
    RATIO = "ratio"
    CURVES = "curves"
    DRAWINGS = "drawings"


@dataclass(frozen=True)
class Drawing:
    """One figure before it is drawn; `workload` is empty where it is of the whole run."""

    workload: str
    board: Board
    caption: str


class CannotDrawError(ValueError):
    """The run lacks what a kind shows; the message says what, and what would give it."""


def by_workload(findings: Findings, belongs: Callable[[Workload], bool]) -> dict[Workload, list[Section]]:
    """The sections of the workloads that belong, in the order of the run."""
    found: dict[Workload, list[Section]] = {}
    for section in findings.sections:
        if belongs(section.workload):
            found.setdefault(section.workload, []).append(section)
    return found
