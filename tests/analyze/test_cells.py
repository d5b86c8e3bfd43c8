"""From records to cells: what a cell or a search came to, its memory, its curve, and what a history keeps of it."""

import math
from collections.abc import Mapping
from itertools import permutations

import pytest

from attnbench.analyze.cells import OK, CellSummary, learning_curve, summarize
from attnbench.analyze.limits import Limit, limits
from attnbench.analyze.main_counter import STATE, main_counter
from attnbench.analyze.points import lacks, points
from attnbench.analyze.statistics import Spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import CURVE, STATE_SOURCE, Counter, Failed, Measured, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import InfoOf, known, writer


def test_statistics_are_of_replicate_medians_not_of_pooled_samples() -> None:
    cell = writer.cell()
    seven = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 50.0]
    records = [writer.timed(cell, [1.0] * 99, 0), writer.timed(cell, [2.0], 1), writer.timed(cell, [3.0, 3.0, 9.0], 2)]
    (found,) = summarize([cell], records)
    assert (found.status, found.median, dict(found.medians)) == ("ok", 2.0, {0: 1.0, 1: 2.0, 2: 3.0})
    assert (found.replicates, found.samples) == (3, 103)
    assert (known(found.time).ends, known(found.time).interval.kind) == ((1.0, 3.0), Spread.BAND)
    (odd,) = summarize([cell], [writer.timed(cell, seven)])
    assert (odd.outliers, odd.samples) == (1, 7), "an outlier is counted and stays"


def test_the_first_failed_replicate_fails_the_cell_and_an_interrupted_one_is_one_that_was_not_run() -> None:
    cell = writer.cell()
    fails = [writer.failed(cell, Status.TIMEOUT, "second", 2), writer.failed(cell, Status.OOM_HOST, "first", 1)]
    (found,) = summarize([cell], [writer.timed(cell, [1.0], 0), *fails])
    assert (found.status, found.reason, found.median, found.time) == ("oom_host", "first", None, None)
    assert dict(found.medians) == {0: 1.0}
    cell = writer.cell()
    interrupted = writer.failed(cell, Status.INTERRUPTED, replicate=1)
    (found,) = summarize([cell], [writer.timed(cell, [1.0]), interrupted])
    assert (found.status, found.replicates) == ("ok", 1)
    assert (writer.summary(cell, (), interrupted).status, writer.summary(cell).status) == ("interrupted", "not_run")


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_attempt_counts_wherever_it_stands_unless_it_was_interrupted(order: int) -> None:
    cell = writer.cell()
    records = [writer.timed(cell, [9.0], attempt=0, flags=("throttled",)), writer.timed(cell, [1.0], attempt=1)]
    for more in ([], [writer.failed(cell, Status.INTERRUPTED, attempt=2)]):
        (found,) = summarize([cell], [*records, *more][::order])
        assert (found.status, found.median, found.flags) == ("ok", 1.0, ())


def test_a_cell_that_only_records_know_comes_last_and_a_check_is_no_cell() -> None:
    planned, other = writer.cell(N=8), writer.cell(N=4)
    check = writer.failed(writer.cell(N=64), Status.INCORRECT, phase=Pass.CHECK)
    assert [s.cell.problem.N for s in summarize([planned], [writer.timed(other, [1.0]), check])] == [8, 4]


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")], [0.0]])
def test_samples_that_are_no_times_are_an_error(values: list[float]) -> None:
    cell = writer.cell()
    (found,) = summarize([cell], [writer.timed(cell, values)])
    assert (found.status, found.median) == ("error", None)
    assert found.reason


# memory


def test_memory_is_the_median_over_its_replicates_and_a_failed_pass_costs_the_memory_only() -> None:
    cell = writer.cell()
    weights = [writer.weighed(cell, r, host_rss_peak=Counter(bytes=b, source="VmHWM")) for r, b in enumerate((10, 90, 20))]
    assert writer.summary(cell, [1.0], *weights).memory.bytes("host_rss_peak") == 20
    found = writer.summary(cell, [1.0], writer.failed(cell, Status.OOM_HOST, "limit", phase=Pass.MEMORY))
    assert (found.status, found.median) == ("ok", 1.0)
    assert found.memory.bytes("host_rss_peak") is None
    assert found.memory.why_not("host_rss_peak") == "oom_host: limit"


