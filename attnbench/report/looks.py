"""The looks of all methods of a run, also of those that a figure leaves out: so that none changes from figure to figure."""

from attnbench.report import style
from attnbench.report.findings import Findings


def run_looks(findings: Findings) -> dict[str, style.Look]:
    """By label, on the ground of the present figure; to be called within `style.applied`."""
    planned = (cell.label for cell in findings.run.cells)
    return style.on_this_ground(style.looks([*planned, *findings.labels]))
