"""What a run of fidelity ends in: tables, a figure, a caption, columns of the long table, lines on the terminal."""

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from attnbench.analyze.cells import OK, CellSummary
from attnbench.report import console
from attnbench.report.drawing import style
from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.figure import fidelity_figure
from attnbench.report.questions.fidelity.lines import lines, swept_parameters
from attnbench.report.questions.fidelity.metrics import main_metric
from attnbench.report.questions.growth.long_form import csv
from attnbench.report.tables import tables
from attnbench.report.text import markdown
from attnbench.schema.cell import Cell, Inputs, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import COSINE, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP, Failed, Measured, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

SIZES, ROUNDS = (32, 64), (1, 2, 4)
REPORT = ReportSpec(tables=("summary", "time", "fidelity", "state"), plots=("time", "fidelity"))


@pytest.fixture
def kept(law: "type[Law]", synthetic: "type[Synthetic]") -> "Synthetic":
    """Hashing by rounds and bucket size, an exact method, and one that is refused."""
    hashing = [law("lsh.reformer", 1, 1, {"rounds": r, "bucket_size": m}) for m in SIZES for r in ROUNDS]
    laws = [*hashing, law("softmax.sdpa", 1, 1, tier="library"), law("linear.full", 1, 1, stop_at=1)]
    return synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=(Workload.FIDELITY,), report=REPORT)


def recall(cell: Cell) -> float:
    pairs = int(cell.params.get("rounds", 10**6)) * 2 * int(cell.params.get("bucket_size", 1)) / cell.problem.N
    return min(1.0, 1.2 * pairs)


def measured(run: "Synthetic", cell: Cell, replicate: int) -> Record:
    values = {MASS_RECALL: min(1.0, recall(cell) + 0.01 * replicate), OUTPUT_ERROR: 1 - recall(cell) / 2}
    samples = {name: Series(unit="1", values=(value,)) for name, value in values.items()}
    facts: dict[str, Scalar | None] = {"top_keys": 32, "exact": "Shared-QK attention" if cell.params else "Softmax attention"}
    return run.record(cell, Measured(samples=samples, facts=facts), replicate, Pass.FIDELITY)


def recorded(run: "Synthetic") -> tuple[RunInfo, list[Record]]:
    info = run.run()
    costs = {
        cell.key: info.costs[cell.key].model_copy(update={"nominal_flops": 1.0, "exact_flops": recall(cell)})
        for cell in info.cells
    }
    records = []
    for cell in info.cells:
        if cell.method == "linear.full":
            records.append(run.record(cell, Failed(status=Status.UNSUPPORTED, reason="not causal"), phase=Pass.FIDELITY))
        else:
            records += [measured(run, cell, replicate) for replicate in range(run.replicates)]
    return info.model_copy(update={"costs": costs}), records


def changed(record: Record, values: dict[str, float], facts: dict[str, Scalar | None] | None = None) -> Record:
    """With other samples and facts; a failure as it is."""
    outcome = record.outcome
    if not isinstance(outcome, Measured):
        return record
    samples = {**outcome.samples, **{name: Series(unit="1", values=(value,)) for name, value in values.items()}}
    update = {"samples": samples, "facts": {**outcome.facts, **(facts or {})}}
    return record.model_copy(update={"outcome": outcome.model_copy(update=update)})


def found(run: "Synthetic") -> Findings:
    return Findings.of(*recorded(run))


def drawn(run: "Synthetic") -> Figure:
    findings = found(run)
    with style.applied():
        return fidelity_figure(findings, findings.sections)


def legend(figure: Figure) -> dict[str, tuple[object, object]]:
    """Marker and line of each entry."""
    return {
        text.get_text().strip("\u200b"): (handle.get_marker(), handle.get_linestyle())
        for each in figure.legends
        for text, handle in zip(each.get_texts(), each.get_lines(), strict=True)
    }


