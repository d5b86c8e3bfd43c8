"""What tables say, of times, of fidelity and of numerics: methods, figures, two notes, and how it all was measured."""

from dataclasses import replace

import pytest

from attnbench.analyze.scaling import Exponent
from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.tables import of_kind, summaries, tables
from attnbench.report.text import markdown
from attnbench.report.text.numbers import exponent_text
from attnbench.report.text.table import Table
from attnbench.schema.cell import Inputs, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.scored_runs import changed, kept_run, recorded, rounded_findings, rounded_run
from tests.report.stored import as_stored


def summary(findings: Findings) -> Table:
    (table,) = summaries(findings, findings.sections[0])
    return table


def rows(table: Table) -> dict[str, tuple[str, ...]]:
    """By method, what follows its tier."""
    return {row[0]: row[2:] for row in table.rows}


def column(table: Table, header: str) -> set[str]:
    return {row[table.headers.index(header)] for row in table.rows}


def titles(findings: Findings) -> list[str]:
    """Without the section."""
    return [table.title.partition(":")[0] for table in tables(findings)]


@pytest.mark.parametrize(
    ("made", "file", "changes"),
    [
        ("small", "3", {"replicates": 3}),
        ("small", "5", {"replicates": 5}),
        ("decoding", "decode", {}),
        ("learning", "train", {}),
        ("generating", "generate", {"lengths": (784, 3072), "report": ReportSpec(tables=("summary",))}),
    ],
)
def test_the_tables_of_a_run_are_as_stored_and_have_two_notes_at_most(
    request: pytest.FixtureRequest, made: str, file: str, changes: dict[str, object]
) -> None:
    findings = found(replace(request.getfixturevalue(made), **changes))
    how = [] if made == "generating" else measured(findings)
    assert as_stored(f"{file}.md", markdown.markdown(tables(findings), made, "", how))
    assert all(len(table.notes) <= 2 for table in tables(findings))


def test_a_suite_gets_the_tables_it_asks_for(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("memory", "summary", "tokens", "roof"))
    assert titles(found(small)) == [
        "Memory per sample (host_rss_peak)", "Summary", "Tokens per second", "Share of the roof",
    ]  # fmt: skip


def test_what_a_summary_has_nothing_for_is_an_empty_column(small: Synthetic) -> None:
    assert column(summary(found(Synthetic([Law("linear.full", 1e-3, 1.0)]))), "speed-up (no exact softmax ran)") == {""}
    run = small.run()
    bare = run.model_copy(update={"surroundings": run.surroundings.model_copy(update={"roof": {}})})
    assert column(summary(Findings.of(bare, small.records())), "of the roof") == {""}


def test_speed_ups_are_over_the_methods_that_the_suite_names_or_each_usual_one(small: Synthetic, decoding: Synthetic) -> None:
    small.report = ReportSpec(tables=("summary", "speedup"), baselines=("linear.chunked",))
    whole, by_length = tables(found(small))
    assert any(header.startswith("speed-up over linear.chunked(chunk=64) at ") for header in whole.headers)
    assert by_length.title.startswith("Speed-up over linear.chunked(chunk=64): ")
    told = rows(by_length)
    assert set(told["linear.chunked(chunk=64)"]) == {"1 (baseline)"}
    assert "×" in told["softmax.naive"][0]
    assert told["softmax.naive"][-1] == "OOM"
    small.report = ReportSpec(tables=("speedup",), baselines=("softmax.naive",))
    (failing,) = tables(found(small))
    assert rows(failing)["softmax.naive"] == ("1 (baseline)", "1 (baseline)", "OOM")
    decoding.report = ReportSpec(tables=("speedup",))
    assert set(titles(found(decoding))) == {"Speed-up over softmax.sdpa", "Speed-up over softmax.recompute"}


