"""The figure of fidelity, with its caption; and of numerics its figure, its sentence of result, and its Pareto figure."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.figures.make import folder_files
from attnbench.report.findings import Findings
from attnbench.report.headline import headlines
from attnbench.report.questions.fidelity import lines, swept_parameters
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import OUTPUT_ERROR
from attnbench.schema.problem import Problem
from tests.report.conftest import Synthetic
from tests.report.drawn import legend, pictures, words
from tests.report.scored_runs import ROUNDS, changed, kept_run, recorded, rounded_findings


@pytest.fixture
def kept() -> Synthetic:
    return kept_run()


def found(run: Synthetic) -> Findings:
    return Findings.of(*recorded(run))


def drawn(findings: Findings) -> Figure:
    (picture,) = pictures(findings, "fidelity")
    return picture


def test_a_line_joins_what_differs_in_the_parameter_with_the_most_values_but_no_words_and_flags(kept: Synthetic) -> None:
    section = found(kept).sections[0]
    assert swept_parameters([s.cell for s in section.summaries])["lsh.reformer"] == "rounds"
    made = {line.name: line for line in lines(section, 512)}
    assert list(made) == ["lsh.reformer(bucket_size=32)", "lsh.reformer(bucket_size=64)", "softmax.sdpa", "linear.full"]
    hashing = made["lsh.reformer(bucket_size=32)"]
    assert (hashing.swept, [s.cell.params["rounds"] for s in hashing.cells]) == ("rounds", [1, 2, 4])
    assert made["softmax.sdpa"].swept == ""
    mixed: list[dict[str, Scalar]] = [{"k": 32}, {}, {"k": "all"}, {"k": 16}]
    cells = [Cell(method="m", problem=Problem(N=64), params=each) for each in mixed]
    (joined, *others) = lines(Section(Workload.FIDELITY, False, "", tuple(CellSummary(cell, OK) for cell in cells)), 64)
    assert (joined.name, joined.swept, [s.cell.params["k"] for s in joined.cells]) == ("m", "k", [16, 32])
    assert [(line.name, line.swept, len(line.cells)) for line in others] == [("m", "", 1), ("m(k=all)", "", 1)]
    words_and_flags = itertools.product(("merged", "per_head"), (True, False))
    params: list[dict[str, Scalar]] = [{"mode": mode, "distinct": flag, "c": 8} for mode, flag in words_and_flags]
    assert swept_parameters([Cell(method="m", problem=Problem(N=64), params=each) for each in params]) == {"m": ""}


def marked(figure: Figure, panel: int) -> list[tuple[float, float, float]]:
    """Return where the markers of a panel are, and how large."""
    lines = [line for line in figure.axes[panel].lines if line.get_marker() not in {"None", ""} and len(line.get_xdata())]  # type: ignore[arg-type]
    return [(*(round(float(np.asarray(data)[0]), 4) for data in line.get_data()), line.get_markersize()) for line in lines]  # type: ignore[misc]


def test_each_cell_with_a_number_is_a_marker_at_its_cost_and_recall_larger_with_its_parameter(kept: Synthetic) -> None:
    figure = drawn(found(kept))
    wanted = {(round(0.075 * 2**i, 4), round(0.075 * 2**i + 0.01, 4)) for i in range(4)} | {(1.0, 1.0)}
    assert {place[:2] for place in marked(figure, 2)} == wanted
    sizes = [size for _, _, size in marked(figure, 0)][: len(ROUNDS)]
    assert sizes == sorted(set(sizes))
    shown = legend(figure)
    assert shown["softmax.sdpa"].get_linestyle() == "None"
    assert shown["lsh.reformer(bucket_size=32), rising rounds"].get_linestyle() != "None"


def test_beside_it_stands_the_error_and_what_is_nearly_exact_at_the_foot(kept: Synthetic) -> None:
    info, records = recorded(kept)
    records = [changed(r, {OUTPUT_ERROR: 1e-7}) if r.job.cell.method == "softmax.sdpa" else r for r in records]
    figure = drawn(Findings.of(info, records))
    assert sorted(y for _, y, _ in marked(figure, 3)) == pytest.approx([0.001, 0.7, 0.85, 0.85, 0.925, 0.925, 0.9625])
    assert figure.axes[3].get_yscale() == "log"
    assert figure.axes[3].get_ylim()[0] < 0.001


def test_without_numbers_the_figure_says_so(kept: Synthetic) -> None:
    assert "nothing was measured" in words(drawn(Findings.of(kept.run(), [])))


def test_numerics_have_a_figure_a_sentence_that_says_who_is_rounded_the_least_and_logarithmic_axes_against_time() -> None:
    rounded = rounded_findings()
    assert {name.partition(".")[0] for name in folder_files(rounded)} == {"forward/time", "numerics/numerics"}
    timed, rounding = headlines(rounded)
    assert "(forward, causal, float32)" in timed
    assert "linear.chunked is rounded less than both others (numerics, causal, float32)" in rounding
    assert "rounding 1.0e-07" in rounding
    assert {axes.get_yscale() for axes in pictures(rounded, "pareto")[0].axes} == {"log"}
