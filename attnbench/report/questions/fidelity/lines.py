"""Which cells of a fidelity run are joined by a line: those of one method that differ in one swept parameter."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.schema.cell import Cell, label
from attnbench.schema.noun import Scalar


@dataclass(frozen=True)
class Line:
    """The method with its other parameters, the swept one (empty where there is none), and cells by its rising value."""

    name: str
    swept: str
    cells: tuple[CellSummary, ...]

    def step(self, summary: CellSummary) -> str:
        """`rounds=4`; empty where nothing is swept."""
        return f"{self.swept}={summary.cell.params[self.swept]}" if self.swept else ""


def lines(section: Section, N: int) -> list[Line]:
    """Of one length, in suite order."""
    swept = swept_parameters([s.cell for s in section.summaries])
    found: dict[str, list[CellSummary]] = {}
    for summary in section.summaries:
        if summary.cell.problem.N == N:
            found.setdefault(line_of(summary.cell, swept), []).append(summary)
    return [_line(name, cells, swept[cells[0].cell.method]) for name, cells in found.items()]


def line_of(cell: Cell, swept: dict[str, str]) -> str:
    """`lsh.reformer(bucket_size=64)`: without the parameter that changes along the line."""
    return label(cell.method, {name: value for name, value in cell.params.items() if name != swept[cell.method]})


def swept_parameters(cells: Sequence[Cell]) -> dict[str, str]:
    """By method: of its numbers, the one with the most values; empty where none has two."""
    found = {}
    for method in dict.fromkeys(cell.method for cell in cells):
        values: dict[str, set[Scalar]] = {}
        for cell in cells:
            for name, value in cell.params.items() if cell.method == method else ():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    values.setdefault(name, set()).add(value)
        several = {name: len(seen) for name, seen in values.items() if len(seen) > 1}
        found[method] = max(several, key=lambda name: several[name], default="")
    return found


def _line(name: str, cells: Sequence[CellSummary], swept: str) -> Line:
    # a method may have some cells without the parameter
    joined = swept if all(swept in s.cell.params for s in cells) else ""
    rising = sorted(cells, key=lambda s: float(s.cell.params[joined])) if joined else cells
    return Line(name, joined, tuple(rising))
