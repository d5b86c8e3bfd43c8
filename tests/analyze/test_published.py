"""Printed figures held against those of a run: which cells they are read off, what they come to, and what is said of them."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from attnbench.analyze.cells import NOT_RUN, OK, CellSummary, Memory
from attnbench.analyze.published import Finding, Row, entries, in_short, not_run, rows
from attnbench.analyze.published_figures import BATCH
from attnbench.analyze.quantities import quantities
from attnbench.analyze.scaling import fit_interval, slope
from attnbench.analyze.statistics import Interval, Spread
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.figures import OVER_LENGTHS
from attnbench.schema.outcome import Counter, Status
from attnbench.schema.problem import Problem
from attnbench.schema.published import Metric, Published
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import known

COPY = Training(task=Task.COPY)
PIXELS = Training(task=Task.PIXELS)
OOM = "oom_host: memory limit reached"


def published(**fields: Any) -> Published:
    return Published.model_validate({"where": "Table 1", "what": "it", "comparable": "ratio", **fields}, strict=False)


def ours(metric: str, of: str | dict[str, Any], workload: str = "forward", **sides: str | dict[str, Any]) -> dict[str, Any]:
    """As a suite writes it; a side that is a word is a method."""
    written = {name: {"method": side} if isinstance(side, str) else side for name, side in {"of": of, **sides}.items()}
    return {"metric": metric, "workload": workload, **written}


def timed(method: str, *medians: float, N: int = 512, **fields: Any) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=N, **fields.pop("problem", {})), **fields)
    return CellSummary(cell, OK, medians=dict(enumerate(medians)))


def scored(method: str, metric: str, *values: float, training: Training = COPY) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=64), workload=Workload.TRAIN, training=training)
    return CellSummary(cell, OK, medians=dict.fromkeys(range(len(values)), 1.0), scores={metric: dict(enumerate(values))})


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


def is_t_interval(interval: Interval | None, values: list[float]) -> bool:
    want = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    return (known(interval).low, known(interval).high) == pytest.approx(want)


def test_ratios_and_differences_are_paired_by_replicate() -> None:
    fast, slow = (0.1, 0.22, 0.4), (0.2, 0.4, 0.9)
    ratio = known(row(published(ours=ours("throughput", "a", over="b")), timed("a", *fast), timed("b", *slow)).figure)
    logs = [math.log(s / f) for f, s in zip(fast, slow, strict=True)]
    assert (ratio.replicates, ratio.unit) == (3, "×")
    assert ratio.value == pytest.approx(math.exp(np.mean(logs)))
    low, high = math.log(known(ratio.interval).low), math.log(known(ratio.interval).high)
    assert is_t_interval(Interval(low, high, known(ratio.interval).kind), logs)
    less = published(ours=ours("loss", "a", "train", less="b"))
    difference = known(row(less, scored("a", "loss", 1.0, 2.0, 3.1), scored("b", "loss", 0.9, 2.0, 2.9)).figure)
    assert difference.unit == "nats"
    assert difference.value == pytest.approx(0.1)
    assert is_t_interval(difference.interval, [0.1, 0.0, 0.2])
    each, first = published(ours=ours("time", "b", over="a")), timed("a", 1.0, 1.0, 1.0)
    second = CellSummary(timed("b").cell, OK, medians={1: 2.0, 2: 2.0, 7: 50.0})
    found = known(row(each, first, second).figure)
    assert (found.replicates, found.interval) == (2, None)
    assert found.value == pytest.approx(2.0)


FOUR = timed("a", 0.5, problem={"B": 4})


@pytest.mark.parametrize(
    ("metric", "workload", "cell", "value", "unit"),
    [
        ("time", "forward", FOUR, 0.125, "s"),
        ("throughput", "forward", FOUR, 8, "sequences/s"),
        ("tokens", "forward", FOUR, 4 * 512 / 0.5, "tokens/s"),
        ("batch", "forward", FOUR, 4.0, "sequences"),
        ("throughput", "generate", timed("a", 0.5, workload=Workload.GENERATE, training=PIXELS), 2, "images/s"),
        ("bits", "train", scored("a", "bits", 1.0), 1.0, "bits/byte"),
        ("bits", "train", scored("a", "bits", 1.0, training=PIXELS), 1.0, "bits/dim"),
    ],
)
def test_rates_are_per_sample_or_per_token(metric: str, workload: str, cell: CellSummary, value: float, unit: str) -> None:
    found = known(row(published(ours=ours(metric, "a", workload)), cell).figure)
    assert found.unit == unit
    assert found.value == pytest.approx(value)


def test_memory_is_exact_and_judged_by_its_value() -> None:
    each = published(ours=ours("memory", "a", over="b"), reproduced={"at_most": 0.5})
    found = row(each, weighed("a", 100), weighed("b", 200))
    assert known(found.figure).interval is None
    assert known(found.figure).value == pytest.approx(0.5)
    assert found.finding is Finding.REPRODUCED
    assert row(each, weighed("a", 100), weighed("b", 150)).finding is Finding.NOT_REPRODUCED


def test_growth_is_fitted_per_sample_for_each_replicate_over_the_lengths_that_ran() -> None:
    slopes, lengths = [1.9, 2.0, 2.2], (512, 1024, 2048)
    cells = [timed("a", *(N**x * 4096 / N for x in slopes), N=N, problem={"B": 4096 // N}) for N in lengths]
    found = row(published(ours=ours("growth", "a"), reproduced={"at_least": 1.5}), *cells, failed("a", N=4096))
    figure = known(found.figure)
    assert figure.about == "N = 512 to 2048"
    assert figure.value == pytest.approx(np.mean(slopes))
    assert is_t_interval(figure.interval, slopes)
    assert found.finding is Finding.REPRODUCED


@pytest.mark.parametrize(
    ("peaks", "finding", "why"),
    [
        ({512: 100, 1024: 401, 2048: 1600}, Finding.REPRODUCED, ""),
        ({512: 100, 1024: 202, 2048: 400}, Finding.NOT_REPRODUCED, ""),
        # 1.85 by least squares, which lies within the bounds, but of three points that are on no line
        ({512: 100, 1024: 250, 2048: 1300}, Finding.CANNOT_TELL, "the interval reaches over a bound"),
    ],
)
def test_the_growth_of_memory_is_judged_by_the_interval_of_its_fit(peaks: dict[int, int], finding: Finding, why: str) -> None:
    each = published(ours=ours("memory_growth", "a"), reproduced={"at_least": 1.8, "at_most": 2.2})
    found = row(each, *(weighed("a", peak, N=N) for N, peak in peaks.items()))
    figure = known(found.figure)
    assert (found.finding, found.why) == (finding, why)
    assert figure.interval == fit_interval(peaks)
    assert figure.value == pytest.approx(slope(peaks))
    assert figure.about == "N = 512 to 2048"
    # less another's it is known as well as both are
    two, ends = [weighed(method, peak, N=N) for N, peak in peaks.items() for method in "ab"], known(figure.interval)
    apart = known(row(published(ours=ours("memory_growth", "a", less="b")), *two).figure)
    assert known(apart.interval).high == pytest.approx(ends.high - ends.low)


def test_the_longest_length_says_what_ended_the_row() -> None:
    each = published(ours=ours("longest", "a"), comparable="hardware")
    ended, free = (known(row(each, *of).figure) for of in ((timed("a", 1.0), failed("a", N=1024)), (timed("a", 1.0, N=1024),)))
    assert (ended.value, ended.about) == (512, "beyond it oom_host")
    assert (free.value, free.about) == (1024, "no longer one was tried")


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
def test_the_verdict_goes_by_the_interval(values: tuple[float, ...], band: dict[str, Any] | None, finding: Finding) -> None:
    found = row(published(ours=ours("loss", "a", "train"), number=0.9, reproduced=band), scored("a", "loss", *values))
    assert found.finding is finding
    if len(values) == 2:
        assert (found.why, known(found.figure).interval) == ("2 of at least 3 replicates", None)


@pytest.mark.parametrize(
    ("bound", "finding"),
    [(5, Finding.REPRODUCED), (5.01, Finding.CANNOT_TELL), (7.9, Finding.CANNOT_TELL), (8.1, Finding.NOT_REPRODUCED)],
)
def test_the_ratio_of_batches_that_were_searched_for_is_known_as_well_as_they_are(bound: float, finding: Finding) -> None:
    each = published(ours=ours("batch", "a", over="b"), reproduced={"at_least": bound})
    found = row(each, searched("a", 15, 16), searched("b", 2, 3))
    figure = known(found.figure)
    assert found.finding is finding
    assert (known(figure.interval).low, known(figure.interval).high) == (5, 8)
    assert figure.value == pytest.approx(7.5)
    # a stated one is known, and the ratio is not
    stated = known(row(each, timed("a", 1.0, problem={"B": 16}), searched("b", 2, 3)).figure)
    assert (stated.exact, stated.interval) == (False, Interval(16 / 3, 8, Spread.BAND))
    # a batch that time ended says nothing of memory
    ended = row(each, searched("a", 16, 17, "budget"), searched("b", 2, 3))
    assert (ended.finding, ended.why) == (Finding.CANNOT_TELL, "a at N=512: no lack of memory ended its batch")
    assert known(row(published(ours=ours("batch", "a")), searched("a", 16, 17, "budget")).figure).value == 16


RATIO, LOSS = ours("throughput", "a", over="b"), ours("loss", "a", "train", over="b")
GROWTH, MEMORY = ours("growth", "a"), ours("memory", "a", over="b")
BAND, GPU = {"at_least": 1.8}, {"needs": "a GPU"}
LONG = {"method": "a", "when": "N == 4096"}
A, B = timed("a", 1.0, 1.0, 1.0), timed("b", 1.0)
SHORT = [weighed("a", 100), weighed("a", 400, N=1024), failed("a", N=2048)]
FEW = f"a, forward: fewer than three lengths have a figure; a at N=2048: {OOM}"
SEVERAL = [timed("a", 1.0, N=N) for N in (512, 1024, 2048, 4096)]
FOUR_CELLS = "a, forward leaves 4 cells: N=512; N=1024; N=2048 and 1 more"
MASKS = [timed("a", 1.0, N=N, problem={"causal": causal}) for N in (512, 1024, 2048) for causal in (True, False)]
ZERO = [scored("a", "loss", 1.0), scored("b", "loss", 0.0)]
MISSING, PLANNED = failed("b", Status.MISSING.value, "pip install b"), failed("b", NOT_RUN, "no record of this cell yet")
OTHER = CellSummary(B.cell, OK, medians={9: 2.0})
ELSEWHERE = CellSummary(B.cell, OK, medians={0: 1.0}, environment="another")


@pytest.mark.parametrize(
    ("asked", "cells", "finding", "why"),
    [
        # a figure that is printed without bounds is not run, and one with them cannot be told, unless nobody tried
        ({"ours": RATIO, "reproduced": BAND, **GPU}, [A, failed("b")], Finding.CANNOT_TELL, f"b at N=512: {OOM}"),
        ({"ours": RATIO, **GPU}, [A, failed("b")], Finding.NOT_RUN, f"b at N=512: {OOM}"),
        ({"ours": RATIO, "reproduced": BAND, **GPU}, [A, MISSING], Finding.NOT_RUN, "b at N=512: missing: pip install b"),
        ({"ours": RATIO, "reproduced": BAND}, [A, PLANNED], Finding.NOT_RUN, "b at N=512: no record of this cell yet"),
        ({"ours": RATIO}, [A, OTHER], Finding.CANNOT_TELL, "no replicate has numbers of both sides"),
        ({"ours": RATIO}, [A, ELSEWHERE], Finding.CANNOT_TELL, "its cells were measured on unlike devices"),
        ({"ours": MEMORY}, [A, B], Finding.NOT_RUN, "no memory was read in this run"),
        ({"ours": GROWTH}, SHORT, Finding.NOT_RUN, FEW),
        ({"ours": ours("memory_growth", "a"), "reproduced": BAND}, SHORT, Finding.CANNOT_TELL, FEW),
        ({"ours": ours("longest", "a")}, [failed("a")], Finding.NOT_RUN, f"a at N=512: {OOM}"),
        ({"ours": ours("longest", "a")}, [A, failed("a", NOT_RUN, "not yet", N=1024)], Finding.NOT_RUN, "a at N=1024: not yet"),
        ({"ours": ours("time", LONG)}, [A], Finding.NOT_RUN, "the run has no cell of a, forward, N == 4096"),
        ({"ours": ours("time", LONG), **GPU}, [A], Finding.NOT_RUN, "it needs a GPU"),
        ({"ours": LOSS, "reproduced": BAND}, ZERO, Finding.CANNOT_TELL, "a loss of 0 or less has no ratio to anything"),
        ({"ours": ours("accuracy", "a", "train")}, ZERO[:1], Finding.NOT_RUN, "a, training: nothing was recorded of accuracy"),
        # of several cells none is chosen
        ({"ours": GROWTH}, MASKS, Finding.CANNOT_TELL, "a, forward leaves 2 cells: causal=True; causal=False"),
        ({"ours": ours("time", "a")}, SEVERAL, Finding.CANNOT_TELL, FOUR_CELLS),
    ],
)
def test_of_no_figure_it_is_said_why(asked: dict[str, Any], cells: list[CellSummary], finding: Finding, why: str) -> None:
    found = row(published(**asked), *cells)
    assert (found.figure, found.finding, found.why) == (None, finding, why)


def test_parameters_and_conditions_that_are_written_choose_cells() -> None:
    assert row(published(ours=ours("growth", {"method": "a", "when": "causal"})), *MASKS).figure is not None
    undecided = row(published(ours=ours("time", {"method": "a", "when": "rounds >= 2"})), timed("a", 1.0))
    assert (undecided.finding, "'rounds >= 2' compares None with 2" in undecided.why) == (Finding.CANNOT_TELL, True)
    cells = [timed("a", 1.0, params={"rounds": 1}), timed("a", 2.0, params={"rounds": 4, "bucket_size": 8})]
    found = known(row(published(ours=ours("time", {"method": "a", "params": {"rounds": 4}})), *cells).figure)
    assert found.value == pytest.approx(2.0)
    assert row(published(ours=ours("time", {"method": "a", "params": {"rounds": True}})), *cells).finding is Finding.NOT_RUN
    assert set(get_args(Metric)) <= {*quantities([]), *OVER_LENGTHS, BATCH}, "all that a suite may ask for is read"


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
    plain = [published(number=0.5, comparable="claim", needs="x"), published(needs="x")]
    assert [entry.says for entry in entries(plain)] == ["0.5", "n/a"]


def test_a_grid_chooses_cells_by_axes_on_both_sides_and_by_parameters_where_there_are_such() -> None:
    each = published(ours=ours("throughput", "low", over="full"), grid=GRID)
    low = [timed("low", N * k * 1e-6, N=N, params={"k": k}) for N in (512, 1024) for k in (128, 256)]
    full = [timed("full", N * N * 1e-6, N=N) for N in (512, 1024)]
    values = [known(found.figure).value for found in rows([each], [*low, *full])]
    assert values == pytest.approx([N / k for N, k in ((512, 128), (1024, 128), (1024, 256))])
    assert rows([each], low)[0].why == "the run has no cell of full, forward, N=512"
    grid = {"down": {"batch": ["fixed", "largest"]}, "across": {"device": ["cpu", "cuda"]}, "numbers": [[1, 2], [3, 4]]}
    found = rows([published(ours=ours("batch", "a"), grid=grid)], [timed("a", 1.0), searched("a", 37, 40)])
    assert [each.figure and each.figure.value for each in found] == [1.0, None, 37.0, None]


def test_without_a_run_every_row_says_why() -> None:
    written = [published(needs="a week"), published(ours=ours("time", "a"), grid=GRID)]
    needed = (Finding.NOT_RUN, "it needs a week")
    assert [(r.finding, r.why) for r in not_run(written, "none given")] == [needed, *[(Finding.NOT_RUN, "none given")] * 3]
    assert [(r.finding, r.why) for r in rows(written[:1], [])] == [needed]