def test_a_wrong_method_is_never_the_best() -> None:
    fast = Law("softmax.wrong", 1e-9, 1.0, stop_at=1, status=Status.INCORRECT, reason="o differs")
    findings = found(Synthetic([fast, Law("softmax.naive", 1e-3, 2.0)]))
    assert all({row for row, _ in table.bold} == {1} for table in tables(findings))
    assert any("wrong: softmax.wrong at 512 to 64k: o differs" in line for line in measured(findings))


def test_what_a_failed_memory_pass_did_not_count_is_n_a_with_its_reason(small: Synthetic, decoding: Synthetic) -> None:
    for run, kind, said in ((small, "memory", "Memory n/a"), (decoding, "state", "State n/a")):
        cell = run.run().cells[0]
        records = [r for r in run.records() if not (r.job.phase is Pass.MEMORY and r.job.cell == cell)]
        records.append(run.record(cell, Failed(status=Status.OOM_HOST, reason="limit of 5 GB"), phase=Pass.MEMORY))
        findings = Findings.of(run.run(), records)
        assert of_kind(findings, kind)[0].rows[0][2] == "n/a"
        assert any(f"{said}: oom_host: limit of 5 GB." in line for line in measured(findings))


def test_the_kernel_that_was_reached_is_said_and_why_a_figure_that_was_asked_for_was_not_read(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("time",), plots=())
    told: dict[str, Scalar | None] = {"energy_reason": "NVML tells no total energy of this device", "backend": "flash"}
    records = [changed(record, {}, told if record.job.cell.method == "softmax.naive" else {}) for record in small.records()]
    lines = measured(Findings.of(small.run(), records))
    assert "Backend: softmax.naive flash." in lines
    assert not any("Energy" in line for line in lines)
    small.report = ReportSpec(tables=("time", "energy"), plots=())
    said = "Energy n/a: NVML tells no total energy of this device (softmax.naive)."
    assert [line for line in measured(Findings.of(small.run(), records)) if "Energy" in line] == [said]


def test_only_what_decodes_has_a_state_and_the_whole_of_it_a_time_per_sequence(decoding: Synthetic) -> None:
    decoding.workloads = (Workload.FORWARD, Workload.DECODE)
    states = [table.title for table in tables(found(decoding)) if table.title.startswith("State")]
    assert [title.partition(",")[0] for title in states] == ["State of one sequence: decode"] * 2
    decoding.workloads = (Workload.DECODE_TOTAL,)
    assert summary(found(decoding)).headers[4] == "time per sequence at 2k"
    # a batch that was not found is no number
    assert any("B=max, " in line for line in measured(Findings.of(decoding.run(), [])))


def test_what_does_not_grow_grows_by_zero_and_not_by_minus_zero() -> None:
    assert exponent_text(Exponent(-0.001, None, (1, 2, 4))) == "N^0.00"


@pytest.mark.parametrize(
    ("made", "replicates", "words"),
    [
        # three and five replicates, and three seeds, are told in the stored tables
        ("small", 1, "n = 1 replicate a cell, so no range"),
        ("small", 4, "n = 4 replicates a cell"),
        ("learning", 2, "; [a, b]: least and greatest."),
    ],
)
def test_few_replicates_are_called_a_first_look(request: pytest.FixtureRequest, made: str, replicates: int, words: str) -> None:
    note = summary(found(replace(request.getfixturevalue(made), replicates=replicates))).notes[-1]
    assert words in note
    assert "First look" in note


# fidelity and numerics

HASHING = "lsh.reformer(bucket_size=64, rounds=4)"


def scored(run: Synthetic) -> Findings:
    return Findings.of(*recorded(run))


