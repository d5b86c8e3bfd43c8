"""What a run of fidelity or numerics ends in: tables, columns of the frame, lines on the terminal."""

import io
from dataclasses import replace

import pandas as pd
import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.quantities import quantities
from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.tables import tables
from attnbench.report.text import markdown
from attnbench.report.text.numbers import figure_of
from attnbench.schema.cell import Cell, Inputs
from attnbench.schema.outcome import COSINE, NUMERICS_SCORES, OUTPUT_ERROR, TOP_OVERLAP
from attnbench.schema.problem import Problem
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Synthetic
from tests.report.scored_runs import changed, kept_run, recorded, rounded_findings, rounded_run


@pytest.fixture
def kept() -> Synthetic:
    return kept_run()


@pytest.fixture
def numerics() -> Findings:
    return rounded_findings(rounded_run())


def found(run: Synthetic) -> Findings:
    return Findings.of(*recorded(run))


def test_a_suite_gets_of_its_tables_those_that_fidelity_has(kept: Synthetic) -> None:
    where = "fidelity, causal, float32"
    assert [t.title for t in tables(found(kept))] == [f"Summary: {where}", f"Mass recall: {where}", f"Output error: {where}"]


def test_what_is_timed_has_no_table_of_fidelity(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("fidelity",))
    assert tables(Findings.of(small.run(), small.records())) == []


def test_a_row_says_recall_and_error_with_their_ranges(kept: Synthetic) -> None:
    summary, by_length, errors = tables(found(kept))
    rows = {row[0]: row for row in summary.rows}
    name = "lsh.reformer(bucket_size=64, rounds=4)"
    assert rows[name] == (name, "eager", "1k", "61.0% [60.0, 62.0]", "0.700", "60.0%", "")
    assert rows["linear.full"] == ("linear.full", "eager", "none", "unsupported", "unsupported", "", "unsupported")
    assert {row[0]: row for row in by_length.rows}[name][2:] == ("100", "61.0 [60.0, 62.0]")
    assert {row[0]: row for row in errors.rows}[name][2:] == ("0.500", "0.700")
    assert by_length.headers[2:] == ("N=512, %", "N=1k, %")


def test_most_recall_and_least_error_are_bold(kept: Synthetic) -> None:
    summary, by_length, errors = tables(found(kept))
    exact = [row[0] for row in summary.rows].index("softmax.sdpa")
    assert {row for row, column in by_length.bold if column == 3} == {exact}
    assert {row for row, column in errors.bold if column == 3} == {exact}


def test_it_is_said_what_was_compared_with_what(kept: Synthetic) -> None:
    findings = found(kept)
    notes = " ".join(note for table in tables(findings) for note in table.notes)
    assert "the 32 top keys of a query" in notes
    assert "n = 3 replicates a cell" in notes
    assert "least and greatest" in notes
    lines = measured(findings)
    assert "Exact: Shared-QK attention (lsh.reformer); Softmax attention (softmax.sdpa)." in lines
    assert "unsupported: linear.full at 512, 1k: not causal" in lines
    assert not any("clock" in line for line in lines)


def test_one_replicate_has_no_range(kept: Synthetic) -> None:
    kept.replicates = 1
    summary = tables(found(kept))[0]
    assert "n = 1 replicate a cell, so no range." in summary.notes[-1]
    assert not any("[" in text for row in summary.rows for text in row)


def test_an_error_of_rounding_is_written_in_exponent_form() -> None:
    cell = CellSummary(cell=Cell(method="m", problem=Problem(N=64)), status=OK, scores={OUTPUT_ERROR: {0: 4.1e-7}})
    error = quantities([cell])[OUTPUT_ERROR]
    assert figure_of(error, cell) == "4.1e-07"
    assert figure_of(error, replace(cell, scores={OUTPUT_ERROR: {0: 0.0}})) == "0"


def test_five_replicates_give_an_interval(kept: Synthetic) -> None:
    kept.replicates = 5
    notes = tables(found(kept))[0].notes
    assert any("95 % t interval" in note for note in notes)
    assert not any(note.startswith("First look") for note in notes)


def test_markdown_and_terminal_take_it(kept: Synthetic) -> None:
    findings = found(kept)
    assert "| linear.full" in markdown.markdown(tables(findings), "x")
    text = console.summary(findings)
    assert "\nsynthetic: output error, mean of replicates; * the best" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_terminal_says_names_in_full_where_there_is_room(kept: Synthetic) -> None:
    kept.lengths = (1024,)
    assert "\nlsh.reformer(bucket_size=64, rounds=4)  " in console.summary(Findings.of(*recorded(kept)))