RSS, PROFILER = Counter(bytes=4096, source="VmHWM"), Counter(bytes=4000, source="profiler")
SAMPLED = Counter(bytes=17, source="psutil", reason="no reset of the high-water mark here")
NO_RESET = "host_rss_peak could not be used: no reset of the high-water mark here"
ON_GPU = {"torch_allocated_peak": Counter(bytes=7, source="allocator"), "host_rss_peak": Counter(bytes=None, source="VmHWM")}


@pytest.mark.parametrize(
    ("device", "counters", "name", "size", "note"),
    [
        ("cpu", {"host_rss_peak": RSS, "torch_profiler_peak": PROFILER}, "host_rss_peak", 1024.0, ""),
        ("cpu", {"host_rss_peak": SAMPLED, "torch_profiler_peak": PROFILER}, "torch_profiler_peak", 1000.0, NO_RESET),
        ("cpu", {"host_rss_peak": SAMPLED}, "host_rss_peak", 17 / 4, ""),
        ("cuda:0", ON_GPU, "torch_allocated_peak", 7 / 4, ""),
    ],
    ids=["resident", "profiled where that could only be sampled", "sampled with nothing better", "by a GPU's allocator"],
)
def test_which_counter_of_memory_is_shown(device: str, counters: dict[str, Counter], name: str, size: float, note: str) -> None:
    cell = writer.cell(device=device, B=4)
    found = writer.summary(cell, [1.0], writer.weighed(cell, 0, **counters))
    counter = known(main_counter([found]))
    assert (counter.name, counter.per_sample(found), counter.note) == (name, size, note)
    assert counter.source == counters[name].source


def test_memory_read_in_two_ways_is_never_mixed_and_without_a_reading_there_is_none() -> None:
    cells = [writer.cell(N=N) for N in (64, 128, 256)]
    both = [writer.weighed(cells[0], 0, host_rss_peak=SAMPLED), writer.weighed(cells[0], 1, host_rss_peak=RSS)]
    good = writer.summary(cells[0], [1.0], *both)
    odd = writer.summary(cells[1], [1.0], writer.weighed(cells[1], host_rss_peak=SAMPLED))
    failed = writer.summary(cells[2], [], writer.failed(cells[2]), writer.weighed(cells[2], host_rss_peak=RSS))
    assert good.memory.counters["host_rss_peak"] == RSS
    counter = known(main_counter([good, odd, failed]))
    assert [counter.per_sample(each) for each in (good, odd, failed)] == [4096.0, None, None]
    assert counter.why_not(odd) == "host_rss_peak was read differently: psutil"
    assert "crashed" in counter.why_not(failed)
    assert main_counter([]) is main_counter([writer.summary(cells[0], [1.0])]) is None


# a batch that was searched for


def test_figures_are_per_sample_of_the_batch_that_was_found() -> None:
    cell = writer.largest()
    state = Counter(bytes=4000, source=STATE_SOURCE)
    found = writer.summary(cell, [2.0], writer.trial(cell, 400), writer.weighed(cell, state_bytes=state), B=400)
    assert (found.B, found.per_sample, found.median) == (400, 1 / 400, 2.0)
    assert STATE.per_sample(found) == 10.0
    assert writer.summary(writer.cell(B=4), [1.0]).B == 4, "a stated batch is the problem's"
    # a step gives one token a row, and any other call N
    tokens = {Workload.DECODE: 400, Workload.DECODE_TOTAL: 400 * 1024, Workload.FORWARD: 400 * 1024}
    assert {each: writer.summary(writer.largest(workload=each), [1.0], B=400).tokens for each in tokens} == tokens
    padded = writer.cell(B=4, N=64, padding=0.5)
    for each in (padded, padded.model_copy(update={"problem": padded.problem.in_one_row})):
        assert writer.summary(each, [1.0]).tokens == 56 + 48 + 40 + 32, "padding is no token"


def test_what_bounds_a_batch_is_how_the_smallest_failed_that_was_too_large() -> None:
    cell = writer.largest()
    trials = [writer.trial(cell, 1), writer.trial(cell, 64, Status.OOM_HOST), writer.trial(cell, 8, Status.BUDGET)]
    for order in permutations(trials):
        assert writer.summary(cell, [1.0], *order, B=4).bound == "budget"
    assert writer.summary(cell, [1.0], trials[0]).bound == ""
    cut, full = writer.trial(cell, 4, Status.INTERRUPTED), writer.trial(cell, 16, Status.OOM_HOST)
    assert writer.summary(cell, [1.0], cut, writer.trial(cell, 4), full, B=4).bound == "oom_host"
    assert writer.summary(cell, [1.0], cut, B=1).bound == "", "an interrupted trial bounds nothing"
    again = writer.summary(cell, [1.0], writer.trial(cell, 4, Status.CRASHED), writer.trial(cell, 4), full, B=12)
    assert (again.bound, again.refused) == ("oom_host", 16), "what failed by chance and fitted when it was tried again is none"
    assert writer.summary(cell, [], writer.trial(cell, 4), full).status == "not_run", "a trial is no time and no failure"


