"""What tables say, of times, of fidelity and of numerics: methods, figures, two notes, and how it all was measured."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.scored_runs import changed, kept_findings, kept_run, recorded, rounded_findings
from tests.report.stored import as_stored


def summary(findings: Findings) -> Table:
    (table,) = summaries(findings, findings.sections[0])
    return table


def rows(table: Table) -> dict[str, tuple[str, ...]]:
    """By method, what follows its tier."""
    return {row[0]: row[2:] for row in table.rows}


def column(table: Table, header: str) -> set[str]:
    return {row[table.headers.index(header)] for row in table.rows}


@pytest.mark.parametrize(
    ("file", "made", "changes"),
    [
        ("3", "small", {"replicates": 3}),
        ("5", "small", {"replicates": 5}),
        # of eight lengths, both masks, forward and backward, with a method for every kind of failure
        ("sweep", Synthetic(replicates=5), {}),
        ("decode", "decoding", {}),
        ("generate", "generating", {"lengths": (784, 3072), "report": ReportSpec(tables=("summary",))}),
        ("fidelity", kept_findings, {}),
        ("numerics", rounded_findings, {}),
        # images have bits per dimension, texts bits per byte, speech an error rate
        ("train", "learning", {}),
        ("train_images", "picturing", {}),
        ("train_texts", "picturing", {"trainings": (Training(task=Task.BYTES, data="/data/corpora/enwik8"),)}),
        ("train_speech", "hearing", {}),
    ],
)
def test_the_tables_of_a_run_and_its_80_columns_on_a_terminal_are_as_stored_and_have_two_notes_at_most(
    request: pytest.FixtureRequest, file: str, made: str | Synthetic | Callable[[], Findings], changes: dict[str, Any]
) -> None:
    run = request.getfixturevalue(made) if isinstance(made, str) else made
    findings = found(replace(run, **changes)) if isinstance(run, Synthetic) else run()
    text = console.summary(findings)
    assert as_stored(f"{file}.md", markdown.markdown(tables(findings), "A run", "", measured(findings)))
    assert as_stored(f"console_{file}.txt", f"{text}\n")
    assert all(len(table.notes) <= 2 for table in tables(findings))
    assert max(map(len, text.splitlines())) <= 80


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
    titles = {table.title.partition(":")[0] for table in tables(found(decoding))}
    assert titles == {"Speed-up over softmax.sdpa", "Speed-up over softmax.recompute"}


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
    assert [title.partition(",")[0] for title in states] == ["State of one sequence: decoding"] * 2
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
