"""What a run of fidelity or numerics ends in: tables, columns of the frame, lines on the terminal."""

import pytest

from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.tables import tables
from attnbench.report.text.table import Table
from attnbench.schema.cell import Inputs
from tests.report.conftest import Synthetic
from tests.report.scored_runs import changed, kept_run, recorded, rounded_findings, rounded_run

HASHING = "lsh.reformer(bucket_size=64, rounds=4)"


@pytest.fixture
def kept() -> Synthetic:
    return kept_run()


@pytest.fixture
def numerics() -> Findings:
    return rounded_findings(rounded_run())


def scored(run: Synthetic) -> Findings:
    return Findings.of(*recorded(run))


def rows(table: Table) -> dict[str, tuple[str, ...]]:
    """By method, what follows its tier."""
    return {row[0]: row[2:] for row in table.rows}


# fidelity


def test_a_suite_gets_the_tables_that_fidelity_has_with_recall_and_error_and_their_ranges(kept: Synthetic) -> None:
    summary, recall, errors = tables(scored(kept))
    where = "fidelity, causal, float32"
    assert [t.title for t in (summary, recall, errors)] == [f"{t}: {where}" for t in ("Summary", "Mass recall", "Output error")]
    assert rows(summary)[HASHING] == ("1k", "61.0% [60.0, 62.0]", "0.700", "60.0%", "")
    assert rows(summary)["linear.full"] == ("none", "unsupported", "unsupported", "", "unsupported")
    assert recall.headers[2:] == ("N=512, %", "N=1k, %")
    assert (rows(recall)[HASHING], rows(errors)[HASHING]) == (("100", "61.0 [60.0, 62.0]"), ("0.500", "0.700"))
    # most recall and least error are bold
    exact = list(rows(summary)).index("softmax.sdpa")
    for table in (recall, errors):
        assert {row for row, column in table.bold if column == 3} == {exact}


def test_it_is_said_what_was_compared_with_what(kept: Synthetic) -> None:
    findings = scored(kept)
    notes = " ".join(note for table in tables(findings) for note in table.notes)
    assert "the 32 top keys of a query" in notes
    lines = measured(findings)
    assert "Exact: Shared-QK attention (lsh.reformer); Softmax attention (softmax.sdpa)." in lines
    assert "unsupported: linear.full at 512, 1k: not causal" in lines
    assert not any("clock" in line for line in lines)


def test_the_terminal_says_the_main_score_and_names_in_full_where_there_is_room(kept: Synthetic, numerics: Findings) -> None:
    text = console.summary(scored(kept))
    assert "\nsynthetic: output error, mean of replicates; * the best" in text
    assert max(map(len, text.splitlines())) <= 80
    kept.lengths = (1024,)
    assert f"\n{HASHING}  " in console.summary(scored(kept))
    text = " ".join(console.summary(numerics).split())
    assert "rounding, mean of replicates; * the best" in text
    assert "1.0e-07*" in text


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


# numerics


def test_every_score_stands_in_the_summary_and_has_a_table_by_length(numerics: Findings) -> None:
    found = {table.title: table for table in tables(numerics)}
    summary = found["Summary: numerics, causal, float32"]
    shown = [header.removesuffix(" at 1k") for header in summary.headers[3:-1]]
    assert shown == ["rounding", "gradient rounding", "alone or in a batch", "run to run", "deterministic, time"]
    told = rows(summary)
    assert told["softmax.sdpa"][1:-1] == ("3.0e-07 [3.0e-07, 3.1e-07]", "6.1e-07 [6.0e-07, 6.1e-07]", "0", "0", "1.25×")
    assert told["fast.forward"][1:-1] == ("2.0e-07", "n/a", "0", "0", "n/a")
    assert list(told).index("linear.chunked") in {row for row, column in summary.bold if column == 3}
    assert "o* by the method's own definition in float64" in summary.notes[0]
    assert any("Not deterministic: scatter has no such kernel (fast.forward)." in line for line in measured(numerics))
    # and what is timed has none
    assert {"Rounding: numerics, causal, float32", "Deterministic, time: numerics, causal, float32"} <= set(found)
    assert not any(title.startswith("Rounding: forward") for title in found)
    assert not any(title.startswith("Time") and "numerics" in title for title in found)