def test_each_cell_has_its_numbers_in_the_long_table(kept: Synthetic) -> None:
    table = pd.read_csv(io.StringIO(csv(found(kept))))
    row = table[(table["params"] == "bucket_size=64 rounds=4") & (table["N"] == 1024)].iloc[0]
    assert (row["workload"], row["status"], row["n_replicates"]) == ("fidelity", "ok", 3)
    assert [row[f"mass_recall{end}"] for end in ("", "_low", "_high")] == pytest.approx([0.61, 0.60, 0.62])
    assert row["output_error"] == pytest.approx(0.7)
    assert row["flops_of_dense"] == pytest.approx(0.6)
    assert pd.isna(row["time_s"])
    assert table[table["status"] == "unsupported"]["mass_recall"].isna().all()


def test_overlap_and_cosine_have_tables_and_columns_where_they_were_recorded(kept: Synthetic) -> None:
    info, records = recorded(kept)
    findings = Findings.of(info, [changed(record, {TOP_OVERLAP: 0.25, COSINE: -0.5}) for record in records])
    summary, _, overlap, cosine, _ = tables(findings)
    assert summary.headers[3:7] == ("mass recall at 1k", "top overlap at 1k", "cosine at 1k", "output error at 1k")
    assert [table.title.partition(":")[0] for table in (overlap, cosine)] == ["Top overlap", "Cosine"]
    assert {row[0]: row for row in summary.rows}["softmax.sdpa"][4:6] == ("25.0%", "-0.500")
    assert "Top overlap: of the 32 keys to which exact attention gives most" in overlap.notes[0]
    table = pd.read_csv(io.StringIO(csv(findings)))
    assert table["top_overlap_low"].dropna().unique().tolist() == [0.25]
    assert table["cosine"].dropna().unique().tolist() == [-0.5]
    assert table[table["status"] == "unsupported"]["cosine"].isna().all()


def test_it_is_said_which_inputs_and_what_was_adapted_to_them(kept: Synthetic) -> None:
    info, records = recorded(kept)
    other = {"scale": 0.25, "inputs": Inputs.RECORDED, "recording": "a_file"}
    records = [changed(record, {}, {"adapted": "8 other sequences"}) for record in records]
    jobs = [record.job.model_copy(update={"cell": record.job.cell.model_copy(update=other)}) for record in records]
    records = [record.model_copy(update={"job": job}) for record, job in zip(records, jobs, strict=True)]
    cells = tuple(cell.model_copy(update=other) for cell in info.cells)
    lines = " ".join(measured(Findings.of(info.model_copy(update={"cells": cells}), records)))
    assert "inputs recorded a_file, queries and keys times 0.25." in lines
    assert "Adapted before it was measured, as training would: 8 other sequences (lsh.reformer, softmax.sdpa)." in lines


def test_a_summary_has_every_score_that_was_recorded(numerics: Findings) -> None:
    summary = next(table for table in tables(numerics) if table.title == "Summary: numerics, causal, float32")
    shown = [header.removesuffix(" at 1k") for header in summary.headers[3:-1]]
    assert shown == ["rounding", "gradient rounding", "alone or in a batch", "run to run", "deterministic, time"]
    rows = {row[0]: row[3:-1] for row in summary.rows}
    assert rows["softmax.sdpa"] == ("3.0e-07 [3.0e-07, 3.1e-07]", "6.1e-07 [6.0e-07, 6.1e-07]", "0", "0", "1.25×")
    assert rows["fast.forward"] == ("2.0e-07", "n/a", "0", "0", "n/a")
    assert list(rows).index("linear.chunked") in {row for row, column in summary.bold if column == 3}
    assert "o* by the method's own definition in float64" in summary.notes[0]
    assert any("Not deterministic: scatter has no such kernel (fast.forward)." in line for line in measured(numerics))


def test_every_score_has_a_table_by_length_and_what_is_timed_has_none(numerics: Findings) -> None:
    titles = [table.title for table in tables(numerics)]
    assert {"Rounding: numerics, causal, float32", "Deterministic, time: numerics, causal, float32"} <= set(titles)
    assert not any(title.startswith("Rounding: forward") for title in titles)
    assert not any(title.startswith("Time") and "numerics" in title for title in titles)


def test_the_terminal_says_what_the_numbers_are(numerics: Findings) -> None:
    text = " ".join(console.summary(numerics).split())
    assert "rounding, mean of replicates; * the best" in text
    assert "1.0e-07*" in text


def test_the_frame_has_a_column_and_two_ends_for_each_score(numerics: Findings) -> None:
    table = pd.read_csv(io.StringIO(csv(numerics)))
    assert {f"{name}{end}" for name in NUMERICS_SCORES for end in ("", "_low", "_high")} <= set(table.columns)
    own = table[(table.workload == "numerics") & (table.method == "linear.chunked") & (table.N == 1024)].iloc[0]
    assert own.rounding == pytest.approx(1.01e-7)
    assert pd.isna(own.drift)
    assert table[table.workload == "forward"].rounding.isna().all()
