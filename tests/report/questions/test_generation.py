"""What a run that generates ends in: a table a length with both softmax baselines, times on the terminal, plots over length."""

from pathlib import Path
from typing import TYPE_CHECKING

from attnbench.report import console
from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.generation import generate_tables
from attnbench.report.tables import tables
from attnbench.report.text import markdown
from attnbench.report.text.table import Table
from attnbench.schema.cell import Batch
from attnbench.schema.outcome import Status
from attnbench.schema.suite import ReportSpec
from attnbench.schema.training import Task, Training

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

GOLDEN = Path(__file__).parents[1] / "golden"
CACHED, UNCACHED = "speed-up over softmax.sdpa (cached)", "speed-up over softmax.recompute (uncached)"


def found(run: "Synthetic") -> Findings:
    return Findings.of(run.run(), run.records())


def made(run: "Synthetic") -> list[Table]:
    findings = found(run)
    return [table for section in findings.sections for table in generate_tables(findings, section)]


def row(table: Table, method: str) -> dict[str, str]:
    return next(dict(zip(table.headers, texts, strict=True)) for texts in table.rows if texts[0] == method)


def test_the_tables_are_as_stored(generating: "Synthetic") -> None:
    generating.lengths = (784, 3072)
    generating.report = ReportSpec(tables=("summary",))
    text = markdown.markdown(tables(found(generating)), "generating")
    assert text == (GOLDEN / "generate.md").read_text(encoding="utf-8")


def test_there_is_a_table_for_each_length_and_each_rule_of_the_batch(generating: "Synthetic") -> None:
    assert [table.title for table in made(generating)] == [
        f"Generating: pixels, digits, N={N}, causal, float32, {B}"
        for B in ("B=1", "largest B that fits")
        for N in (64, 784, 3072)
    ]


def test_images_and_tokens_per_second_follow_from_the_time_of_a_call_and_its_batch(generating: "Synthetic") -> None:
    table = made(generating)[4]
    cell = next(
        s
        for s in found(generating).summaries
        if (s.cell.method, s.cell.problem.N, s.cell.batch) == ("linear.chunked", 784, Batch.LARGEST)
    )
    texts = row(table, "linear.chunked(chunk=64)")
    assert cell.median is not None
    assert texts["B"] == "2,612"
    assert float(texts["images/s"].split()[0]) == float(f"{2612 / cell.median:.3g}")
    assert float(texts["tokens/s"]) == float(f"{2612 * 784 / cell.median:.3g}")
    assert texts["state of one sequence"] == "130 KiB"


def test_both_softmax_baselines_are_named_with_what_they_keep(generating: "Synthetic") -> None:
    table = made(generating)[1]
    assert {CACHED, UNCACHED} < set(table.headers)
    assert row(table, "softmax.sdpa")[CACHED] == "1 (baseline)"
    assert row(table, "softmax.recompute")[UNCACHED] == "1 (baseline)"
    linear = row(table, "linear.chunked(chunk=64)")
    assert float(linear[CACHED].partition("×")[0]) < float(linear[UNCACHED].partition("×")[0])
    assert any(note.startswith("Softmax, cached: keeps keys and values; uncached: keeps nothing") for note in table.notes)


def test_a_baseline_that_failed_keeps_its_column(generating: "Synthetic", law: "type[Law]") -> None:
    slow = law("softmax.recompute", 1, 1, stop_at=784, status=Status.BUDGET, reason="one call took 90 s")
    generating.laws = [slow if each.name == slow.name else each for each in generating.laws]
    table = made(generating)[1]
    assert row(table, "linear.chunked(chunk=64)")[UNCACHED] == "n/a"
    assert row(table, "softmax.recompute")["stopped by"] == "budget"


def test_methods_that_the_suite_names_are_the_baselines(generating: "Synthetic") -> None:
    generating.report = ReportSpec(baselines=("linear.chunked",))
    (header,) = [header for header in made(generating)[0].headers if header.startswith("speed-up")]
    assert header == "speed-up over linear.chunked(chunk=64)"


def test_without_softmax_there_is_no_speed_up_and_every_row_is_whole(generating: "Synthetic") -> None:
    generating.laws = generating.laws[2:]
    table = made(generating)[0]
    assert "speed-up (no exact softmax ran)" in table.headers
    assert {len(texts) for texts in table.rows} == {len(table.headers)}


def test_a_failed_method_is_a_row_with_its_status_and_reason(generating: "Synthetic") -> None:
    table = made(generating)[0]
    assert row(table, "sparse.strided")["time per sequence"] == "unsupported"
    assert row(table, "sparse.strided")["images/s"] == ""
    assert "unsupported: sparse.strided at 64: it has no shorter length" in table.notes


def test_the_fastest_is_bold(generating: "Synthetic") -> None:
    table = made(generating)[2]
    assert {table.rows[line][0] for line, _ in table.bold} == {"linear.chunked(chunk=64)"}
    assert {table.headers[column] for _, column in table.bold} == {"time per sequence", "images/s"}


def test_what_is_no_image_is_a_sequence(generating: "Synthetic") -> None:
    generating.trainings = (Training(task=Task.BYTES),)
    table = made(generating)[0]
    assert "sequences/s" in table.headers
    assert table.title == "Generating: bytes, N=64, causal, float32, B=1"


def test_time_speed_up_and_state_by_length_are_as_in_decoding(generating: "Synthetic") -> None:
    titles = [table.title for table in tables(found(generating)) if table.title.endswith("B=1")]
    assert titles[3:] == [
        "Time per sequence: generate, causal, float32, B=1",
        "Speed-up over softmax.sdpa: generate, causal, float32, B=1",
        "Speed-up over softmax.recompute: generate, causal, float32, B=1",
        "State of one sequence: generate, causal, float32, B=1",
    ]


def test_the_terminal_has_times_per_sequence(generating: "Synthetic") -> None:
    text = console.summary(found(generating))
    assert "time per sequence, median of replicates" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_time_memory_and_state_are_drawn_over_length(generating: "Synthetic") -> None:
    assert [(plot.workload.value, plot.kind) for plot in plots(found(generating))] == [
        ("generate", "time"),
        ("generate", "memory"),
        ("generate", "state"),
    ]
