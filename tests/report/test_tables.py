"""What the tables say, and the stored texts of one small run.

To renew the texts after a wanted change: write `rendered` to the files and read the difference.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.roofline import roof_share
from attnbench.analyze.scaling import Exponent
from attnbench.report.findings import Findings
from attnbench.report.questions.growth.summary import summary_table
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.numbers import exponent
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

GOLDEN = Path(__file__).parent / "golden"


def rendered(small: "Synthetic") -> dict[str, str]:
    run, records = small.run(), small.records()
    texts = tables(Findings.of(run, records))
    return {
        f"{small.replicates}.md": markdown.markdown(texts, "small"),
        f"{small.replicates}.tex": latex.latex(texts),
    }


@pytest.mark.parametrize("replicates", [3, 5])
def test_tables_of_a_small_run_are_as_stored(small: "Synthetic", replicates: int) -> None:
    small.replicates = replicates
    for name, text in rendered(small).items():
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_tables_of_a_run_that_decodes_are_as_stored(decoding: "Synthetic") -> None:
    run, records = decoding.run(), decoding.records()
    text = markdown.markdown(tables(Findings.of(run, records)), "decoding")
    assert text == (GOLDEN / "decode.md").read_text(encoding="utf-8")


def summaries(synthetic: "Synthetic") -> dict[str, tuple[str, ...]]:
    findings = Findings.of(synthetic.run(), synthetic.records())
    return {row[0]: row for row in summary_table(findings, findings.sections[0]).rows}


def test_a_suite_gets_the_tables_it_asks_for(small: "Synthetic") -> None:
    small.report = ReportSpec(tables=("memory", "summary"))
    titles = [t.title for t in tables(Findings.of(small.run(), small.records()))]
    assert titles == ["Memory per sample, host_rss_peak: forward, causal, float32", "Summary: forward, causal, float32"]


def test_the_summary_names_its_baseline_and_what_stopped_each_method(synthetic: "type[Synthetic]") -> None:
    run = synthetic()
    findings = Findings.of(run.run(), run.records())
    table = summary_table(findings, findings.sections[0])
    rows = {row[0]: row for row in table.rows}
    assert table.headers[6] == "speed-up over softmax.sdpa at 8k"
    assert rows["softmax.sdpa"][6] == "1 (baseline)"
    assert rows["softmax.naive"][-1] == "OOM at 16k"
    assert rows["softmax.sdpa"][-1] == "budget at 64k"
    assert rows["linear.full"][2:] == ("none", "", "unsupported", "", "", "", "unsupported")
    assert rows["lsh.reformer_pytorch(rounds=4)"][-1] == "crashed at 32k"


def test_without_an_exact_softmax_there_is_no_speedup(law: "type[Law]", synthetic: "type[Synthetic]") -> None:
    run = synthetic([law("linear.full", 1e-3, 1.0)])
    findings = Findings.of(run.run(), run.records())
    table = summary_table(findings, findings.sections[0])
    assert table.headers[6] == "speed-up (no exact softmax ran)"
    assert table.rows[0][6] == ""


def test_speed_ups_are_over_the_methods_that_the_suite_names(small: "Synthetic") -> None:
    small.report = ReportSpec(tables=("summary", "speedup"), baselines=("linear.chunked",))
    summary, by_length = tables(Findings.of(small.run(), small.records()))
    assert summary.headers[6].startswith("speed-up over linear.chunked(chunk=64) at ")
    assert any(note == "Speed-up: over linear.chunked(chunk=64), which the suite names." for note in summary.notes)
    assert by_length.title.startswith("Speed-up over linear.chunked(chunk=64): ")
    rows = {row[0]: row for row in by_length.rows}
    assert set(rows["linear.chunked(chunk=64)"][2:]) == {"1 (baseline)"}
    naive = rows["softmax.naive"]
    assert "×" in naive[2]
    assert naive[-1] == "OOM"


def test_without_named_baselines_there_is_a_table_for_each_usual_one(decoding: "Synthetic") -> None:
    decoding.report = ReportSpec(tables=("speedup",))
    titles = [table.title.partition(":")[0] for table in tables(Findings.of(decoding.run(), decoding.records()))]
    assert {"Speed-up over softmax.sdpa", "Speed-up over softmax.recompute"} == set(titles)


def test_a_wrong_method_is_never_the_best(law: "type[Law]", synthetic: "type[Synthetic]") -> None:
    fast = law("softmax.wrong", 1e-9, 1.0, stop_at=1, status=Status.INCORRECT, reason="o differs")
    run = synthetic([fast, law("softmax.naive", 1e-3, 2.0)])
    findings = Findings.of(run.run(), run.records())
    for table in tables(findings):
        assert {row for row, _ in table.bold} == {1}
        assert any("wrong: softmax.wrong at 512 to 64k: o differs" in note for note in table.notes)


def test_a_time_table_has_one_unit_per_column_and_marks_the_best(small: "Synthetic") -> None:
    time = tables(Findings.of(small.run(), small.records()))[1]
    assert [header.rpartition(", ")[2] for header in time.headers[2:]] == ["µs", "ms", "ms"]
    assert {column for _, column in time.bold} == {2, 3, 4}
    assert time.rows[0][-1] == "OOM"


def test_a_failed_memory_pass_is_n_a_with_its_reason(small: "Synthetic") -> None:
    cell = small.run().cells[1]
    records = [r for r in small.records() if not (r.job.phase is Pass.MEMORY and r.job.cell == cell)]
    records.append(small.record(cell, Failed(status=Status.OOM_HOST, reason="limit of 5 GB"), phase=Pass.MEMORY))
    memory = tables(Findings.of(small.run(), records))[2]
    assert memory.rows[1][2] == "n/a"
    assert "Memory n/a: oom_host: limit of 5 GB." in memory.notes


def test_the_count_below_a_memory_table_is_that_of_the_memory_passes(small: "Synthetic") -> None:
    small.replicates = 5
    notes = tables(Findings.of(small.run(), small.records()))[2].notes
    assert "n = 1 a cell" in notes[0]
    assert not any("replicates a cell" in note for note in notes)


def test_memory_is_not_said_to_have_been_measured_as_the_times_were(small: "Synthetic") -> None:
    notes = " ".join(tables(Findings.of(small.run(), small.records()))[2].notes)
    assert "allocator policy system" in notes
    assert "clock" not in notes
    assert "retain" not in notes


@pytest.mark.parametrize(("replicates", "look"), [(1, True), (4, True), (5, False)])
def test_fewer_than_five_replicates_are_called_a_first_look(small: "Synthetic", replicates: int, look: bool) -> None:
    small.replicates = replicates
    for table in tables(Findings.of(small.run(), small.records()))[:2]:
        assert any(note.startswith("First look") for note in table.notes) is look
        assert any(note.startswith(f"n = {replicates} replicates") for note in table.notes)


def test_the_kernel_that_was_reached_stands_below_the_table(small: "Synthetic") -> None:
    def reached(outcome: Measured | Failed) -> Measured | Failed:
        return (
            outcome.model_copy(update={"facts": {**outcome.facts, "backend": "flash"}})
            if isinstance(outcome, Measured)
            else outcome
        )

    records = [
        r.model_copy(update={"outcome": reached(r.outcome)}) for r in small.records() if r.job.cell.method == "softmax.sdpa"
    ]
    notes = tables(Findings.of(small.run(), records))[0].notes
    assert "Backend: softmax.sdpa flash." in notes


def test_markdown_shows_hostile_names_as_they_are(hostile: "Synthetic") -> None:
    from markdown_it import MarkdownIt

    texts = tables(Findings.of(hostile.run(), hostile.records()))
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.markdown(texts, "x"))
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children or []}
    words = {"".join(child.content for child in token.children or []) for token in inline}
    assert kinds <= {"text", "strong_open", "strong_close", "text_special"}
    assert {"../../x", "<script>alert(1)</script>", "\\input{x}", "=cmd()", "中文 名", "@x %#~&--"} <= words
    assert not [token for token in tokens if token.type.startswith("html")]
    assert (
        len({row.count("|") - row.count("\\|") for row in markdown.one_table(texts[0]).splitlines() if row.startswith("|")})
        == 1
    )


def test_latex_escapes_every_special_letter() -> None:
    table = Table("a_b", ("x", "y"), (("\\input{x}", "50% & $5 #1 ~^ \x1b--"), ("[a]", "*µ±×…é")))
    text = latex.one_table(table)
    assert "\\textbackslash{}input\\{x\\} & 50\\% \\& \\$5 \\#1 \\textasciitilde{}\\textasciicircum{} -{}- \\\\" in text
    assert "{}[a] & {}*$\\mu$$\\pm$$\\times$\\dots{}[U+00E9] \\\\" in text
    assert text.isascii()


def test_latex_puts_a_table_that_is_too_wide_into_several(small: "Synthetic") -> None:
    wide = Table("t", ("method", *"abcdef"), (("m" * 30, *(letter * 30 for letter in "abcdef")),))
    text = latex.one_table(wide)
    assert text.count("\\toprule") == 2
    assert text.count("m" * 30) == 2
    assert all(text.count(letter * 30) == 1 for letter in "abcdef")


def test_states_are_shown_of_what_decodes_only(decoding: "Synthetic") -> None:
    decoding.workloads = (Workload.FORWARD, Workload.DECODE)
    titles = [t.title for t in tables(Findings.of(decoding.run(), decoding.records())) if t.title.startswith("State")]
    assert titles == [
        "State of one sequence: decode, causal, float32, B=1",
        "State of one sequence: decode, causal, float32, largest B that fits",
    ]


def test_a_state_is_that_of_one_sequence_whatever_the_batch_and_exact(decoding: "Synthetic") -> None:
    one, many = tables(Findings.of(decoding.run(), decoding.records()))[-2:]
    assert one.rows == many.rows
    assert one.rows[0] == ("softmax.sdpa", "library", "2048", "4096", "8192")
    assert {row for row, _ in one.bold} == {2}


def test_a_state_that_was_not_counted_has_its_reason(decoding: "Synthetic") -> None:
    cell = decoding.run().cells[0]
    records = [r for r in decoding.records() if not (r.job.phase is Pass.MEMORY and r.job.cell == cell)]
    records.append(decoding.record(cell, Failed(status=Status.OOM_HOST, reason="limit of 5 GB"), phase=Pass.MEMORY))
    state = tables(Findings.of(decoding.run(), records))[4]
    assert state.rows[0][2] == "n/a"
    assert "State n/a: oom_host: limit of 5 GB." in state.notes


def test_in_decoding_the_summary_names_two_baselines_and_a_state(decoding: "Synthetic") -> None:
    findings = Findings.of(decoding.run(), decoding.records())
    table = summary_table(findings, findings.sections[0])
    assert table.headers[4] == "time per token at 2k"
    over = [f"speed-up over {name} at 2k" for name in ("softmax.sdpa", "softmax.recompute")]
    assert list(table.headers[6:9]) == [*over, "state of one sequence at 2k"]
    rows = {row[0]: row for row in table.rows}
    assert rows["softmax.sdpa"][6] == rows["softmax.recompute"][7] == "1 (baseline)"
    assert rows["linear.chunked(chunk=64)"][8] == "130 KiB"
    assert "And over softmax.recompute, which has no cache and attends the whole prefix again." in table.notes


def test_what_does_not_grow_grows_by_zero_and_not_by_minus_zero() -> None:
    assert exponent(Exponent(-0.001, None, (1, 2, 4))) == "N^0.00"


def test_a_whole_sequence_is_per_sequence(decoding: "Synthetic") -> None:
    decoding.workloads = (Workload.DECODE_TOTAL,)
    findings = Findings.of(decoding.run(), decoding.records())
    assert summary_table(findings, findings.sections[0]).headers[4] == "time per sequence at 2k"


def test_batches_that_were_found_stand_below_with_what_bounds_them(decoding: "Synthetic") -> None:
    stated, found = tables(Findings.of(decoding.run(), decoding.records()))[:2]
    (note,) = (note for note in found.notes if note.startswith("Largest B"))
    assert "in 90% of the memory allowed and with a call within half the budget" in note
    assert "softmax.sdpa 200 at 512 (memory), 100 at 1k (memory), 50 at 2k (memory);" in note
    assert not any(note.startswith("Largest B") for note in stated.notes)
    assert any(note.startswith("B=50 to 4000, ") for note in found.notes)


def test_a_batch_that_was_not_found_is_no_number(decoding: "Synthetic") -> None:
    findings = Findings.of(decoding.run(), [])
    assert any(note.startswith("B=max, ") for note in summary_table(findings, findings.sections[1]).notes)


def test_the_share_of_the_roof_grows_with_the_batch_that_was_found(decoding: "Synthetic") -> None:
    run = decoding.run()
    shares = {(s.cell.label, s.cell.problem.N, s.B): roof_share(s, run) for s in Findings.of(run, decoding.records()).summaries}
    one, many = shares["softmax.sdpa", 1024, 1], shares["softmax.sdpa", 1024, 100]
    assert one is not None
    assert many is not None
    assert many.floor_seconds == pytest.approx(100 * one.floor_seconds)
    assert any(note.startswith("Of the roof: ") for note in tables(Findings.of(run, decoding.records()))[0].notes)


def test_without_a_roof_its_column_is_empty_and_unexplained(small: "Synthetic") -> None:
    run = small.run()
    bare = run.model_copy(update={"surroundings": run.surroundings.model_copy(update={"roof": {}})})
    table = tables(Findings.of(bare, small.records()))[0]
    assert table.headers[5] == "of the roof"
    assert {row[5] for row in table.rows} == {""}
    assert not any(note.startswith("Of the roof") for note in table.notes)
