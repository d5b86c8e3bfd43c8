import math
from collections.abc import Mapping
from itertools import permutations

import pytest

from attnbench.analyze.cells import CellSummary, learning_curve, summarize
from attnbench.analyze.main_counter import STATE
from attnbench.analyze.statistics import Spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import CURVE, STATE_SOURCE, Counter, Status
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import Writer, known


def test_statistics_are_of_replicate_medians_not_of_pooled_samples(writer: Writer) -> None:
    cell = writer.cell()
    records = [writer.timed(cell, [1.0] * 99, 0), writer.timed(cell, [2.0], 1), writer.timed(cell, [3.0, 3.0, 9.0], 2)]
    (found,) = summarize([cell], records)
    assert (found.status, found.median, dict(found.medians)) == ("ok", 2.0, {0: 1.0, 1: 2.0, 2: 3.0})
    assert (found.replicates, found.samples) == (3, 103)
    assert (known(found.time).ends, known(found.time).interval.kind) == ((1.0, 3.0), Spread.BAND)


def test_an_outlier_is_counted_and_stays(writer: Writer) -> None:
    cell = writer.cell()
    (found,) = summarize([cell], [writer.timed(cell, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 50.0])])
    assert (found.outliers, found.samples) == (1, 7)


def test_the_first_failed_replicate_fails_the_cell_and_keeps_its_numbers_out(writer: Writer) -> None:
    cell = writer.cell()
    fails = [writer.failed(cell, Status.TIMEOUT, "second", 2), writer.failed(cell, Status.OOM_HOST, "first", 1)]
    (found,) = summarize([cell], [writer.timed(cell, [1.0], 0), *fails])
    assert (found.status, found.reason, found.median, found.time) == ("oom_host", "first", None, None)
    assert dict(found.medians) == {0: 1.0}


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_attempt_counts_wherever_it_stands_unless_it_was_interrupted(writer: Writer, order: int) -> None:
    cell = writer.cell()
    records = [writer.timed(cell, [9.0], attempt=0, flags=("throttled",)), writer.timed(cell, [1.0], attempt=1)]
    for more in ([], [writer.failed(cell, Status.INTERRUPTED, attempt=2)]):
        (found,) = summarize([cell], [*records, *more][::order])
        assert (found.status, found.median, found.flags) == ("ok", 1.0, ())


def test_an_interrupted_replicate_beside_a_measured_one_is_one_that_was_not_run(writer: Writer) -> None:
    cell = writer.cell()
    interrupted = writer.failed(cell, Status.INTERRUPTED, replicate=1)
    (found,) = summarize([cell], [writer.timed(cell, [1.0]), interrupted])
    assert (found.status, found.replicates) == ("ok", 1)
    assert (writer.summary(cell, (), interrupted).status, writer.summary(cell).status) == ("interrupted", "not_run")


def test_a_cell_that_only_records_know_comes_last(writer: Writer) -> None:
    planned, other = writer.cell(N=8), writer.cell(N=4)
    assert [s.cell.problem.N for s in summarize([planned], [writer.timed(other, [1.0])])] == [8, 4]


def test_a_check_is_no_cell_of_the_run(writer: Writer) -> None:
    small = writer.cell(N=64)
    assert summarize([], [writer.failed(small, Status.INCORRECT, phase=Pass.CHECK)]) == []


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")], [0.0]])
def test_samples_that_are_no_times_are_an_error(writer: Writer, values: list[float]) -> None:
    cell = writer.cell()
    (found,) = summarize([cell], [writer.timed(cell, values)])
    assert (found.status, found.median) == ("error", None)
    assert found.reason


def test_a_failed_memory_pass_costs_the_memory_only(writer: Writer) -> None:
    cell = writer.cell()
    found = writer.summary(cell, [1.0], writer.failed(cell, Status.OOM_HOST, "limit", phase=Pass.MEMORY))
    assert (found.status, found.median) == ("ok", 1.0)
    assert found.memory.bytes("host_rss_peak") is None
    assert found.memory.why_not("host_rss_peak") == "oom_host: limit"


def test_memory_is_the_median_over_its_replicates(writer: Writer) -> None:
    cell = writer.cell()
    weights = [writer.weighed(cell, r, host_rss_peak=Counter(bytes=b, source="VmHWM")) for r, b in enumerate((10, 90, 20))]
    assert writer.summary(cell, [1.0], *weights).memory.bytes("host_rss_peak") == 20


def test_memory_read_in_two_ways_is_never_mixed(writer: Writer) -> None:
    cell = writer.cell()
    sampled = Counter(bytes=1, source="sampled", reason="no reset of the high-water mark")
    sure = Counter(bytes=100, source="VmHWM")
    found = writer.summary(
        cell, [1.0], writer.weighed(cell, 0, host_rss_peak=sampled), writer.weighed(cell, 1, host_rss_peak=sure)
    )
    assert found.memory.counters["host_rss_peak"] == sure


