"""Printed figures held against those of a run: which cells they are read off, what they come to, and what is said of them."""

import math
import statistics
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.cells import NOT_RUN, OK, CellSummary, Memory
from attnbench.analyze.published import Finding, Row, entries, in_short, not_run, rows
from attnbench.analyze.published_figures import BATCH
from attnbench.analyze.quantities import quantities
from attnbench.analyze.scaling import fit_interval, slope
from attnbench.analyze.statistics import t_quantile
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.figures import OVER_LENGTHS
from attnbench.schema.outcome import Counter, Status
from attnbench.schema.problem import Problem
from attnbench.schema.published import Metric, Published
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import known

COPY = Training(task=Task.COPY)
PIXELS = Training(task=Task.PIXELS)


def published(**fields: Any) -> Published:
    return Published.model_validate({"where": "Table 1", "what": "it", "comparable": "ratio", **fields}, strict=False)


def ours(metric: str, of: str | dict[str, Any], workload: str = "forward", **sides: str | dict[str, Any]) -> dict[str, Any]:
    """As a suite writes it; a side that is a word is a method."""
    written = {name: {"method": side} if isinstance(side, str) else side for name, side in {"of": of, **sides}.items()}
    return {"metric": metric, "workload": workload, **written}


def timed(method: str, *medians: float, N: int = 512, **fields: Any) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=N, **fields.pop("problem", {})), **fields)
    return CellSummary(cell, OK, medians=dict(enumerate(medians)))


def scored(method: str, metric: str, *values: float, **fields: Any) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=64), workload=Workload.TRAIN, training=COPY, **fields)
    scores = {metric: dict(enumerate(values))}
    return CellSummary(cell, OK, medians=dict.fromkeys(range(len(values)), 1.0), scores=scores)


def searched(method: str, B: int, refused: int, bound: str = "oom_host") -> CellSummary:
    cell = timed(method, 1.0, batch=Batch.LARGEST).cell
    return CellSummary(cell, OK, medians={0: 1.0}, facts={"B": B}, bound=bound, refused=refused)


def weighed(method: str, peak: int, N: int = 512) -> CellSummary:
    memory = Memory(counters={"host_rss_peak": Counter(bytes=peak, source="s")}, replicates=1)
    return CellSummary(timed(method, 1.0, N=N).cell, OK, medians={0: 1.0}, memory=memory)


def failed(method: str, status: str = Status.OOM_HOST.value, reason: str = "memory limit reached", N: int = 512) -> CellSummary:
    return CellSummary(Cell(method=method, problem=Problem(N=N)), status, reason)


def row(each: Published, *summaries: CellSummary) -> Row:
    (found,) = rows([each], summaries)
    return found


def test_a_ratio_is_paired_by_replicate_and_its_interval_is_that_of_the_logarithms() -> None:
    fast, slow = (0.1, 0.22, 0.4), (0.2, 0.4, 0.9)
    found = known(row(published(ours=ours("throughput", "a", over="b")), timed("a", *fast), timed("b", *slow)).figure)
    logs = [math.log(s / f) for f, s in zip(fast, slow, strict=True)]
    half = t_quantile(2) * statistics.stdev(logs) / math.sqrt(3)
    assert found.value == pytest.approx(math.exp(statistics.fmean(logs)))
    assert (found.replicates, found.unit) == (3, "×")
    assert known(found.interval).low == pytest.approx(found.value * math.exp(-half))
    assert known(found.interval).high == pytest.approx(found.value * math.exp(half))


def test_a_difference_is_paired_by_replicate() -> None:
    each = published(ours=ours("loss", "a", "train", less="b"))
    found = known(row(each, scored("a", "loss", 1.0, 2.0, 3.1), scored("b", "loss", 0.9, 2.0, 2.9)).figure)
    values = [0.1, 0.0, 0.2]
    half = t_quantile(2) * statistics.stdev(values) / math.sqrt(3)
    assert found.unit == "nats"
    assert (found.value, known(found.interval).low, known(found.interval).high) == pytest.approx((0.1, 0.1 - half, 0.1 + half))