def test_a_suite_gets_of_its_tables_those_that_fidelity_has(kept: "Synthetic") -> None:
    titles = [table.title for table in tables(found(kept))]
    where = "fidelity, causal, float32"
    assert titles == [f"Summary: {where}", f"Mass recall: {where}", f"Output error: {where}"]


def test_what_is_timed_has_no_table_or_plot_of_fidelity(small: "Synthetic") -> None:
    small.report = ReportSpec(tables=("fidelity",), plots=("fidelity",))
    findings = Findings.of(small.run(), small.records())
    assert tables(findings) == []
    assert plots(findings) == []


def test_a_row_says_recall_and_error_with_their_ranges(kept: "Synthetic") -> None:
    summary, by_length, errors = tables(found(kept))
    rows = {row[0]: row for row in summary.rows}
    name = "lsh.reformer(bucket_size=64, rounds=4)"
    assert rows[name] == (name, "eager", "1k", "61.0% [60.0, 62.0]", "0.700 [0.700, 0.700]", "60.0%", "")
    assert rows["linear.full"] == ("linear.full", "eager", "none", "unsupported", "unsupported", "", "unsupported")
    assert {row[0]: row for row in by_length.rows}[name][2:] == ("100% [100, 100]", "61.0% [60.0, 62.0]")
    assert {row[0]: row for row in errors.rows}[name][2:] == ("0.500 [0.500, 0.500]", "0.700 [0.700, 0.700]")


def test_most_recall_and_least_error_are_bold(kept: "Synthetic") -> None:
    summary, by_length, errors = tables(found(kept))
    exact = [row[0] for row in summary.rows].index("softmax.sdpa")
    assert {row for row, column in by_length.bold if column == 3} == {exact}
    assert {row for row, column in errors.bold if column == 3} == {exact}


def test_below_a_table_stands_what_was_compared_with_what(kept: "Synthetic") -> None:
    notes = " ".join(note for table in tables(found(kept)) for note in table.notes)
    assert "the 32 top keys of a query" in notes
    assert "Exact: Shared-QK attention (lsh.reformer); Softmax attention (softmax.sdpa)." in notes
    assert "n = 3 replicates a cell" in notes
    assert "smallest and largest replicate" in notes
    assert "unsupported: linear.full at 512, 1k: not causal" in notes
    assert "clock" not in notes


def test_one_replicate_has_no_range(kept: "Synthetic") -> None:
    kept.replicates = 1
    summary = tables(found(kept))[0]
    assert "n = 1: one replicate a cell, so no range." in summary.notes
    assert "brackets" not in " ".join(summary.notes)
    assert not any("[" in text for row in summary.rows for text in row)


def test_an_error_of_rounding_is_written_in_exponent_form(kept: "Synthetic") -> None:
    summary = CellSummary(cell=Cell(method="m", problem=Problem(N=64)), status=OK, scores={OUTPUT_ERROR: {0: 4.1e-7}})
    assert main_metric(Workload.FIDELITY).text(summary) == "4e-07"
    assert main_metric(Workload.FIDELITY).text(replace(summary, scores={OUTPUT_ERROR: {0: 0.0}})) == "0"


def test_five_replicates_give_an_interval(kept: "Synthetic") -> None:
    kept.replicates = 5
    notes = tables(found(kept))[0].notes
    assert any("95 % t interval" in note for note in notes)
    assert not any(note.startswith("First look") for note in notes)


def test_markdown_and_terminal_take_it(kept: "Synthetic") -> None:
    info, records = recorded(kept)
    assert "| linear.full" in markdown.markdown(tables(Findings.of(info, records)), "x")
    text = console.summary(Findings.of(info, records))
    assert "\nsynthetic: fidelity is the output's error over the exact output, mean" in text
    assert "0.700 [0.700, 0.700]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_terminal_says_names_in_full_where_there_is_room(kept: "Synthetic") -> None:
    kept.lengths = (1024,)
    assert "\nlsh.reformer(bucket_size=64, rounds=4)  " in console.summary(Findings.of(*recorded(kept)))


