"""What a judgement looks like: table, console, CSV, JSON, job summary, picture."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
from matplotlib.axes import Axes

from attnbench.analyze.cells import summarize
from attnbench.analyze.compare import Exit
from attnbench.analyze.verdict import LEVEL, Verdict
from attnbench.library.answers import Comparison
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison import table as module
from attnbench.report.questions.comparison.figure import ratio_plot
from attnbench.report.questions.comparison.judgement import Judgement, judge_methods, judge_runs
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table, console, job_summary, judgement_json
from attnbench.report.text import markdown
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.record import Record
from tests.report.conftest import Synthetic
from tests.report.stored import as_stored


@dataclass
class Change:
    """What the new side does to the times of one method, and to one of its lengths."""

    method: str
    factor: float = 1.0
    lost_at: int = 0
    memory: float = 1.0

    def applied(self, record: Record) -> Record:
        cell, outcome = record.job.cell, record.outcome
        if cell.method != self.method or not isinstance(outcome, Measured):
            return record
        if self.lost_at == cell.problem.N:
            return record.model_copy(update={"outcome": Failed(status=Status.CRASHED, reason="killed by signal 9")})
        # noise of its own
        factor = self.factor * (1 + 0.01 * (record.job.replicate % 3))
        samples = {
            name: Series(unit=series.unit, values=tuple(value * factor for value in series.values))
            for name, series in outcome.samples.items()
        }
        memory = {
            name: counter.model_copy(update={"bytes": counter.bytes and int(counter.bytes * self.memory)})
            for name, counter in outcome.memory.items()
        }
        return record.model_copy(update={"outcome": outcome.model_copy(update={"samples": samples, "memory": memory})})


def two(made: Synthetic, *changes: Change, metric: str = "time") -> Judgement:
    """A run against a changed copy of itself, as if they had been measured in turns."""
    records = changed = made.records()
    for change in changes:
        changed = [change.applied(record) for record in changed]
    run = made.run().model_copy(update={"interleaved": "x"})
    before = run.model_copy(update={"id": "20260101-000000-000001-base", "git": {"commit": "a" * 40, "dirty": False}})
    now = run.model_copy(update={"id": "20260101-000000-000001-new", "git": {"commit": "b" * 40, "dirty": True}})
    return judge_runs(Findings.of(before, records), Findings.of(now, changed), 0.05, LEVEL, metric)


@pytest.fixture
def five() -> Synthetic:
    return Synthetic(lengths=(512, 1024, 16384), causal=(True,), workloads=(Workload.FORWARD,), replicates=5)


CHANGES = (Change("softmax.sdpa", 1.3), Change("linear.chunked", 0.5, lost_at=512, memory=1.7))


@pytest.fixture
def judgement(five: Synthetic) -> Judgement:
    return two(five, *CHANGES)


@pytest.mark.parametrize("metric", ["time", "first_call", "flops"])
def test_the_forms_are_those_of_the_golden_files(five: Synthetic, metric: str) -> None:
    found = two(five, *CHANGES, metric=metric)
    made = {
        "md": markdown.markdown([comparison_table(found)], "Comparison"),
        "txt": console(found) + "\n",
        "csv": comparison_csv(found),
        "json": judgement_json(found, Exit.REGRESSION),
    }
    for form, text in made.items():
        assert as_stored(f"comparison{'' if metric == 'time' else f'_{metric}'}.{form}", text), form
    assert ratio_plot(found, "svg")


def test_memory_that_differs_from_process_to_process_is_not_judged_and_what_else_is_different_is_told(five: Synthetic) -> None:
    info, cells = five.run(), []
    for each in summarize(five.run().cells, five.records()):
        counters = {name: counter for name, counter in each.memory.counters.items() if name != "torch_profiler_peak"}
        cells.append(replace(each, memory=replace(each.memory, counters=counters)))
    newer = {**info.environment, "torch": "2.14.0"}
    old = Findings.over(info, cells)
    found = judge_runs(old, replace(old, run=info.model_copy(update={"environment": newer})), 0.05, LEVEL)
    assert (found.terms.counter, found.terms.paired) == (None, False)
    assert any("one after the other" in note for note in found.notes)
    assert all(comparison.memory is None for comparison in found.comparisons)
    assert "Memory was not compared: no counter was read that is the same in every process." in found.notes
    assert "Not alike: environment.torch: '2.13.0+cpu' then, '2.14.0' now." in found.notes


def test_the_methods_of_a_run_are_compared_with_the_strongest_exact_one_or_with_any_that_is_named(five: Synthetic) -> None:
    findings = Findings.of(five.run(), five.records())
    found = judge_methods(findings, None, 0.05, LEVEL)
    assert found.terms.paired
    pairs = {(c.pair.old.cell.method if c.pair.old else "", c.pair.any.cell.method) for c in found.comparisons}
    assert ("softmax.sdpa", "linear.chunked") in pairs
    assert ("softmax.sdpa", "softmax.sdpa") not in pairs
    failed = judge_methods(findings, "sparse.strided", 0.05, LEVEL)
    assert len(failed.comparisons) == len([s for s in findings.summaries if s.cell.label != "sparse.strided"])
    verdicts = {c.verdict for c in failed.comparisons}
    assert (verdicts, "n = 0" in failed.notes[0]) == ({Verdict.RUNS, Verdict.ABSENT}, False)


def test_methods_that_fail_where_the_baseline_runs_are_told_and_are_no_lost_cells(five: Synthetic) -> None:
    found = judge_methods(Findings.of(five.run(), five.records()), "softmax.sdpa", 0.05, LEVEL)
    assert "FAILS" in found.conclusion
    reasons = [row["reason"] for row in csv.DictReader(io.StringIO(comparison_csv(found))) if row["verdict"] == "FAILS"]
    assert reasons
    assert all(reason.startswith("the method has no number (") for reason in reasons)
    assert Comparison.of(found).code is not Exit.LOST


@pytest.fixture
def axes_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judgement], Axes]:
    """The picture before it is an image."""
    monkeypatch.setattr(
        "attnbench.report.questions.comparison.figure.images", lambda picture, forms: dict.fromkeys(forms, picture)
    )
    return lambda judgement: cast("Any", ratio_plot(judgement, "svg")).axes[0]


def test_cells_that_differ_in_more_than_workload_mask_and_length_are_told_apart_wherever_they_stand(
    five: Synthetic, axes_of: Callable[[Judgement], Axes]
) -> None:
    five.heads, five.lengths = (4, 8), (512,)
    found = judge_methods(Findings.of(five.run(), five.records()), "softmax.sdpa", 0.05, LEVEL)
    names = [label.get_text() for label in axes_of(found).get_yticklabels()]
    assert len(names) == len(set(names))
    for said in (console(found), " ".join(row[1] for row in comparison_table(found).rows), *module.reasons(found)):
        assert all(heads in said for heads in ("H=4", "H=8"))


@pytest.mark.parametrize(("metric", "worse"), [("time", "right"), ("flops", "left")])
def test_what_is_lost_stands_at_the_worse_end(
    metric: str, worse: str, five: Synthetic, axes_of: Callable[[Judgement], Axes]
) -> None:
    axes = axes_of(two(five, Change("linear.chunked", 0.5, lost_at=512), metric=metric))
    (lost,) = (line for line in axes.lines if line.get_marker() == "x")
    low, high = axes.get_xlim()
    assert (np.asarray(lost.get_xdata())[0] ** 2 > low * high) == (worse == "right")


def test_a_ratio_far_from_1_keeps_its_digits_however_small(five: Synthetic, axes_of: Callable[[Judgement], Axes]) -> None:
    found = two(five, Change("linear.chunked", 0.0003))
    assert any(row[5].startswith("0.000302 [0.000") for row in comparison_table(found).rows)
    assert "0.000302 FASTER" in {text.get_text() for text in axes_of(found).texts}


def test_the_headline_says_what_is_worse_unclear_or_that_nothing_was_judged(five: Synthetic, judgement: Judgement) -> None:
    assert Comparison.of(two(five, *CHANGES, metric="flops")).headline == "REGRESSION: worse beyond the margin of 5%"
    unclear = [replace(c, verdict=Verdict.UNCLEAR, memory=None) for c in judgement.comparisons if c.ratio]
    same = [replace(c, verdict=Verdict.SAME) for c in unclear]
    rest = [*same, replace(same[0], ratio=None, verdict=Verdict.UNCLEAR, reason="the new side was not run")]
    words = [Comparison.of(replace(judgement, comparisons=tuple(each))).headline for each in (unclear, (), rest)]
    assert words == [
        "UNCLEAR: not clear: the noise is larger than what the replicates can resolve",
        "UNCLEAR: nothing was judged: no cell has numbers on both sides that make a ratio",
        "UNCLEAR: not clear: the new side was not run",
    ]


def test_each_side_is_read_by_its_own_formulas_of_cost(five: Synthetic) -> None:
    old = Findings.of(five.run(), five.records())
    costs = {key: cost.model_copy(update={"executed_flops": 2 * cost.executed_flops}) for key, cost in old.run.costs.items()}
    found = judge_runs(old, replace(old, run=old.run.model_copy(update={"costs": costs})), 0.05, LEVEL, "flops")
    rows = [row for row in csv.DictReader(io.StringIO(comparison_csv(found))) if row["ratio"]]
    assert {float(row["ratio"]) for row in rows} == {2.0}
    assert [float(row["new"]) / float(row["old"]) for row in rows] == pytest.approx([2.0] * len(rows), rel=1e-4)
    assert all(row[3] != row[4] for row in comparison_table(found).rows if row[5])


def test_a_largest_batch_is_the_one_that_ran_and_a_figure_that_no_side_has_is_n_a(decoding: Synthetic) -> None:
    decoding.batches, decoding.lengths = (Batch.LARGEST,), (1024,)
    found = two(decoding, metric="energy")
    table = comparison_table(found)
    assert {row[3:5] for row in table.rows} == {("n/a", "n/a"), ("unsupported", "unsupported")}
    assert "Everywhere: float32, H=8, D=64, batch=largest." in table.notes
    batches = {row["method"]: row["B"] for row in csv.DictReader(io.StringIO(comparison_csv(found)))}
    assert list(batches.values()) == ["100", "300", "2000", ""]
    methods = judge_methods(Findings.of(decoding.run(), decoding.records()), "softmax.sdpa", 0.05, LEVEL)
    assert {row["B"] for row in csv.DictReader(io.StringIO(comparison_csv(methods))) if row["ratio"]} == {""}


def test_a_short_job_summary_is_whole_and_a_long_one_is_cut(judgement: Judgement, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = job_summary(judgement, "fine")
    assert "left out" not in whole
    assert whole.count("\n| ") == len(judgement.comparisons) + 1
    assert module.MOST_BYTES < 2**20
    monkeypatch.setattr(module, "MOST_BYTES", 50_000)
    text = job_summary(replace(judgement, comparisons=judgement.comparisons * 40), "REGRESSION: x")
    assert 25_000 < len(text.encode()) <= 50_000
    assert "more rows, none worse than these, are left out" in text
    assert text.splitlines()[0] == "# REGRESSION: x"


def test_there_is_a_picture_of_nothing_and_of_names_that_are_markup(hostile: Synthetic) -> None:
    empty = Findings.of(Synthetic([]).run(), ())
    assert len(ratio_plot(judge_runs(empty, empty, 0.05, LEVEL), "svg")) > 1000
    assert b"<script" not in ratio_plot(two(hostile), "svg")
