"""The vocabulary: every figure is defined once, and says how its replicates come to one number."""

import math

import pytest

from attnbench.analyze.cells import OK, CellSummary, summarize
from attnbench.analyze.quantities import Quantity, Unit, main_quantity, quantities, recorded
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Job, Pass, Roof, Surroundings
from attnbench.schema.figures import FIGURES
from attnbench.schema.outcome import (
    ACCURACY,
    BITS,
    COSINE,
    ERROR_RATE,
    LOSS,
    MASS_RECALL,
    NEEDLE,
    OUTPUT_ERROR,
    STATE_SOURCE,
    TOP_OVERLAP,
    Counter,
    Failed,
    Measured,
    Outcome,
    Series,
    Status,
)
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite
from tests.analyze.conftest import Writer, known

CELL = Cell(method="m.x", problem=Problem(N=64, B=2))
COST = Cost(nominal_flops=4e9, exact_flops=2e9, executed_flops=1e9, traffic_bytes=1e8)


def scored(*replicates: float, name: str = LOSS, status: str = OK) -> CellSummary:
    return CellSummary(CELL, status, scores={name: dict(enumerate(replicates))})


def timed(*seconds: float, **more: object) -> CellSummary:
    return CellSummary(CELL, OK, medians=dict(enumerate(seconds)), **more)  # type: ignore[arg-type]


def estimate(name: str, cell: CellSummary, run: RunInfo | None = None) -> Estimate | None:
    return quantities([cell], run)[name].estimate(cell)


def info() -> RunInfo:
    roof = {"float32": Roof(flops_per_second=5e10, bytes_per_second=1e10)}
    return RunInfo(
        id="x", command="", started="", environment={}, environment_digest="e", methods={}, cells=(CELL,),
        costs={CELL.key: COST},
        suite=Suite(name="t", axes=Axes(N=(64,)), methods=(Method(name="m.x"),)),
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=1, roof=roof),
    )  # fmt: skip


def test_the_names_that_suites_may_write_are_those_of_the_vocabulary() -> None:
    assert set(quantities(())) == set(FIGURES)


@pytest.mark.parametrize("quantity", quantities(()).values(), ids=lambda quantity: quantity.name)
def test_every_figure_has_a_title_a_verb_and_a_column(quantity: Quantity) -> None:
    assert quantity.title
    assert quantity.verb.endswith((" than", " in direction than"))
    assert quantity.column.startswith(quantity.name)
    assert not quantity.meaning or quantity.meaning.endswith(".")


def test_no_two_figures_share_a_column() -> None:
    columns = [quantity.column for quantity in quantities(()).values()]
    assert len(set(columns)) == len(columns)


def test_times_have_a_median_and_an_interval_of_logarithms_from_five_replicates_on() -> None:
    few, many = estimate("time", timed(2.0, 4.0, 8.0)), estimate("time", timed(2.0, 4.0, 8.0, 4.0, 4.0))
    assert few == Estimate(2.0, Interval(1.0, 4.0, Spread.BAND))
    assert many is not None
    assert (many.value, many.interval.kind) == (2.0, Spread.INTERVAL)
    assert math.log(many.interval.high / 2) == pytest.approx(2.7764 * math.log(2) * math.sqrt(0.5 / 5), rel=1e-3)


def test_rates_are_what_is_done_over_the_median_time() -> None:
    cell = timed(2.0, 4.0)
    found = {name: estimate(name, cell, info()) for name in ("tokens", "throughput", "flops", "traffic", "roof")}
    values = {name: each.value for name, each in found.items() if each}
    # a call of two samples takes 3 s
    assert values == pytest.approx(
        {"tokens": 128 / 3, "throughput": 2 / 3, "flops": 1e9 / 3, "traffic": 1e8 / 3, "roof": 0.02 / 3}
    )
    assert found["tokens"] is not None
    assert found["tokens"].ends == pytest.approx((32.0, 64.0))


def test_work_of_a_batch_that_was_found_grows_with_it() -> None:
    cell = timed(3.0, facts={"B": 6})
    flops, roof = estimate("flops", cell, info()), estimate("roof", cell, info())
    assert flops is not None
    assert roof is not None
    assert (flops.value, roof.value) == pytest.approx((1e9, 0.02))