def test_each_cell_has_its_numbers_in_the_long_table(kept: "Synthetic") -> None:
    table = pd.read_csv(io.StringIO(csv(found(kept))))
    row = table[(table["params"] == "bucket_size=64 rounds=4") & (table["N"] == 1024)].iloc[0]
    assert (row["workload"], row["status"], row["n_replicates"]) == ("fidelity", "ok", 3)
    assert [row[f"mass_recall{end}"] for end in ("", "_low", "_high")] == pytest.approx([0.61, 0.60, 0.62])
    assert row["output_error"] == pytest.approx(0.7)
    assert row["flops_of_dense"] == pytest.approx(0.6)
    assert pd.isna(row["time_median_s_per_call"])
    assert table[table["status"] == "unsupported"]["mass_recall"].isna().all()


def test_overlap_and_cosine_have_tables_and_columns_where_they_were_recorded(kept: "Synthetic") -> None:
    info, records = recorded(kept)
    records = [changed(record, {TOP_OVERLAP: 0.25, COSINE: -0.5}) for record in records]
    findings = Findings.of(info, records)
    summary, _, overlap, cosine, _ = tables(findings)
    assert summary.headers[3:7] == ("mass recall at 1k", "top overlap at 1k", "cosine at 1k", "output error at 1k")
    assert [table.title.partition(":")[0] for table in (overlap, cosine)] == ["Top overlap", "Cosine"]
    rows = {row[0]: row for row in summary.rows}
    assert rows["softmax.sdpa"][4:6] == ("25.0% [25.0, 25.0]", "-0.500 [-0.500, -0.500]")
    assert rows["linear.full"][3:7] == ("unsupported",) * 4
    assert "Top overlap: of the 32 keys to which exact attention gives most" in " ".join(summary.notes)
    table = pd.read_csv(io.StringIO(csv(findings)))
    assert table["top_overlap_low"].dropna().unique().tolist() == [0.25]
    assert table["cosine"].dropna().unique().tolist() == [-0.5]
    assert table[table["status"] == "unsupported"]["cosine"].isna().all()


def test_the_notes_say_which_inputs_and_what_was_adapted_to_them(kept: "Synthetic") -> None:
    info, records = recorded(kept)
    other = {"scale": 0.25, "inputs": Inputs.RECORDED, "recording": "a_file"}
    records = [changed(record, {}, {"adapted": "8 other sequences"}) for record in records]
    jobs = [record.job.model_copy(update={"cell": record.job.cell.model_copy(update=other)}) for record in records]
    records = [record.model_copy(update={"job": job}) for record, job in zip(records, jobs, strict=True)]
    cells = tuple(cell.model_copy(update=other) for cell in info.cells)
    notes = " ".join(tables(Findings.of(info.model_copy(update={"cells": cells}), records))[0].notes)
    assert "inputs recorded a_file, queries and keys times 0.25." in notes
    assert "Adapted before it was measured, as training would: lsh.reformer, softmax.sdpa to 8 other sequences." in notes


def test_a_line_joins_what_differs_in_the_parameter_with_the_most_values(kept: "Synthetic") -> None:
    section = found(kept).sections[0]
    assert swept_parameters([s.cell for s in section.summaries])["lsh.reformer"] == "rounds"
    made = {line.name: line for line in lines(section, 512)}
    assert list(made) == ["lsh.reformer(bucket_size=32)", "lsh.reformer(bucket_size=64)", "softmax.sdpa", "linear.full"]
    hashing = made["lsh.reformer(bucket_size=32)"]
    assert [hashing.step(s) for s in hashing.cells] == ["rounds=1", "rounds=2", "rounds=4"]
    assert [made["softmax.sdpa"].step(s) for s in made["softmax.sdpa"].cells] == [""]


def test_words_and_flags_are_not_swept_along_a_line() -> None:
    params: list[dict[str, Scalar]] = [
        {"mode": mode, "distinct": flag, "c": 8} for mode in ("merged", "per_head") for flag in (True, False)
    ]
    cells = [Cell(method="m", problem=Problem(N=64), params=each) for each in params]
    assert swept_parameters(cells) == {"m": ""}


