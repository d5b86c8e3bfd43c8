"""The vocabulary: every figure is defined once, and says how its replicates come to one number."""

import math

import pytest

from attnbench.analyze.cells import OK, CellSummary, summarize
from attnbench.analyze.quantities import Unit, main_quantity, quantities, recorded
from attnbench.analyze.roofline import placed
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Job, Pass, Roof, Surroundings
from attnbench.schema.figures import FIGURES
from attnbench.schema.outcome import STATE_SOURCE, Counter, Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.run import RunInfo
from tests.analyze.conftest import InfoOf, known, writer

CELL = Cell(method="m.x", problem=Problem(N=64, B=2))
COST = Cost(nominal_flops=4e9, exact_flops=2e9, executed_flops=1e9, traffic_bytes=1e8)
ROOF = Roof(flops_per_second=5e10, bytes_per_second=1e10)
HERE = Surroundings(device="cpu", facts={}, memory_bytes=1, roof={"float32": ROOF})


def scored(*replicates: float, name: str = "loss", status: str = OK) -> CellSummary:
    return CellSummary(CELL, status, scores={name: dict(enumerate(replicates))})


def timed(*seconds: float, **more: object) -> CellSummary:
    return CellSummary(CELL, OK, medians=dict(enumerate(seconds)), **more)  # type: ignore[arg-type]


def estimate(name: str, cell: CellSummary, run: RunInfo | None = None) -> Estimate | None:
    return quantities([cell], run)[name].estimate(cell)


@pytest.fixture
def info(info_of: InfoOf) -> RunInfo:
    """A run that knows what its cell costs and how high its roof is."""
    return info_of([CELL], costs={CELL.key: COST.model_dump()}, surroundings=HERE.model_dump())


def test_the_vocabulary_is_what_suites_may_write_and_no_two_figures_share_a_column() -> None:
    every = quantities(())
    assert set(every) == set(FIGURES)
    assert len({quantity.column for quantity in every.values()}) == len(every)
    assert {main_quantity(workload) for workload in Workload} <= set(every)


def test_rates_are_what_is_done_over_the_median_time_and_work_grows_with_a_batch_that_was_found(info: RunInfo) -> None:
    assert estimate("time", timed(2.0, 4.0, 8.0)) == Estimate(2.0, Interval(1.0, 4.0, Spread.BAND))
    # a call of two samples takes 3 s
    want = {"tokens": 128 / 3, "throughput": 2 / 3, "flops": 1e9 / 3, "traffic": 1e8 / 3, "roof": 0.02 / 3}
    found = {name: known(estimate(name, timed(2.0, 4.0), info)) for name in want}
    assert {name: each.value for name, each in found.items()} == pytest.approx(want)
    assert found["tokens"].ends == pytest.approx((32.0, 64.0))
    larger = timed(3.0, facts={"B": 6})
    assert known(estimate("flops", larger, info)).value == pytest.approx(1e9)
    assert known(estimate("roof", larger, info)).value == pytest.approx(0.02)


def test_a_cell_stands_under_the_roof_where_its_flops_and_bytes_put_it(info: RunInfo) -> None:
    found, larger = known(placed(timed(0.05), info)), known(placed(timed(0.05, facts={"B": 6}), info))
    assert (found.intensity, found.flops_per_second) == pytest.approx((10.0, 2e10))
    assert (larger.intensity, larger.flops_per_second, larger.floor_seconds) == pytest.approx((10.0, 6e10, 0.06))
    bare = HERE.model_copy(update={"roof": {}})
    assert placed(timed(0.05), info.model_copy(update={"costs": {}})) is None
    assert placed(timed(0.05), info.model_copy(update={"surroundings": bare})) is None
    assert placed(CellSummary(CELL, "oom_host"), info) is None


# energy is told for each of the three samples of the batch that ran
@pytest.mark.parametrize(("name", "want"), [("first_call", 6.0), ("energy", 2.0), ("selection_share", 6.0)])
def test_what_is_recorded_beside_the_time_is_a_figure_too(name: str, want: float) -> None:
    cell, time = writer.cell(), {"time": Series(unit="s", values=(1.0,))}
    samples = {**time, name: Series(unit="", values=(6.0,))}
    (with_it,) = summarize([cell], [writer.record(Job(cell=cell, B=3), Measured(samples=samples, facts={"B": 3}))])
    (without,) = summarize([cell], [writer.record(Job(cell=cell), Measured(samples=time))])
    zero = Measured(samples={**time, name: Series(unit="", values=(0.0,))})
    (spoilt,) = summarize([cell], [writer.record(Job(cell=cell), zero)])
    assert estimate(name, with_it) == Estimate(want, Interval(want, want, Spread.BAND))
    assert estimate(name, without) is None
    assert f"a sample of {name} is not a positive number" in spoilt.reason