@pytest.mark.parametrize(
    ("name", "unit", "value", "B", "want"),
    [
        pytest.param("first_call", "s", 7.0, 1, 7.0, id="the first call"),
        pytest.param("energy", "J", 6.0, 3, 2.0, id="energy, for each sample of the batch that ran"),
        pytest.param("selection_share", "1", 0.25, 1, 0.25, id="the share of choosing"),
    ],
)
def test_what_is_recorded_beside_the_time_is_a_figure_of_its_own(
    writer: Writer, name: str, unit: str, value: float, B: int, want: float
) -> None:
    cell, time = writer.cell(), {"time": Series(unit="s", values=(1.0,))}
    samples = {**time, name: Series(unit=unit, values=(value,))}
    (with_it,) = summarize([cell], [writer.record(Job(cell=cell, B=B), Measured(samples=samples, facts={"B": B}))])
    (without,) = summarize([cell], [writer.record(Job(cell=cell), Measured(samples=time))])
    assert estimate(name, with_it) == Estimate(want, Interval(want, want, Spread.BAND))
    assert estimate(name, without) is None


@pytest.mark.parametrize(("name", "enough"), [(MASS_RECALL, 5), (LOSS, 3), (ACCURACY, 3)])
def test_scores_have_a_mean_and_its_t_interval_from_so_many_on(name: str, enough: int) -> None:
    values = [0.1 * i for i in range(1, enough + 1)]
    band, found = estimate(name, scored(*values[:-1], name=name)), estimate(name, scored(*values, name=name))
    assert band is not None
    assert band.interval == Interval(values[0], values[-2], Spread.BAND)
    assert found is not None
    assert found.value == pytest.approx(sum(values) / enough)
    t = {3: 4.302653, 5: 2.776445}[enough]
    spread = math.sqrt(sum((value - found.value) ** 2 for value in values) / (enough - 1) / enough)
    assert found.interval.kind is Spread.INTERVAL
    assert found.interval.low == pytest.approx(max(0.0, found.value - t * spread))


@pytest.mark.parametrize(
    ("name", "values", "ends"),
    [
        (MASS_RECALL, (1.0, 1.0, 1.0, 1.0, 0.5), (None, 1.0)),
        (OUTPUT_ERROR, (0.0, 0.0, 0.0, 0.0, 0.5), (0.0, None)),
        (COSINE, (-1.0, -1.0, -1.0, -1.0, 0.0), (-1.0, None)),
        (TOP_OVERLAP, (0.0, 0.0, 0.0, 0.0, 1.0), (0.0, None)),
        ("missed_mass", (1.0, 1.0, 1.0, 1.0, 0.5), (0.0, None)),
    ],
)
def test_an_interval_ends_where_the_figure_must(name: str, values: tuple[float, ...], ends: tuple[float | None, ...]) -> None:
    source = MASS_RECALL if name == "missed_mass" else name
    found = known(estimate(name, scored(*values, name=source)))
    assert all(end is None or end == got for end, got in zip(ends, found.ends, strict=True))


def test_bytes_are_read_once_and_exact_and_every_counter_has_its_name(writer: Writer) -> None:
    cell = writer.cell(B=4)
    counters = {"host_rss_peak": Counter(bytes=400, source="rss"), "torch_profiler_peak": Counter(bytes=200, source="profiler")}
    summary = writer.summary(cell, [1.0], writer.weighed(cell, 0, **counters))
    found = quantities([summary])
    assert found["memory"].estimate(summary) == found["host_rss_peak"].estimate(summary) == Estimate.exact(100.0)
    assert found["torch_profiler_peak"].estimate(summary) == Estimate.exact(50.0)
    assert (found["memory"].about, found["memory"].unit) == ("host_rss_peak", Unit.BYTES)
    assert not found["memory"].is_replicated


