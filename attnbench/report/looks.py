"""The looks of the methods of a run: told apart in all its figures together, so that none changes from one to the next."""

from dataclasses import dataclass

from attnbench.report import style
from attnbench.report.findings import Findings


@dataclass(frozen=True)
class Narrowed(Findings):
    """A part of a run's findings, and all methods that must be told apart from each other: they need not be in it."""

    rivals: tuple[str, ...] = ()


def run_looks(findings: Findings) -> dict[str, style.Look]:
    """By label, on the ground of the present figure; to be called within `style.applied`."""
    planned = [cell.label for cell in findings.run.cells]
    rivals = findings.rivals if isinstance(findings, Narrowed) else [*planned, *findings.labels]
    return style.on_this_ground(style.looks(rivals))