@pytest.mark.parametrize(("name", "t"), [("mass_recall", 2.776445), ("loss", 4.302653), ("accuracy", 4.302653)])
def test_scores_have_a_mean_and_its_t_interval_from_five_on_or_of_trained_models_from_three(name: str, t: float) -> None:
    enough = 5 if name == "mass_recall" else 3
    values = [0.1 * i for i in range(1, enough + 1)]
    assert known(estimate(name, scored(*values[:-1], name=name))).interval == Interval(values[0], values[-2], Spread.BAND)
    found = known(estimate(name, scored(*values, name=name)))
    spread = math.sqrt(sum((value - found.value) ** 2 for value in values) / (enough - 1) / enough)
    assert found.value == pytest.approx(sum(values) / enough)
    assert found.interval.kind is Spread.INTERVAL
    assert found.interval.low == pytest.approx(max(0.0, found.value - t * spread))


@pytest.mark.parametrize(
    ("name", "most", "end"),
    [("mass_recall", 1.0, 1.0), ("output_error", 0.0, 0.0), ("cosine", -1.0, -1.0), ("missed_mass", 1.0, 0.0)],
)
def test_an_interval_ends_where_the_figure_must(name: str, most: float, end: float) -> None:
    source = "mass_recall" if name == "missed_mass" else name
    assert end in known(estimate(name, scored(*[most] * 4, 0.5, name=source))).ends


def test_bytes_are_read_once_and_exact_and_every_counter_has_its_name() -> None:
    cell = writer.cell(B=4)
    counters = {"host_rss_peak": Counter(bytes=400, source="rss"), "torch_profiler_peak": Counter(bytes=200, source="profiler")}
    summary = writer.summary(cell, [1.0], writer.weighed(cell, 0, **counters))
    found = quantities([summary])
    assert found["memory"].estimate(summary) == found["host_rss_peak"].estimate(summary) == Estimate.exact(100.0)
    assert found["torch_profiler_peak"].estimate(summary) == Estimate.exact(50.0)
    assert (found["memory"].about, found["memory"].unit) == ("host_rss_peak", Unit.BYTES)
    assert not found["memory"].is_replicated
    # a counter of zero or none has no rank
    for size, ranks in ((64, {0: 16.0}), (0, {}), (None, {})):
        state = writer.summary(cell, [1.0], writer.weighed(cell, state_bytes=Counter(bytes=size, source=STATE_SOURCE)))
        assert quantities([state])["state"].ranked(state) == ranks


def test_a_figure_that_a_cell_does_not_have_is_not_recorded() -> None:
    assert set(recorded([writer.summary(writer.cell(), [1.0])])) == {"time", "tokens", "throughput"}
    assert recorded([writer.summary(writer.cell())]) == {}
    assert estimate("loss", scored(1.0, status="budget")) is None
    assert estimate("loss", scored(1.0, name="accuracy")) is None
    assert quantities([])["time"].estimate(None) is None


@pytest.mark.parametrize(
    ("name", "values", "ranks"),
    [
        *((name, (0.25,), {0: 0.25}) for name in ("loss", "bits", "error_rate", "output_error")),
        *((name, (0.25,), {0: 4.0}) for name in ("accuracy", "mass_recall", "cosine", "top_overlap")),
        # what has no ratio is not ranked, nor a cell by those of its replicates that have one; its number stays
        *(("cosine", (value,), {}) for value in (0.0, -0.5)),
        ("needle", (0.0, 0.0, 0.3), {}),
    ],
)
def test_methods_rank_by_losses_and_inverse_scores(name: str, values: tuple[float, ...], ranks: dict[int, float]) -> None:
    cell = scored(*values, name=name)
    assert recorded([cell])[name].ranked(cell) == ranks
    assert known(estimate(name, cell)).value == pytest.approx(sum(values) / len(values))


def kept(recall: float, error: float = 0.5) -> Measured:
    values = {"mass_recall": recall, "output_error": error}
    return Measured(samples={name: Series(unit="1", values=(value,)) for name, value in values.items()})


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (kept(0.6), OK, ""),
        (Failed(status=Status.TIMEOUT, reason="no answer"), "timeout", "no answer"),
        (Measured(), "error", "the record holds no samples of output_error"),
        (kept(0.5, math.inf), "error", "a sample of output_error is not a finite number"),
    ],
)
def test_a_cell_that_is_not_timed_fails_by_a_replicate_without_numbers(outcome: Outcome, status: str, reason: str) -> None:
    cell = writer.cell().model_copy(update={"workload": Workload.FIDELITY})
    jobs = [Job(cell=cell, phase=Pass.FIDELITY, replicate=i) for i in range(2)]
    (found,) = summarize([cell], [writer.record(jobs[0], kept(0.2)), writer.record(jobs[1], outcome)])
    assert (found.status, found.reason) == (status, reason)
    assert (estimate("time", found), estimate("cosine", found)) == (None, None)
    want = Estimate(0.4, Interval(0.2, 0.6, Spread.BAND)) if found.ok else None
    assert estimate("mass_recall", found) == want
    assert not found.ok or (found.replicates, found.samples) == (2, 2)
