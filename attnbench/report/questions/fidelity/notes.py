"""What stands below the tables and beside the plots of what is scored and not timed."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.statistics import ENOUGH
from attnbench.report.conditions import FIRST_LOOK, machine, shapes
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons
from attnbench.schema.cell import Cell, Inputs


def top_keys(summaries: Sequence[CellSummary]) -> str:
    """`32`, as the cells recorded it."""
    return ", ".join(dict.fromkeys(words for s in summaries if (words := s.fact("top_keys")))) or "top"


def recall_note(summaries: Sequence[CellSummary]) -> str:
    """What mass recall is."""
    keys = top_keys(summaries)
    return (
        f"Mass recall: of the weight that exact attention gives to the {keys} top keys of a query, the share that lies on keys "
        "to which the method gives a positive weight; mean over queries."
    )


def overlap_note(summaries: Sequence[CellSummary]) -> str:
    """What the overlap of top keys is."""
    keys = top_keys(summaries)
    return (
        f"Top overlap: of the {keys} keys to which exact attention gives most, the share that is among the {keys} to which the "
        "method gives most; mean over queries."
    )


def cosine_note(_: Sequence[CellSummary]) -> str:
    """What the cosine is."""
    return "Cosine: of the angle between o and o*, the outputs of the method and of exact attention; mean over queries."


def error_note(_: Sequence[CellSummary] = ()) -> str:
    """What the output's error is."""
    return "Output error: ‖o - o*‖ / ‖o*‖, o* by exact attention on the same inputs."


def rounding_note(_: Sequence[CellSummary] = ()) -> str:
    """What rounding is."""
    return (
        "Rounding: ‖o - o*‖ / ‖o*‖ of a row, o* by the method's own definition in float64 on the same inputs; root mean square "
        "over rows from all parts of the sequence."
    )


def worst_note(_: Sequence[CellSummary]) -> str:
    """What the worst row is."""
    return "Worst row: the same of the row that is off the most, mean of replicates."


def gradient_note(_: Sequence[CellSummary] = ()) -> str:
    """What the rounding of gradients is."""
    return (
        "Gradient rounding: the same of the gradients of a random projection of some late rows, each head of an input and each "
        "parameter in the place of a row; empty where there is no backward."
    )


def drift_note(_: Sequence[CellSummary]) -> str:
    """What drift is."""
    return "Late over early: the rounding of rows in the last quarter of the tokens over that in the first."


def batch_note(_: Sequence[CellSummary]) -> str:
    """What the difference by batch is."""
    return "Alone or in a batch: ‖o - o'‖ / ‖o'‖ of one sample alone and within its batch; 0 is bit for bit."


def step_note(_: Sequence[CellSummary]) -> str:
    """What the difference by steps is."""
    return "By steps or at once: the same of the last 64 tokens decoded one by one, and attended all at once."


def run_note(_: Sequence[CellSummary]) -> str:
    """What the difference from run to run is."""
    return "Run to run: the same of four calls on the same inputs, outputs and gradients, the most; 0 is bit for bit."


def deterministic_note(_: Sequence[CellSummary]) -> str:
    """What determinism costs."""
    return "Deterministic, time: of a call with torch's deterministic algorithms over one without, in turns."


def score_notes(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """What is exact, replicates and ranges, failures, and where it was measured."""
    return [
        *_exact(summaries),
        *_adapted(summaries),
        *_not_deterministic(summaries),
        *_replication(summaries),
        *reasons(summaries),
        f"{shapes(summaries)}; inputs {_inputs(summaries)}.",
        machine(findings),
    ]


def _exact(summaries: Sequence[CellSummary]) -> list[str]:
    found: dict[str, list[str]] = {}
    for summary in summaries:
        if against := summary.fact("exact"):
            found.setdefault(against, []).append(summary.cell.method)
    words = "; ".join(f"{against} ({', '.join(dict.fromkeys(methods))})" for against, methods in found.items())
    return [f"Exact: {one_line(words)}."] if found else []


def _inputs(summaries: Sequence[CellSummary]) -> str:
    """`normal`, or `peaked, queries and keys times 0.25`; a recording by its name."""
    kinds = ", ".join(dict.fromkeys(_kind(s.cell) for s in summaries))
    scales = ", ".join(dict.fromkeys(f"{s.cell.scale:g}" for s in summaries))
    return one_line(kinds if scales in {"1", ""} else f"{kinds}, queries and keys times {scales}")


def _kind(cell: Cell) -> str:
    return f"{cell.inputs} {cell.recording}".strip() if cell.inputs is Inputs.RECORDED else cell.inputs.value


def _adapted(summaries: Sequence[CellSummary]) -> list[str]:
    """What had to fit data before it was measured."""
    found: dict[str, list[str]] = {}
    for summary in summaries:
        if data := summary.fact("adapted"):
            found.setdefault(data, []).append(summary.cell.method)
    words = "; ".join(f"{', '.join(dict.fromkeys(methods))} to {data}" for data, methods in found.items())
    return [f"Adapted before it was measured, as training would: {one_line(words)}."] if found else []


def _not_deterministic(summaries: Sequence[CellSummary]) -> list[str]:
    """What torch said where it has no deterministic kernel."""
    found: dict[str, list[str]] = {}
    for summary in summaries:
        if words := summary.fact("not_deterministic"):
            found.setdefault(words, []).append(summary.cell.method)
    return [one_line(f"Not deterministic: {', '.join(dict.fromkeys(methods))}: {words}") for words, methods in found.items()]


def _replication(summaries: Sequence[CellSummary]) -> list[str]:
    measured = [s for s in summaries if s.ok]
    if not measured:
        return ["No cell gave a number."]
    counts = sorted({s.replicates for s in measured})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    if n == "1":
        return ["n = 1: one replicate a cell, so no range.", FIRST_LOOK]
    few = counts[0] < ENOUGH
    spread = "smallest and largest replicate" if few else "95 % t interval of the mean"
    lines = [f"n = {n} replicates a cell, each with inputs and choices of its own: their mean; in brackets {spread}."]
    return [*lines, FIRST_LOOK] if few else lines
