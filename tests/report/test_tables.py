"""What the tables of a run say: rows of methods, columns of figures, two notes, and how it all was measured."""

from dataclasses import replace
from typing import Any

import pytest

from attnbench.analyze.scaling import Exponent
from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.tables import summaries, tables
from attnbench.report.text import markdown
from attnbench.report.text.numbers import exponent_text
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.stored import as_stored


def summary(findings: Findings) -> Table:
    (table,) = summaries(findings, findings.sections[0])
    return table


def rows(table: Table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}


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
def test_the_tables_of_a_run_are_as_stored(
    request: pytest.FixtureRequest, made: str, file: str, changes: dict[str, object]
) -> None:
    findings = found(replace(request.getfixturevalue(made), **changes))
    how = [] if made == "generating" else measured(findings)
    assert as_stored(f"{file}.md", markdown.markdown(tables(findings), made, "", how))


def test_no_table_has_more_than_two_notes(small: Synthetic, decoding: Synthetic, learning: Synthetic) -> None:
    assert all(len(table.notes) <= 2 for run in (small, decoding, learning) for table in tables(found(run)))


def test_a_suite_gets_the_tables_it_asks_for(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("memory", "summary", "tokens", "roof"))
    assert [table.title.partition(":")[0] for table in tables(found(small))] == [
        "Memory per sample (host_rss_peak)", "Summary", "Tokens per second", "Share of the roof",
    ]  # fmt: skip


def test_the_summary_names_its_baseline_and_what_stopped_each_method() -> None:
    told = rows(summary(found(Synthetic())))
    over = "speed-up over softmax.sdpa at 8k"
    assert told["softmax.sdpa"][over] == "1 (baseline)"
    assert {name: row["stopped by"] for name, row in told.items() if name in {"softmax.naive", "softmax.sdpa"}} == {
        "softmax.naive": "OOM at 16k", "softmax.sdpa": "budget at 64k",
    }  # fmt: skip
    never = told["linear.full"]
    assert (never["longest N"], never[over], never["stopped by"]) == ("none", "unsupported", "unsupported")
    assert told["lsh.reformer_pytorch(rounds=4)"]["stopped by"] == "crashed at 32k"


def test_without_an_exact_softmax_there_is_no_speedup() -> None:
    table = summary(found(Synthetic([Law("linear.full", 1e-3, 1.0)])))
    assert rows(table)["linear.full"]["speed-up (no exact softmax ran)"] == ""


def test_speed_ups_are_over_the_methods_that_the_suite_names(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("summary", "speedup"), baselines=("linear.chunked",))
    whole, by_length = tables(found(small))
    assert any(header.startswith("speed-up over linear.chunked(chunk=64) at ") for header in whole.headers)
    assert by_length.title.startswith("Speed-up over linear.chunked(chunk=64): ")
    told = {row[0]: row for row in by_length.rows}
    assert set(told["linear.chunked(chunk=64)"][2:]) == {"1 (baseline)"}
    assert "×" in told["softmax.naive"][2]
    assert told["softmax.naive"][-1] == "OOM"


def test_without_named_baselines_there_is_a_table_for_each_usual_one(decoding: Synthetic) -> None:
    decoding.report = ReportSpec(tables=("speedup",))
    titles = {table.title.partition(":")[0] for table in tables(found(decoding))}
    assert titles == {"Speed-up over softmax.sdpa", "Speed-up over softmax.recompute"}


def test_a_wrong_method_is_never_the_best() -> None:
    fast = Law("softmax.wrong", 1e-9, 1.0, stop_at=1, status=Status.INCORRECT, reason="o differs")
    findings = found(Synthetic([fast, Law("softmax.naive", 1e-3, 2.0)]))
    assert all({row for row, _ in table.bold} == {1} for table in tables(findings))
    assert any("wrong: softmax.wrong at 512 to 64k: o differs" in line for line in measured(findings))


def test_a_failed_memory_pass_is_n_a_with_its_reason(small: Synthetic) -> None:
    cell = small.run().cells[1]
    records = [r for r in small.records() if not (r.job.phase is Pass.MEMORY and r.job.cell == cell)]
    records.append(small.record(cell, Failed(status=Status.OOM_HOST, reason="limit of 5 GB"), phase=Pass.MEMORY))
    findings = Findings.of(small.run(), records)
    assert tables(findings)[2].rows[1][2] == "n/a"
    assert "Memory n/a: oom_host: limit of 5 GB." in measured(findings)