def test_figures_are_per_sample_of_the_batch_that_was_found(writer: Writer) -> None:
    cell = writer.largest()
    state = Counter(bytes=4000, source=STATE_SOURCE)
    found = writer.summary(cell, [2.0], writer.trial(cell, 400), writer.weighed(cell, state_bytes=state), B=400)
    assert (found.B, found.per_sample, found.median) == (400, 1 / 400, 2.0)
    assert STATE.per_sample(found) == 10.0
    assert writer.summary(writer.cell(B=4), [1.0]).B == 4, "a stated batch is the problem's"


@pytest.mark.parametrize(
    ("workload", "tokens"), [(Workload.DECODE, 400), (Workload.DECODE_TOTAL, 400 * 1024), (Workload.FORWARD, 400 * 1024)]
)
def test_a_step_gives_one_token_a_row_and_any_other_call_n(writer: Writer, workload: Workload, tokens: int) -> None:
    assert writer.summary(writer.largest(workload=workload), [1.0], B=400).tokens == tokens


def test_what_bounds_a_batch_is_how_the_smallest_failed_that_was_too_large(writer: Writer) -> None:
    cell = writer.largest()
    trials = [writer.trial(cell, 1), writer.trial(cell, 64, Status.OOM_HOST), writer.trial(cell, 8, Status.BUDGET)]
    for order in permutations(trials):
        assert writer.summary(cell, [1.0], *order, B=4).bound == "budget"
    assert writer.summary(cell, [1.0], trials[0]).bound == ""


def test_an_interrupted_trial_bounds_nothing(writer: Writer) -> None:
    cell = writer.largest()
    cut, full = writer.trial(cell, 4, Status.INTERRUPTED), writer.trial(cell, 16, Status.OOM_HOST)
    assert writer.summary(cell, [1.0], cut, writer.trial(cell, 4), full, B=4).bound == "oom_host"
    assert writer.summary(cell, [1.0], cut, B=1).bound == ""
    assert writer.summary(cell, [], writer.trial(cell, 4), full).status == "not_run", "a trial is no time and no failure"


def trained(status: str = "ok", series: Mapping[str, Mapping[int, tuple[float, ...]]] | None = None) -> CellSummary:
    training = Training(task=Task.COPY)
    cell = Cell(method="m", problem=Problem(N=8, causal=True), workload=Workload.TRAIN, training=training)
    return CellSummary(cell, status, series=series or {})


def curves(updates: Mapping[int, tuple[float, ...]], losses: Mapping[int, tuple[float, ...]]) -> CellSummary:
    seconds = {seed: tuple(10.0 * seed + u for u in each) for seed, each in updates.items()}
    return trained(series=dict(zip(CURVE, (updates, seconds, losses), strict=True)))


def test_a_curve_is_the_median_of_the_seeds_with_their_range() -> None:
    losses = {0: (3.0, 1.0), 1: (3.0, 2.0), 2: (3.0, 0.5)}
    first, last = learning_curve(curves(dict.fromkeys(range(3), (0.0, 100.0)), losses))
    assert (first.update, first.middle, first.low, first.high) == (0.0, 3.0, 3.0, 3.0)
    assert (last.update, last.seconds, last.middle, last.low, last.high) == (100.0, 110.0, 1.0, 0.5, 2.0)


def test_a_seed_that_was_judged_at_other_updates_or_is_torn_is_not_laid_over_the_others() -> None:
    updates = {0: (0.0, 100.0), 1: (0.0, 50.0), 2: (0.0, 100.0)}
    losses = {0: (3.0, 1.0), 1: (3.0, 9.0), 2: (3.0,)}
    assert [(m.middle, m.high) for m in learning_curve(curves(updates, losses))] == [(3.0, 3.0), (1.0, 1.0)]


def test_what_is_no_number_is_no_part_of_a_curve() -> None:
    losses = {0: (3.0, math.nan, 1.0), 1: (3.0, math.inf, math.nan)}
    found = learning_curve(curves(dict.fromkeys(range(2), (0.0, 1.0, 2.0)), losses))
    assert [(moment.update, moment.middle) for moment in found] == [(0.0, 3.0), (2.0, 1.0)]


def test_without_its_series_or_with_a_failure_there_is_no_curve() -> None:
    assert learning_curve(trained()) == ()
    whole = {name: {0: (0.0, 1.0)} for name in CURVE}
    assert len(learning_curve(trained(series=whole))) == 2
    assert learning_curve(trained(status="crashed", series=whole)) == ()