@pytest.mark.parametrize(("size", "ranks"), [(64, {0: 64.0}), (0, {}), (None, {})])
def test_a_counter_of_zero_or_none_has_no_rank(writer: Writer, size: int | None, ranks: dict[int, float]) -> None:
    cell = writer.cell()
    summary = writer.summary(cell, [1.0], writer.weighed(cell, state_bytes=Counter(bytes=size, source=STATE_SOURCE)))
    assert quantities([summary])["state"].ranked(summary) == ranks


def test_a_figure_that_no_cell_has_is_not_recorded(writer: Writer) -> None:
    assert set(recorded([writer.summary(writer.cell(), [1.0])])) == {"time", "tokens", "throughput"}
    assert recorded([writer.summary(writer.cell())]) == {}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        *((name, 0.25) for name in (LOSS, BITS, ERROR_RATE, OUTPUT_ERROR)),
        *((name, 4.0) for name in (ACCURACY, MASS_RECALL, COSINE, TOP_OVERLAP)),
    ],
)
def test_methods_are_ranked_by_a_loss_itself_and_by_the_inverse_of_what_should_be_much(name: str, rank: float) -> None:
    cell = scored(0.25, name=name)
    assert recorded([cell])[name].ranked(cell) == {0: rank}


@pytest.mark.parametrize("value", [0.0, -0.5])
def test_what_has_no_ratio_is_not_ranked_and_keeps_its_number(value: float) -> None:
    cell = scored(value, name=COSINE)
    assert recorded([cell])[COSINE].ranked(cell) == {}
    assert estimate(COSINE, cell) == Estimate(value, Interval(value, value, Spread.BAND))


def test_a_cell_is_not_ranked_by_those_of_its_replicates_that_have_a_ratio() -> None:
    cell = scored(0.0, 0.0, 0.3, name=NEEDLE)
    assert recorded([cell])[NEEDLE].ranked(cell) == {}
    assert known(estimate(NEEDLE, cell)).value == pytest.approx(0.1)


def test_a_failed_cell_or_one_without_the_figure_has_none() -> None:
    assert estimate(LOSS, scored(1.0, status="budget")) is None
    assert estimate(LOSS, scored(1.0, name=ACCURACY)) is None
    assert quantities([])["time"].estimate(None) is None


@pytest.mark.parametrize(
    ("workload", "name"),
    [(Workload.FORWARD, "time"), (Workload.FIDELITY, OUTPUT_ERROR), (Workload.NUMERICS, "rounding"), (Workload.TRAIN, LOSS)],
)
def test_each_workload_has_a_figure_that_methods_are_compared_by(workload: Workload, name: str) -> None:
    assert main_quantity(workload) == name


def kept(recall: float, error: float = 0.5) -> Measured:
    values = {MASS_RECALL: recall, OUTPUT_ERROR: error}
    return Measured(samples={name: Series(unit="1", values=(value,)) for name, value in values.items()})


def told(writer: Writer, *outcomes: Outcome) -> tuple[Cell, list[Record]]:
    cell = writer.cell().model_copy(update={"workload": Workload.FIDELITY})
    jobs = [Job(cell=cell, phase=Pass.FIDELITY, replicate=i) for i in range(len(outcomes))]
    return cell, [writer.record(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]


def test_a_cell_that_is_not_timed_has_scores_and_no_time(writer: Writer) -> None:
    cell, records = told(writer, kept(0.2), kept(0.6))
    (summary,) = summarize([cell], records)
    assert (summary.ok, summary.replicates, summary.samples) == (True, 2, 2)
    assert (estimate("time", summary), estimate(COSINE, summary)) == (None, None)
    assert estimate(MASS_RECALL, summary) == Estimate(0.4, Interval(0.2, 0.6, Spread.BAND))


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (Failed(status=Status.TIMEOUT, reason="no answer"), "timeout", "no answer"),
        (Measured(), "error", "the record holds no samples of mass_recall"),
        (kept(0.5, math.inf), "error", "a sample of output_error is not a finite number"),
    ],
)
def test_a_replicate_without_numbers_fails_the_cell(writer: Writer, outcome: Outcome, status: str, reason: str) -> None:
    cell, records = told(writer, kept(0.2), outcome)
    (summary,) = summarize([cell], records)
    assert (summary.status, summary.reason) == (status, reason)
    assert estimate(MASS_RECALL, summary) is None