def test_fidelity_has_tables_of_recall_and_error_with_their_ranges() -> None:
    whole, recall, errors = tables(scored(kept_run()))
    where = "fidelity, causal, float32"
    assert [t.title for t in (whole, recall, errors)] == [f"{t}: {where}" for t in ("Summary", "Mass recall", "Output error")]
    assert rows(whole)[HASHING] == ("1k", "61.0% [60.0, 62.0]", "0.700", "60.0%", "")
    assert rows(whole)["linear.full"] == ("none", "unsupported", "unsupported", "", "unsupported")
    assert recall.headers[2:] == ("N=512, %", "N=1k, %")
    assert (rows(recall)[HASHING], rows(errors)[HASHING]) == (("100", "61.0 [60.0, 62.0]"), ("0.500", "0.700"))
    # most recall and least error are bold
    exact = list(rows(whole)).index("softmax.sdpa")
    for table in (recall, errors):
        assert {row for row, place in table.bold if place == 3} == {exact}


def test_it_is_said_what_was_compared_with_what() -> None:
    findings = scored(kept_run())
    assert any("the 32 top keys of a query" in note for table in tables(findings) for note in table.notes)
    lines = measured(findings)
    assert "Exact: Shared-QK attention (lsh.reformer); Softmax attention (softmax.sdpa)." in lines
    assert "unsupported: linear.full at 512, 1k: not causal" in lines
    assert not any("clock" in line for line in lines)


def test_the_terminal_says_the_main_score_and_names_in_full_where_there_is_room() -> None:
    kept = kept_run()
    text = console.summary(scored(kept))
    assert "\nsynthetic: output error, mean of replicates; * the best" in text
    assert max(map(len, text.splitlines())) <= 80
    kept.lengths = (1024,)
    assert f"\n{HASHING}  " in console.summary(scored(kept))
    text = " ".join(console.summary(rounded_findings(rounded_run())).split())
    assert "rounding, mean of replicates; * the best" in text
    assert "1.0e-07*" in text


def test_it_is_said_which_inputs_and_what_was_adapted_to_them() -> None:
    info, records = recorded(kept_run())
    other = {"scale": 0.25, "inputs": Inputs.RECORDED, "recording": "a_file"}
    records = [changed(record, {}, {"adapted": "8 other sequences"}) for record in records]
    jobs = [record.job.model_copy(update={"cell": record.job.cell.model_copy(update=other)}) for record in records]
    records = [record.model_copy(update={"job": job}) for record, job in zip(records, jobs, strict=True)]
    cells = tuple(cell.model_copy(update=other) for cell in info.cells)
    lines = " ".join(measured(Findings.of(info.model_copy(update={"cells": cells}), records)))
    assert "inputs recorded a_file, queries and keys times 0.25." in lines
    assert "Adapted before it was measured, as training would: 8 other sequences (lsh.reformer, softmax.sdpa)." in lines


def test_every_score_stands_in_the_summary_and_has_a_table_by_length() -> None:
    numerics = rounded_findings(rounded_run())
    made = {table.title: table for table in tables(numerics)}
    whole = made["Summary: numerics, causal, float32"]
    shown = [header.removesuffix(" at 1k") for header in whole.headers[3:-1]]
    assert shown == ["rounding", "gradient rounding", "alone or in a batch", "run to run", "deterministic, time"]
    told = rows(whole)
    assert told["softmax.sdpa"][1:-1] == ("3.0e-07 [3.0e-07, 3.1e-07]", "6.1e-07 [6.0e-07, 6.1e-07]", "0", "0", "1.25×")
    assert told["fast.forward"][1:-1] == ("2.0e-07", "n/a", "0", "0", "n/a")
    assert list(told).index("linear.chunked") in {row for row, place in whole.bold if place == 3}
    assert "o* by the method's own definition in float64" in whole.notes[0]
    assert any("Not deterministic: scatter has no such kernel (fast.forward)." in line for line in measured(numerics))
    # and what is timed has none
    assert {"Rounding: numerics, causal, float32", "Deterministic, time: numerics, causal, float32"} <= set(made)
    assert not any(title.startswith("Rounding: forward") for title in made)
    assert not any(title.startswith("Time") and "numerics" in title for title in made)