def test_the_figure_has_a_panel_for_each_length_and_says_what_is_what(kept: "Synthetic") -> None:
    figure = drawn(kept)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["N = 512", "", "N = 1k", ""]
    words = {text.get_text().strip("\u200b") for text in figure.findobj(Text) if isinstance(text, Text)}
    assert {"lsh.reformer(bucket_size=64)", "rounds=4", "as many pairs, chosen at random"} <= words
    assert {"mass recall of the 32 top keys", "output error"} <= words
    assert min(float(t.get_fontsize()) for t in figure.findobj(Text) if isinstance(t, Text)) >= 7


def test_each_cell_with_a_number_is_one_marker_at_its_cost_and_recall(kept: "Synthetic") -> None:
    marked = [line for line in drawn(kept).axes[2].lines if line.get_marker() not in {"None", ""}]
    markers = {tuple(round(float(np.asarray(data)[0]), 3) for data in line.get_data()) for line in marked}
    wanted = {(round(0.075 * 2**i, 3), round(0.075 * 2**i + 0.01, 3)) for i in range(4)} | {(1.0, 1.0)}
    assert markers == wanted


def test_beside_it_stands_the_error_and_what_is_nearly_exact_at_the_foot(kept: "Synthetic") -> None:
    info, records = recorded(kept)
    records = [changed(r, {OUTPUT_ERROR: 1e-7}) if r.job.cell.method == "softmax.sdpa" else r for r in records]
    findings = Findings.of(info, records)
    with style.applied():
        axes = fidelity_figure(findings, findings.sections).axes[3]
    marked = [line for line in axes.lines if line.get_marker() not in {"None", ""}]
    errors = sorted(float(np.asarray(line.get_ydata())[0]) for line in marked)
    assert errors == pytest.approx([0.001, 0.7, 0.85, 0.85, 0.925, 0.925, 0.9625])
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "output error")
    assert axes.get_ylim()[0] < 0.001


def test_the_legend_shows_points_as_points_and_lines_as_lines(kept: "Synthetic") -> None:
    shown = legend(drawn(kept))
    assert shown["softmax.sdpa"] == ("o", "None")
    assert shown["lsh.reformer(bucket_size=32)"][0] in {"", "None"}
    assert shown["lsh.reformer(bucket_size=32)"][1] != "None"
    steps = [shown[f"rounds={r}"][0] for r in ROUNDS]
    assert len({"o", *steps}) == 4


def test_markers_begin_anew_with_each_parameter(law: "type[Law]", synthetic: "type[Synthetic]") -> None:
    rounds = [law("lsh.reformer", 1, 1, {"rounds": r}) for r in range(1, 9)]
    codes = [law("vq.quantised", 1, 1, {"codes": c}) for c in range(1, 9)]
    run = synthetic([*rounds, *codes], lengths=(512,), causal=(True,), workloads=(Workload.FIDELITY,), report=REPORT)
    shown = legend(drawn(run))
    assert [shown[f"rounds={n}"] for n in range(1, 9)] == [shown[f"codes={n}"] for n in range(1, 9)]
    assert len({shown[f"rounds={n}"] for n in range(1, 9)}) == 8


def test_without_numbers_the_figure_says_so(kept: "Synthetic") -> None:
    findings = Findings.of(kept.run(), [])
    with style.applied():
        figure = fidelity_figure(findings, findings.sections)
    assert "nothing was measured" in {t.get_text() for t in figure.findobj(Text) if isinstance(t, Text)}


def test_the_same_records_give_the_same_bytes_under_one_name(kept: "Synthetic") -> None:
    (first,), (second,) = plots(found(kept)), plots(found(kept))
    assert first == second
    assert (first.workload, first.kind) == (Workload.FIDELITY, "fidelity")
    assert set(first.images) == {"png", "svg", "pdf"}
    assert "chosen at random" in first.caption