def test_pairs_are_replicates_that_both_sides_have() -> None:
    first = timed("a", 1.0, 1.0, 1.0)
    second = CellSummary(first.cell.model_copy(update={"method": "b"}), OK, medians={1: 2.0, 2: 2.0, 7: 50.0})
    found = known(row(published(ours=ours("time", "b", over="a")), first, second).figure)
    assert found.value == pytest.approx(2.0)
    assert (found.replicates, found.interval) == (2, None)
    nothing = CellSummary(second.cell, OK, medians={9: 2.0})
    assert row(published(ours=ours("time", "b", over="a")), first, nothing).why == "no replicate has numbers of both sides"


def test_rates_are_per_sample_of_the_batch_and_per_token() -> None:
    cell = timed("a", 0.5, problem={"B": 4})
    value = {name: row(published(ours=ours(name, "a")), cell).figure for name in ("time", "throughput", "tokens", "batch")}
    assert {name: (f.value, f.unit) for name, f in value.items() if f} == {
        "time": (pytest.approx(0.125), "s"),
        "throughput": (pytest.approx(8), "sequences/s"),
        "tokens": (pytest.approx(4 * 512 / 0.5), "tokens/s"),
        "batch": (4.0, "sequences"),
    }


def test_images_are_called_images_and_bits_are_of_what_they_are() -> None:
    made = timed("a", 0.5, workload=Workload.GENERATE, training=PIXELS)
    learnt = scored("a", "bits", 1.0).cell
    text = CellSummary(learnt, OK, scores={"bits": {0: 1.0}})
    image = CellSummary(learnt.model_copy(update={"training": PIXELS}), OK, scores={"bits": {0: 1.0}})
    units = [row(published(ours=ours("throughput", "a", "generate")), made).figure]
    units += [row(published(ours=ours("bits", "a", "train")), each).figure for each in (text, image)]
    assert [figure.unit for figure in units if figure] == ["images/s", "bits/byte", "bits/dim"]


def test_memory_and_batches_are_exact_and_judged_by_their_value() -> None:
    each = published(ours=ours("memory", "a", over="b"), reproduced={"at_most": 0.5})
    small, large = weighed("a", 100), weighed("b", 200)
    found = row(each, small, large)
    assert known(found.figure).value == pytest.approx(0.5)
    assert (known(found.figure).interval, found.finding) == (None, Finding.REPRODUCED)
    assert row(each, small, weighed("b", 150)).finding is Finding.NOT_REPRODUCED
    assert row(each, timed("a", 1.0), timed("b", 1.0)).why == "no memory was read in this run"


def test_growth_is_fitted_for_each_replicate_over_the_lengths_that_ran() -> None:
    cells = [timed("a", *(k * N**2 for k in (1e-9, 2e-9, 3e-9)), N=N) for N in (512, 1024, 2048)]
    found = row(published(ours=ours("growth", "a"), reproduced={"at_least": 1.8}), *cells, failed("a", N=4096))
    assert known(found.figure).value == pytest.approx(2.0)
    assert (known(found.figure).about, found.finding) == ("N = 512 to 2048", Finding.REPRODUCED)