def test_of_a_cell_that_was_begun_anew_on_another_device_only_what_was_measured_there_counts() -> None:
    cell = writer.largest()
    first = [writer.trial(cell, 2, Status.OOM_HOST), *(writer.timed(cell, [1.0], r, B=1) for r in range(2))]
    other = [writer.timed(cell, [5.0], 0, attempt=1, B=4), writer.failed(cell, Status.INTERRUPTED, replicate=1)]
    there = [record.model_copy(update={"environment": "there"}) for record in other]
    for records, environment, medians in ((first, "e", {0: 1.0, 1: 1.0}), ([*first, *there], "there", {0: 5.0})):
        (found,) = summarize([cell], records)
        assert (found.environment, found.medians, found.status) == (environment, medians, OK)
    assert (found.bound, found.B) == ("", 4), "the first device's batches say nothing of the second's"
    (back,) = summarize([cell], [*first, *there, *first[1:]])
    assert (back.environment, back.medians, back.refused) == ("e", {0: 1.0, 1: 1.0}, None)


# training


def curves(updates: Mapping[int, tuple[float, ...]], losses: Mapping[int, tuple[float, ...]]) -> CellSummary:
    cell = Cell(method="m", problem=Problem(N=8, causal=True), workload=Workload.TRAIN, training=Training(task=Task.COPY))
    seconds = {seed: tuple(10.0 * seed + u for u in each) for seed, each in updates.items()}
    return CellSummary(cell, "ok", series=dict(zip(CURVE, (updates, seconds, losses), strict=True)))


def test_a_curve_is_the_median_of_the_seeds_with_their_range_without_what_is_torn_or_no_number() -> None:
    whole = curves(dict.fromkeys(range(3), (0.0, 100.0)), {0: (3.0, 1.0), 1: (3.0, 2.0), 2: (3.0, 0.5)})
    first, last = learning_curve(whole)
    assert (first.update, first.middle, first.low, first.high) == (0.0, 3.0, 3.0, 3.0)
    assert (last.update, last.seconds, last.middle, last.low, last.high) == (100.0, 110.0, 1.0, 0.5, 2.0)
    assert learning_curve(CellSummary(whole.cell, "ok")) == ()
    assert learning_curve(CellSummary(whole.cell, "crashed", series=whole.series)) == ()
    updates = {0: (0.0, 100.0), 1: (0.0, 50.0), 2: (0.0, 100.0)}
    found = learning_curve(curves(updates, {0: (3.0, 1.0), 1: (3.0, 9.0), 2: (3.0,)}))
    assert [(moment.middle, moment.high) for moment in found] == [(3.0, 3.0), (1.0, 1.0)]
    losses = {0: (3.0, math.nan, 1.0), 1: (3.0, math.inf, math.nan)}
    found = learning_curve(curves(dict.fromkeys(range(2), (0.0, 1.0, 2.0)), losses))
    assert [(moment.update, moment.middle) for moment in found] == [(0.0, 3.0), (2.0, 1.0)]


# what a history keeps, and what a run lacks to be whole


def test_a_point_holds_every_figure_of_its_cell_the_spread_of_its_times_and_the_main_counter(info_of: InfoOf) -> None:
    cell, failed, *others = (writer.cell(N=N, B=2) for N in (8, 16, 32, 64))
    records = [writer.timed(cell, [value] * 3, i) for i, value in enumerate((2.0, 4.0, 8.0))]
    records.append(writer.weighed(cell, host_rss_peak=Counter(bytes=2**20, source="VmHWM")))
    records += [writer.failed(failed, Status.OOM_HOST, "too large"), writer.failed(others[0], Status.INTERRUPTED, "SIGINT")]
    found = points(info_of([cell, failed, *others]), records)
    point, bad = found.points
    assert (point.key, point.status, point.figures["time"]) == (cell.key, "ok", 2.0)
    assert point.spread == pytest.approx(math.log(2))
    assert (point.figures["memory"], point.counter) == (2**19, "host_rss_peak (VmHWM)")
    assert (point.figures["throughput"], point.figures["host_rss_peak"]) == (0.5, 2**19)
    assert (bad.status, bad.reason, bad.figures) == ("oom_host", "too large", {})
    assert found.unfinished == 2, "cells that were not run or only interrupted have no point"
    (point,) = points(info_of([cell]), [writer.timed(cell, [2.0])]).points
    assert (point.figures["time"], point.spread, point.counter) == (1.0, None, "")
    assert "memory" not in point.figures


