"""Two methods of a section by a metric: what is read off cells, and where only one of them has a figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.cells import CellSummary, summarize
from attnbench.analyze.metric import metrics
from attnbench.analyze.sections import Section, sections
from attnbench.analyze.versus import NO_FIGURE, NOT_PLANNED, Gap, Versus, baseline
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, STATE_SOURCE, Counter, Measured, Series, Status
from attnbench.schema.suite import Axes

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer

LENGTHS = (512, 1024, 2048)


def section(summaries: Sequence[CellSummary]) -> Section:
    (found,) = sections(summaries, Axes(N=LENGTHS))
    return found


def weighed(writer: "Writer", cell: Cell, **sizes: int | None) -> CellSummary:
    sources = {"state_bytes": STATE_SOURCE}
    counters = {name: Counter(bytes=size, source=sources.get(name, "VmHWM")) for name, size in sizes.items()}
    return writer.summary(cell, [1.0], writer.record(Job(cell=cell, phase=Pass.MEMORY), Measured(memory=counters)))


def test_times_are_per_sample(writer: "Writer") -> None:
    cell = writer.summary(writer.cell(B=4), [2.0, 4.0])
    assert metrics([cell])["time"].of(cell) == {0: 0.5, 1: 1.0}


def test_memory_is_the_counter_that_the_run_shows_and_every_counter_may_be_named(writer: "Writer") -> None:
    cells = [weighed(writer, writer.cell(N=N, B=2), host_rss_peak=4 * N, torch_profiler_peak=2 * N) for N in LENGTHS]
    found = metrics(cells)
    assert found["memory"].of(cells[0]) == found["host_rss_peak"].of(cells[0]) == {0: 1024.0}
    assert found["torch_profiler_peak"].of(cells[0]) == {0: 512.0}
    assert found["memory"].about == "host_rss_peak"
    assert not found["memory"].replicated


def test_the_state_is_read_and_a_counter_of_zero_or_none_gives_nothing(writer: "Writer") -> None:
    some, empty, absent = (
        weighed(writer, writer.cell(N=N), state_bytes=b) for N, b in zip(LENGTHS, (64, 0, None), strict=True)
    )
    state = metrics([some, empty, absent])["state"]
    assert [state.of(cell) for cell in (some, empty, absent)] == [{0: 64.0}, {}, {}]


def test_of_recall_more_is_better_and_of_errors_less(writer: "Writer") -> None:
    cell = Cell(method="lsh", problem=writer.cell().problem, workload=Workload.FIDELITY)
    series = {MASS_RECALL: Series(unit="1", values=(0.5,)), OUTPUT_ERROR: Series(unit="1", values=(0.25,))}
    record = writer.record(Job(cell=cell, phase=Pass.FIDELITY), Measured(samples=series))
    (summary,) = summarize([cell], [record])
    found = metrics([summary])
    assert found[MASS_RECALL].of(summary) == {0: 2.0}
    assert found[OUTPUT_ERROR].of(summary) == {0: 0.25}
    assert "time" not in found


def test_a_metric_that_no_cell_has_is_not_there(writer: "Writer") -> None:
    assert set(metrics([writer.summary(writer.cell(), [1.0])])) == {"time"}
    assert metrics([writer.summary(writer.cell())]) == {}


def test_a_failed_cell_has_no_figure(writer: "Writer") -> None:
    good, cell = writer.summary(writer.cell(), [1.0]), writer.cell(N=2048)
    bad = writer.summary(cell, [1.0], writer.failed(cell, replicate=1))
    assert metrics([good, bad])["time"].of(bad) == {}
    assert metrics([good])["time"].of(None) == {}


def test_lengths_without_a_figure_of_both_are_told_with_their_statuses(writer: "Writer") -> None:
    dense = [writer.cell("softmax.naive", N) for N in LENGTHS]
    fast = [writer.cell("linear.full", N) for N in LENGTHS[:2]]
    cells = [
        writer.summary(dense[0], [1.0]),
        writer.summary(dense[1], (), writer.failed(dense[1], Status.OOM_HOST)),
        writer.summary(dense[2], (), writer.failed(dense[2], Status.OOM_HOST)),
        *(writer.summary(cell, [0.5]) for cell in fast),
    ]
    versus = Versus(section(cells), "linear.full", "softmax.naive", metrics(cells)["time"])
    assert versus.crossover.lengths == (512,)
    assert versus.gaps == [Gap(1024, "", "oom_host"), Gap(2048, NOT_PLANNED, "oom_host")]
    assert len(versus.cells) == 5


def test_a_cell_that_ran_but_whose_counter_was_not_read_says_so(writer: "Writer") -> None:
    cells = [weighed(writer, writer.cell("a"), host_rss_peak=10), weighed(writer, writer.cell("b"), host_rss_peak=None)]
    versus = Versus(section(cells), "a", "b", metrics(cells)["memory"])
    assert versus.gaps == [Gap(1024, "", NO_FIGURE)]


def test_the_baseline_is_the_strongest_exact_one_where_the_most_methods_ran(writer: "Writer") -> None:
    cells = [
        *(writer.summary(writer.cell("softmax.sdpa", N), [3.0]) for N in LENGTHS[:2]),
        writer.summary(writer.cell("softmax.naive", 512), [1.0]),
        writer.summary(writer.cell("softmax.naive", 1024), [4.0]),
        *(writer.summary(writer.cell("linear.full", N), [1.0]) for N in LENGTHS),
    ]
    assert baseline(section(cells)) == "softmax.sdpa"
    assert baseline(section(cells), ["softmax.naive"]) == "softmax.naive"
    assert baseline(section(cells[4:])) is None


def test_with_no_exact_one_at_the_common_length_the_longest_length_of_one_counts(writer: "Writer") -> None:
    cells = [
        writer.summary(writer.cell("softmax.sdpa", 512), [3.0]),
        *(writer.summary(writer.cell("a", N), [1.0]) for N in LENGTHS),
        *(writer.summary(writer.cell("b", N), [1.0]) for N in LENGTHS[1:]),
    ]
    assert baseline(section(cells)) == "softmax.sdpa"


@pytest.mark.parametrize("batches", [(1, 8), (8, 1)])
def test_methods_that_ran_with_different_batches_are_compared_per_sample(writer: "Writer", batches: tuple[int, int]) -> None:
    cells = [
        writer.summary(writer.cell(name, N, B=B), [B * seconds] * 5)
        for name, B, seconds in (("a", batches[0], 1.0), ("b", batches[1], 2.0))
        for N in LENGTHS
    ]
    versus = Versus(section(cells), "a", "b", metrics(cells)["time"])
    assert {lead.value for lead in versus.crossover.leads.values()} == {"of"}
