"""What a run of numerics ends in: tables, a figure, a caption, a sentence of result, lines on the terminal, a Pareto figure."""

import io
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from attnbench.report import console
from attnbench.report.drawing import style
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.pareto.figure import pareto
from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.headline.sentence import headlines
from attnbench.report.questions.fidelity.numerics import numerics_board
from attnbench.report.questions.growth.long_form import csv
from attnbench.report.tables import tables
from attnbench.report.text import markdown
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import (
    BATCH_DIFFERENCE,
    DETERMINISTIC_COST,
    GRADIENT_ROUNDING,
    NUMERICS_SCORES,
    ROUNDING,
    RUN_DIFFERENCE,
    Measured,
    Series,
)
from attnbench.schema.record import Record
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

REPORT = ReportSpec(tables=("summary", "time", "numerics"), plots=("time", "numerics"))
SHARES = {"softmax.sdpa": 3e-7, "linear.chunked": 1e-7, "fast.forward": 2e-7}


@pytest.fixture
def rounded(law: "type[Law]", synthetic: "type[Synthetic]") -> "Synthetic":
    """Three methods, timed and held against their definitions; the last one has no backward."""
    laws = [law(name, 1e-3, 1) for name in SHARES]
    workloads = (Workload.FORWARD, Workload.NUMERICS)
    return synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=workloads, report=REPORT)


def scored(run: "Synthetic", cell: Cell, replicate: int) -> Record:
    share = SHARES[cell.method] * (1 + 0.01 * replicate)
    values = {
        ROUNDING: share,
        GRADIENT_ROUNDING: 2 * share,
        BATCH_DIFFERENCE: 0.0,
        RUN_DIFFERENCE: 0.0,
        DETERMINISTIC_COST: 1.25,
    }
    if cell.method == "fast.forward":
        del values[GRADIENT_ROUNDING], values[DETERMINISTIC_COST]
    facts = {"not_deterministic": "scatter has no such kernel"} if cell.method == "fast.forward" else {}
    samples = {name: Series(unit="1", values=(value,)) for name, value in values.items()}
    return run.record(cell, Measured(samples=samples, facts={**facts}), replicate, Pass.NUMERICS)


@pytest.fixture
def findings(rounded: "Synthetic") -> Findings:
    info = rounded.run()
    numerics = [cell for cell in info.cells if cell.workload is Workload.NUMERICS]
    times = [record for record in rounded.records() if record.job.cell.workload is Workload.FORWARD]
    return Findings.of(info, [*times, *(scored(rounded, cell, r) for cell in numerics for r in range(rounded.replicates))])


def test_a_summary_has_every_score_that_was_recorded(findings: Findings) -> None:
    summary = next(table for table in tables(findings) if table.title == "Summary: numerics, causal, float32")
    shown = [header.removesuffix(" at 1k") for header in summary.headers[3:-1]]
    assert shown == ["rounding", "gradient rounding", "alone or in a batch", "run to run", "deterministic, time"]
    rows = {row[0]: row[3:-1] for row in summary.rows}
    assert rows["softmax.sdpa"] == ("3.0e-07 [3.0e-07, 3.1e-07]", "6.1e-07 [6.0e-07, 6.1e-07]", "0", "0", "1.25 [1.25, 1.25]")
    assert rows["fast.forward"] == ("2.0e-07 [2.0e-07, 2.0e-07]", "", "0", "0", "")
    assert {row for row, _ in summary.bold} == {list(rows).index("linear.chunked")}
    notes = " ".join(summary.notes)
    assert "o* by the method's own definition in float64" in notes
    assert "Not deterministic: fast.forward: scatter has no such kernel" in notes


def test_every_score_has_a_table_by_length_and_what_is_timed_has_none(findings: Findings) -> None:
    titles = [table.title for table in tables(findings)]
    assert "Rounding: numerics, causal, float32" in titles
    assert "Deterministic, time: numerics, causal, float32" in titles
    assert not any(title.startswith("Rounding: forward") for title in titles)
    assert not any(title.startswith("Time") and "numerics" in title for title in titles)
    assert "1.0e-07" in markdown.markdown(tables(findings), "Tables")


def test_the_figure_is_outputs_and_beside_them_gradients(findings: Findings) -> None:
    names = {(plot.workload, plot.kind) for plot in plots(findings)}
    assert names == {(Workload.FORWARD, "time"), (Workload.NUMERICS, "numerics")}
    with style.applied():
        board = numerics_board(findings, [s for s in findings.sections if s.workload is Workload.NUMERICS], FOLDER)
    assert [tile.name for tile in board.tiles] == ["rounding of rows", "rounding of gradients"]
    (caption,) = (plot.caption for plot in plots(findings) if plot.kind == "numerics")
    assert "root mean square over rows" in caption
    assert "clock" not in caption


def test_the_sentence_says_who_is_rounded_the_least(findings: Findings) -> None:
    timed, rounding = headlines(findings)
    assert "faster" in timed or "fastest" in timed
    assert "linear.chunked is rounded the least of 3 methods (numerics, causal, float32)" in rounding
    assert "rounding 1.0e-07" in rounding


def test_the_terminal_says_what_the_numbers_are(findings: Findings) -> None:
    text = " ".join(console.summary(findings).split())
    assert "numerics is the error of a row against its definition in float64" in text
    assert "1.0e-07 [1.0e-07, 1.0e-07]*" in text


def test_the_long_table_has_a_column_and_two_ends_for_each_score(findings: Findings) -> None:
    table = pd.read_csv(io.StringIO(csv(findings)))
    assert {f"{name}{end}" for name in NUMERICS_SCORES for end in ("", "_low", "_high")} <= set(table.columns)
    own = table[(table.workload == "numerics") & (table.method == "linear.chunked") & (table.N == 1024)].iloc[0]
    assert own.rounding == pytest.approx(1.01e-7)
    assert pd.isna(own.drift)
    assert table[table.workload == "forward"].rounding.isna().all()


def test_rounding_is_weighed_against_time_on_a_logarithmic_axis(findings: Findings) -> None:
    with style.applied():
        (drawing,) = pareto(findings, FOLDER)
    assert [tile.name for tile in drawing.board.tiles if tile.column == 0] == ["rounding of rows", "rounding of gradients"]
    assert "o* by the method's own definition in float64" in drawing.caption
    assert "The vertical axis begins at 0" not in drawing.caption