@pytest.mark.parametrize("tables", [("time",), ("time", "energy")], ids=["not asked for", "asked for"])
def test_a_figure_that_was_asked_for_and_not_read_has_its_reason(small: Synthetic, tables: tuple[Any, ...]) -> None:
    small.report = ReportSpec(tables=tables, plots=())
    told, records = {"energy_reason": "NVML tells no total energy of this device"}, []
    for record in small.records():
        outcome = record.outcome
        if isinstance(outcome, Measured) and record.job.cell.method == "softmax.naive":
            outcome = outcome.model_copy(update={"facts": outcome.facts | told})
        records.append(record.model_copy(update={"outcome": outcome}))
    lines = [line for line in measured(Findings.of(small.run(), records)) if "Energy n/a" in line]
    said = ["Energy n/a: NVML tells no total energy of this device (softmax.naive)."]
    assert lines == (said if "energy" in tables else [])


@pytest.mark.parametrize(("replicates", "look"), [(1, True), (4, True), (5, False)])
def test_fewer_than_five_replicates_are_called_a_first_look(small: Synthetic, replicates: int, look: bool) -> None:
    small.replicates = replicates
    for table in tables(found(small))[:2]:
        assert ("First look" in table.notes[-1]) is look
        assert table.notes[-1].startswith(f"n = {replicates} replicate")


def test_the_kernel_that_was_reached_is_said(small: Synthetic) -> None:
    def reached(outcome: Measured | Failed) -> Measured | Failed:
        if isinstance(outcome, Failed):
            return outcome
        return outcome.model_copy(update={"facts": {**outcome.facts, "backend": "flash"}})

    own = [record for record in small.records() if record.job.cell.method == "softmax.sdpa"]
    changed = [record.model_copy(update={"outcome": reached(record.outcome)}) for record in own]
    assert "Backend: softmax.sdpa flash." in measured(Findings.of(small.run(), changed))


def test_states_are_shown_of_what_decodes_only(decoding: Synthetic) -> None:
    decoding.workloads = (Workload.FORWARD, Workload.DECODE)
    titles = [table.title for table in tables(found(decoding)) if table.title.startswith("State")]
    assert titles == [
        "State of one sequence: decode, causal, float32, B=1",
        "State of one sequence: decode, causal, float32, largest B that fits",
    ]


def test_a_state_that_was_not_counted_has_its_reason(decoding: Synthetic) -> None:
    cell = decoding.run().cells[0]
    records = [r for r in decoding.records() if not (r.job.phase is Pass.MEMORY and r.job.cell == cell)]
    records.append(decoding.record(cell, Failed(status=Status.OOM_HOST, reason="limit of 5 GB"), phase=Pass.MEMORY))
    findings = Findings.of(decoding.run(), records)
    assert tables(findings)[4].rows[0][2] == "n/a"
    assert any("State n/a: oom_host: limit of 5 GB." in line for line in measured(findings))


def test_what_does_not_grow_grows_by_zero_and_not_by_minus_zero() -> None:
    assert exponent_text(Exponent(-0.001, None, (1, 2, 4))) == "N^0.00"


def test_a_whole_sequence_is_per_sequence(decoding: Synthetic) -> None:
    decoding.workloads = (Workload.DECODE_TOTAL,)
    assert summary(found(decoding)).headers[4] == "time per sequence at 2k"


def test_a_batch_that_was_not_found_is_no_number(decoding: Synthetic) -> None:
    assert any("B=max, " in line for line in measured(Findings.of(decoding.run(), [])))


def test_without_a_roof_its_column_is_empty(small: Synthetic) -> None:
    run = small.run()
    bare = run.model_copy(update={"surroundings": run.surroundings.model_copy(update={"roof": {}})})
    told = rows(summary(Findings.of(bare, small.records())))
    assert {row["of the roof"] for row in told.values()} == {""}


@pytest.mark.parametrize(
    ("seeds", "words"), [(1, "so no range"), (2, "least and greatest"), (3, "95 % t interval of the mean")]
)
def test_what_stands_in_brackets_is_said(learning: Synthetic, seeds: int, words: str) -> None:
    learning.replicates = seeds
    assert words in summary(found(learning)).notes[-1]
