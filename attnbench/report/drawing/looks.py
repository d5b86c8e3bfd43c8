"""The looks of the methods of a run: told apart in all its figures together, so that none changes from one to the next."""

from attnbench.report.drawing import style
from attnbench.report.findings import Findings


def run_looks(findings: Findings) -> dict[str, style.Look]:
    """By label, on the ground of the present figure; to be called within `style.applied`."""
    planned = [cell.label for cell in findings.run.cells]
    return style.on_this_ground(style.looks(findings.rivals or [*planned, *findings.labels]))