def test_growth_is_per_sample_and_spreads_as_the_slopes_of_the_replicates_do() -> None:
    slopes, lengths = (1.9, 2.0, 2.2), (512, 1024, 2048)
    cells = [timed("a", *(N**x * 4096 / N for x in slopes), N=N, problem={"B": 4096 // N}) for N in lengths]
    found = known(row(published(ours=ours("growth", "a")), *cells).figure)
    half = t_quantile(2) * statistics.stdev(slopes) / math.sqrt(3)
    mean = statistics.fmean(slopes)
    assert (found.value, known(found.interval).low, known(found.interval).high) == pytest.approx(
        (mean, mean - half, mean + half)
    )


@pytest.mark.parametrize(
    ("peaks", "finding", "why"),
    [
        ({512: 100, 1024: 401, 2048: 1600}, Finding.REPRODUCED, ""),
        ({512: 100, 1024: 202, 2048: 400}, Finding.NOT_REPRODUCED, ""),
        # 1.85 by least squares, which lies within the bounds, and of three points that are on no line
        ({512: 100, 1024: 250, 2048: 1300}, Finding.CANNOT_TELL, "the interval reaches over a bound"),
        # 1.5, which lies outside, and the same
        ({512: 100, 1024: 230, 2048: 800}, Finding.CANNOT_TELL, "the interval reaches over a bound"),
    ],
)
def test_the_growth_of_memory_is_judged_by_the_interval_of_its_fit(peaks: dict[int, int], finding: Finding, why: str) -> None:
    each = published(ours=ours("memory_growth", "a"), reproduced={"at_least": 1.8, "at_most": 2.2})
    found = row(each, *(weighed("a", peak, N=N) for N, peak in peaks.items()))
    assert (found.finding, found.why) == (finding, why)
    assert found.figure is not None
    assert found.figure.interval == fit_interval(peaks)
    assert found.figure.value == pytest.approx(slope(peaks))
    assert found.figure.about == "N = 512 to 2048"


@pytest.mark.parametrize(("metric", "band"), [("growth", None), ("memory_growth", {"at_least": 1.8})])
def test_growth_over_two_lengths_is_none_and_what_failed_is_named(metric: str, band: dict[str, float] | None) -> None:
    each = published(ours=ours(metric, "a"), reproduced=band)
    found = row(each, weighed("a", 100), weighed("a", 400, N=1024), failed("a", N=2048))
    assert (found.figure, found.finding) == (None, Finding.CANNOT_TELL if band else Finding.NOT_RUN)
    assert found.why == "a, forward: fewer than three lengths have a figure; a at N=2048: oom_host: memory limit reached"


def test_the_longest_length_says_what_ended_the_row() -> None:
    each = published(ours=ours("longest", "a"), comparable="hardware")
    ended, free = row(each, timed("a", 1.0), failed("a", N=1024)).figure, row(each, timed("a", 1.0, N=1024)).figure
    assert ended is not None
    assert free is not None
    assert (ended.value, ended.about) == (512, "beyond it oom_host")
    assert (free.value, free.about) == (1024, "no longer one was tried")
    assert row(each, failed("a")).why == "a at N=512: oom_host: memory limit reached"


@pytest.mark.parametrize(
    ("values", "band", "finding"),
    [
        ((0.010, 0.011, 0.012), {"at_most": 0.05}, Finding.REPRODUCED),
        ((0.5, 0.51, 0.52), {"at_most": 0.05}, Finding.NOT_REPRODUCED),
        ((0.0, 0.04, 0.09), {"at_most": 0.05}, Finding.CANNOT_TELL),
        ((0.02, 0.06, 0.1), {"at_most": 0.05}, Finding.CANNOT_TELL),
        ((0.010, 0.011), {"at_most": 0.05}, Finding.CANNOT_TELL),
        ((0.98, 1.0, 1.02), {"at_least": 0.9, "at_most": 1.1}, Finding.REPRODUCED),
        ((0.0, 0.0, 0.0), {"at_least": 0}, Finding.REPRODUCED),
        ((-0.2, -0.21, -0.19), {"at_least": 0}, Finding.NOT_REPRODUCED),
        ((0.5, 0.5, 0.5), None, Finding.BESIDE),
        ((0.98, 1.0, 1.02), {"at_least": "printed"}, Finding.REPRODUCED),
        ((0.98, 1.0, 1.02), {"at_most": "printed"}, Finding.NOT_REPRODUCED),
    ],
)
def test_the_verdict_is_where_the_whole_interval_lies(
    values: tuple[float, ...], band: dict[str, float | str] | None, finding: Finding
) -> None:
    found = row(published(ours=ours("loss", "a", "train"), number=0.9, reproduced=band), scored("a", "loss", *values))
    assert found.finding is finding


@given(
    st.lists(st.floats(-10, 10), min_size=3, max_size=6),
    st.floats(-10, 10),
)
def test_an_interval_is_never_both_within_a_bound_and_beyond_it(values: list[float], bound: float) -> None:
    cell = scored("a", "loss", *values)
    bands: tuple[dict[str, float], ...] = ({"at_least": bound}, {"at_most": bound})
    least, most = (row(published(ours=ours("loss", "a", "train"), reproduced=band), cell) for band in bands)
    assert least.figure is not None
    if least.finding is most.finding is Finding.REPRODUCED:
        assert known(least.figure.interval).low == known(least.figure.interval).high == bound
    if most.finding is Finding.NOT_REPRODUCED:
        assert least.finding is Finding.REPRODUCED


@pytest.mark.parametrize(
    ("bound", "finding"),
    [(5, Finding.REPRODUCED), (5.01, Finding.CANNOT_TELL), (7.9, Finding.CANNOT_TELL), (8.1, Finding.NOT_REPRODUCED)],
)
def test_the_ratio_of_batches_that_were_searched_for_is_known_as_well_as_they_are(bound: float, finding: Finding) -> None:
    each = published(ours=ours("batch", "a", over="b"), reproduced={"at_least": bound})
    found = row(each, searched("a", 15, 16), searched("b", 2, 3))
    assert found.finding is finding
    assert found.figure is not None
    assert found.figure.value == pytest.approx(7.5)
    assert (known(found.figure.interval).low, known(found.figure.interval).high) == (5, 8)


def test_a_batch_that_time_ended_says_nothing_of_memory() -> None:
    each = published(ours=ours("batch", "a", over="b"), reproduced={"at_least": 2})
    found = row(each, searched("a", 16, 17, "budget"), searched("b", 2, 3))
    alone = known(row(published(ours=ours("batch", "a")), searched("a", 16, 17, "budget")).figure)
    assert alone.value == 16
    assert (found.finding, found.why) == (Finding.CANNOT_TELL, "a at N=512: no lack of memory ended its batch")


def test_two_replicates_give_a_value_and_no_verdict() -> None:
    found = row(published(ours=ours("loss", "a", "train"), reproduced={"at_most": 9}), scored("a", "loss", 1.0, 2.0))
    assert (found.finding, found.why) == (Finding.CANNOT_TELL, "2 of at least 3 replicates")
    assert (known(found.figure).value, known(found.figure).interval) == (1.5, None)


def test_a_failed_cell_has_its_status_and_reason_and_is_not_run_only_where_nobody_tried() -> None:
    each = published(ours=ours("throughput", "a", over="b"), reproduced={"at_least": 2}, needs="a GPU")
    found = row(each, timed("a", 1.0, 1.0, 1.0), failed("b"))
    assert (found.figure, found.finding) == (None, Finding.CANNOT_TELL), "it was tried"
    assert found.why == "b at N=512: oom_host: memory limit reached"
    beside = row(published(ours=ours("throughput", "a", over="b"), needs="a GPU"), timed("a", 1.0), failed("b"))
    assert (beside.finding, beside.why) == (Finding.NOT_RUN, found.why)
    never = row(each, timed("a", 1.0, 1.0, 1.0), failed("b", Status.MISSING.value, "pip install b"))
    assert (never.finding, never.why) == (Finding.NOT_RUN, "b at N=512: missing: pip install b")
    planned = row(each, timed("a", 1.0), failed("b", NOT_RUN, "no record of this cell yet"))
    assert planned.why == "b at N=512: no record of this cell yet"


def test_a_cell_that_the_run_does_not_have_says_what_it_would_take() -> None:
    each = published(ours=ours("time", {"method": "a", "when": "N == 4096"}))
    assert row(each, timed("a", 1.0)).why == "the run has no cell of a, forward, N == 4096"
    with_needs = each.model_copy(update={"needs": "a GPU"})
    assert row(with_needs, timed("a", 1.0)).why == "it needs a GPU"


def test_several_cells_are_named_and_nothing_is_chosen_among_them() -> None:
    cells = [timed("a", 1.0, N=N) for N in (512, 1024, 2048, 4096)]
    found = row(published(ours=ours("time", "a"), reproduced={"at_most": 1}), *cells)
    assert (found.figure, found.finding) == (None, Finding.CANNOT_TELL)
    assert found.why == "a, forward leaves 4 cells: N=512; N=1024; N=2048 and 1 more"


def test_two_cells_of_one_length_have_no_growth() -> None:
    cells = [timed("a", 1.0, N=N, problem={"causal": causal}) for N in (512, 1024, 2048) for causal in (True, False)]
    found = row(published(ours=ours("growth", "a")), *cells)
    assert found.why == "a, forward leaves 2 cells: causal=True; causal=False"
    chosen = row(published(ours=ours("growth", {"method": "a", "when": "causal"})), *cells)
    assert chosen.figure is not None


def test_what_cannot_be_decided_or_divided_is_said() -> None:
    compares = row(published(ours=ours("time", {"method": "a", "when": "rounds >= 2"})), timed("a", 1.0))
    assert (compares.finding, "'rounds >= 2' compares None with 2" in compares.why) == (Finding.CANNOT_TELL, True)
    zero = row(published(ours=ours("loss", "a", "train", over="b")), scored("a", "loss", 1.0), scored("b", "loss", 0.0))
    assert zero.why == "a loss of 0 or less has no ratio to anything"
    nothing = row(published(ours=ours("accuracy", "a", "train")), scored("a", "loss", 1.0))
    assert nothing.why == "a, train: nothing was recorded of accuracy"


def test_all_that_a_suite_may_ask_for_is_read() -> None:
    assert set(get_args(Metric)) <= {*quantities([]), *OVER_LENGTHS, BATCH}


def test_written_parameters_choose_and_others_do_not() -> None:
    cells = [timed("a", 1.0, params={"rounds": 1}), timed("a", 2.0, params={"rounds": 4, "bucket_size": 8})]
    found = known(row(published(ours=ours("time", {"method": "a", "params": {"rounds": 4}})), *cells).figure)
    assert found.value == pytest.approx(2.0)
    assert row(published(ours=ours("time", {"method": "a", "params": {"rounds": True}})), *cells).finding is Finding.NOT_RUN


GRID = {"down": {"N": [512, 1024]}, "across": {"k": [128, 256]}, "numbers": [[1.5, None], [1.75, 16]]}


def test_a_grid_is_a_row_for_each_printed_number() -> None:
    each = published(what="n = {N}, k = {k}, {other}", needs="x", grid=GRID)
    assert [(entry.what, entry.says) for entry in entries([each])] == [
        ("n = 512, k = 128, {other}", "1.5×"),
        ("n = 1024, k = 128, {other}", "1.75×"),
        ("n = 1024, k = 256, {other}", "16×"),
    ]
    assert in_short(each) == "n = 512…1024, k = 128…256, {other}"
    said = published(says="{number} %", comparable="quality", needs="x", grid=GRID)
    assert [entry.says for entry in entries([said])] == ["1.5 %", "1.75 %", "16 %"]
    assert [entry.says for entry in entries([published(number=0.5, comparable="claim", needs="x"), published(needs="x")])] == [
        "0.5",
        "n/a",
    ]


def test_a_grid_chooses_cells_by_axes_on_both_sides_and_by_parameters_where_there_are_such() -> None:
    each = published(ours=ours("throughput", "low", over="full"), grid=GRID)
    low = [timed("low", N * k * 1e-6, N=N, params={"k": k}) for N in (512, 1024) for k in (128, 256)]
    full = [timed("full", N * N * 1e-6, N=N) for N in (512, 1024)]
    found = rows([each], [*low, *full])
    assert [r.figure.value for r in found if r.figure] == [
        pytest.approx(N / k) for N, k in ((512, 128), (1024, 128), (1024, 256))
    ]
    assert rows([each], low)[0].why == "the run has no cell of full, forward, N=512"


def test_a_grid_may_choose_by_the_batch_and_the_device() -> None:
    grid = {"down": {"batch": ["fixed", "largest"]}, "across": {"device": ["cpu", "cuda"]}, "numbers": [[1, 2], [3, 4]]}
    each = published(ours=ours("batch", "a"), grid=grid)
    largest = searched("a", 37, 40)
    values = [r.figure and r.figure.value for r in rows([each], [timed("a", 1.0), largest])]
    assert values == [1.0, None, 37.0, None]


def test_without_a_run_every_row_says_why() -> None:
    written = [published(needs="a week"), published(ours=ours("time", "a"), grid=GRID)]
    assert [(r.finding, r.why) for r in not_run(written, "none given")] == [
        (Finding.NOT_RUN, "it needs a week"),
        *[(Finding.NOT_RUN, "none given")] * 3,
    ]
    assert [(r.finding, r.why) for r in rows(written[:1], [])] == [(Finding.NOT_RUN, "it needs a week")]