def test_a_run_is_whole_when_every_cell_has_all_replicates_or_a_failure(info_of: InfoOf) -> None:
    cells = [writer.cell(N=N) for N in (8, 16)]
    records = [writer.failed(cells[1]), *(writer.timed(cells[0], [1.0], i) for i in range(3))]
    assert lacks(info_of(cells, {"replicates": 3}), records) == []
    assert lacks(info_of(cells, {"replicates": 3}), records[:-1]) == ["1 cell with fewer than 3 replicates"]
    assert lacks(info_of(cells, {"replicates": 3}), records[1:]) == ["1 of 2 cells not run"]
    # a comparison goes on only with what is unclear, and is whole
    assert lacks(info_of(cells[:1], {"replicates": 20}, interleaved="x"), records[1:]) == []


# what the trials of a search come to

MOST = 2**16
OOM = Status.OOM_HOST


def trial(N: int, status: Status | None = None, method: str = "a") -> Record:
    cell = writer.cell(method, N)
    outcome = Measured(facts={"B": 1, "seconds": 0.25}) if status is None else Failed(status=status, reason=f"why at {N}")
    return writer.record(Job(cell=cell, phase=Pass.FIT, B=1), outcome)


def of_a(*records: Record, most: int = MOST) -> Limit:
    (found,) = limits([writer.cell("a", 512)], records, most)
    return found


def test_the_largest_that_fits_counts_with_what_ended_it_the_time_of_a_call_and_its_memory() -> None:
    peaks = [writer.weighed(writer.cell("a", N), host_rss_peak=Counter(bytes=N, source="VmHWM")) for N in (512, 1024)]
    trials = [trial(512), trial(2048, Status.BUDGET), trial(1024), trial(1088, OOM)]
    found = of_a(*trials, *peaks)
    assert (found.value, found.bound_at, found.finished) == (1024, 1088, True)
    assert found.bound == Failed(status=OOM, reason="why at 1088")
    assert (found.summary.cell.problem.N, found.summary.ok, found.seconds) == (1024, True, 0.25)
    assert found.summary.memory.bytes("host_rss_peak") == 1024
    failed = writer.failed(writer.cell("a", 1024), OOM, "full", phase=Pass.MEMORY)
    assert of_a(*trials, failed).summary.memory.reason == "oom_host: full"
    # a crash below a length that fits does not end the search
    found = of_a(trial(512, Status.CRASHED), *trials[2:])
    assert (found.value, found.bound_at) == (1024, 1088)


@pytest.mark.parametrize(
    ("status", "most", "value", "is_bound", "finished"),
    [
        pytest.param(None, 1024, 1024, False, True, id="it reached its limit"),
        pytest.param(None, MOST, 1024, False, False, id="it was cut"),
        pytest.param(OOM, MOST, 512, True, False, id="cut within a bracket"),
        pytest.param(Status.INTERRUPTED, MOST, 512, False, False, id="cut within a trial"),
    ],
)
def test_a_search_that_was_cut_says_so(status: Status | None, most: int, value: int, is_bound: bool, finished: bool) -> None:
    found = of_a(trial(512), trial(1024, status), most=most)
    assert (found.value, found.bound is not None, found.finished) == (value, is_bound, finished)


def test_a_refusal_ends_a_search_without_a_trial_and_a_check_or_another_s_trial_is_none() -> None:
    noted = of_a(writer.failed(writer.cell("a", 512), Status.UNSUPPORTED, "only float64"))
    assert (noted.value, noted.summary.status, noted.bound_at, noted.finished) == (0, "unsupported", None, True)
    check = writer.failed(writer.cell("a", 64), Status.INCORRECT, "off by one", phase=Pass.CHECK)
    nothing = of_a(trial(512, method="b"), check)
    assert (nothing.value, nothing.summary.status, nothing.finished) == (0, "not_run", False)
