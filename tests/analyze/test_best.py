"""Who is the best at a length, who cannot be told from it, against whom methods are held, and how much faster they are."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.best import Candidate, Contest, front, surely_beaten
from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.quantities import quantities
from attnbench.analyze.sections import Section, sections, sections_of
from attnbench.analyze.speedup import baseline, baselines, speedup, strongest_exact, without_cache
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Description
from attnbench.schema.outcome import ACCURACY, COSINE, LOSS, NEEDLE, OUTPUT_ERROR, PERPLEXITY, RUN_DIFFERENCE
from attnbench.schema.suite import Axes
from attnbench.training.reading import ANEW, STEP_BY_STEP
from tests.analyze.conftest import compared, known, writer
from tests.report.conftest import Synthetic


def winners(cells: list[CellSummary], name: str = "time") -> set[str]:
    (section,) = sections(cells, Axes(N=(1024,)))
    held = Contest.of(section, quantities(cells)[name])
    return {label for label in held.labels if held.wins(label, 1024)}


def scored(method: str, name: str, *values: float) -> CellSummary:
    return CellSummary(writer.cell(method), OK, scores={name: dict(enumerate(values))})


def test_below_five_replicates_the_best_is_whoever_overlaps_with_the_first_and_from_there_on_a_paired_test_tells() -> None:
    few = {"a": [1.0, 1.2, 1.4], "b": [1.3, 1.5, 1.6], "c": [1.5, 1.6, 1.7]}
    failed = writer.summary(cell := writer.cell("d"), [0.1], writer.failed(cell, replicate=1))
    assert winners([failed, *(writer.summary(writer.cell(name), times) for name, times in few.items())]) == {"a", "b"}
    assert winners([failed]) == set(), "nobody has a figure"
    # all three vary alike from replicate to replicate, and b is always a little behind
    noise = [1.0, 1.5, 0.8, 1.2, 2.0]
    cells = [writer.summary(writer.cell(name), [f * x for x in noise]) for name, f in (("a", 1.0), ("b", 1.05), ("c", 1.0))]
    assert winners(cells) == {"a", "c"}


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        pytest.param("time", lambda chance: chance.lognormvariate(0, 0.03), id="times"),
        pytest.param(NEEDLE, lambda chance: max(0.0, chance.gauss(0.1, 0.1)), id="scores that are sometimes nothing"),
    ],
)
def test_alike_methods_are_told_apart_in_fewer_than_one_of_ten_runs(name: str, draw: Callable[[random.Random], float]) -> None:
    chance, apart, runs = random.Random(1), 0, 60
    for _ in range(runs):
        values = {method: [draw(chance) for _ in range(6)] for method in "abcde"}
        timed = {method: writer.summary(writer.cell(method), each) for method, each in values.items()}
        cells = [timed[method] if name == "time" else scored(method, name, *each) for method, each in values.items()]
        apart += len(winners(cells, name)) < 5
    assert apart <= runs / 10


@pytest.mark.parametrize(
    ("name", "values", "best"),
    [
        pytest.param(LOSS, {"a": (0.1, 0.1), "b": (0.1, 0.2), "c": (0.3, 0.3)}, {"a", "b"}, id="losses should be small"),
        pytest.param(ACCURACY, {"a": (0.1, 0.1), "b": (0.1, 0.2), "c": (0.3, 0.3)}, {"c"}, id="accuracies large"),
        pytest.param(OUTPUT_ERROR, {"a": (0, 0), "b": (1e-9, 1e-9)}, {"a"}, id="an error of nothing beats all others"),
        # where a replicate has nothing, means are compared and never a part of the replicates
        pytest.param(NEEDLE, {"a": (0, 0, 0.3), "b": (0.2, 0.2, 0.2)}, {"a", "b"}, id="one seed of three leads nobody"),
        pytest.param(NEEDLE, {"a": (0, 0, 0), "b": (0.2, 0.3, 0.2)}, {"b"}, id="nothing at all is behind"),
        pytest.param(NEEDLE, {"a": (0, 0, 0), "b": (0, 0, 0)}, {"a", "b"}, id="nothing and nothing are alike"),
        pytest.param(RUN_DIFFERENCE, {"a": (0, 0, 1e-9), "b": (1e-10, 1e-10, 1e-10)}, {"a", "b"}, id="ranges overlap"),
        pytest.param(RUN_DIFFERENCE, {"a": (0, 0, 1e-9), "b": (1e-8, 1e-8, 1e-8)}, {"a"}, id="ranges lie apart"),
        pytest.param(PERPLEXITY, {"a": (4.7, 4.9, 5.1), "b": (10, 19, 68)}, {"a", "b"}, id="three seeds by t, as ranges are"),
        pytest.param(COSINE, {"a": (-0.5, 0.1, 0.3, 0.5, 0.7), "b": (-0.45, 0.16, 0.34, 0.55, 0.76)}, {"b"}, id="five pairs"),
        # p of b is 0.03, and needs no adjustment once c is told apart
        pytest.param(LOSS, {"a": (1,) * 5, "b": (1.02, 1.03, 1.01, 1.04, 1.005), "c": (2, 2, 2, 2, 2.1)}, {"a"}, id="by Holm"),
    ],
)
def test_scores_are_compared_in_their_own_direction(name: str, values: dict[str, tuple[float, ...]], best: set[str]) -> None:
    assert winners([scored(method, name, *each) for method, each in values.items()], name) == best


def test_bytes_are_exact_and_only_equal_ones_share_the_first_place() -> None:
    sizes = {"a": 100, "b": 100, "c": 101}
    assert winners([writer.of_size(writer.cell(method), size) for method, size in sizes.items()], "memory") == {"a", "b"}


def at(cost: float, loss: float, label: str = "m", reach: float = 0.0) -> Candidate:
    def around(value: float) -> Estimate:
        return Estimate(value, Interval(value - reach, value + reach, Spread.INTERVAL)) if reach else Estimate.exact(value)

    return Candidate(label, around(cost), around(loss))


def test_the_front_goes_from_the_cheapest_to_the_best_and_beyond_chance_an_interval_must_lie_apart() -> None:
    cheap, middle, best, beaten = at(1, 0.9), at(2, 0.5), at(9, 0.0), at(3, 0.6)
    assert front([best, beaten, cheap, middle]) == [cheap, middle, best]
    near, far, best = at(2, 0.5, reach=0.2), at(4, 0.9, reach=0.2), at(1.9, 0.45, reach=0.2)
    assert not surely_beaten(near, [near, best])
    assert surely_beaten(far, [near, far, best])
    assert surely_beaten(at(2, 0.0), [at(1, 0.0)])
    assert not surely_beaten(at(1, 0.0), [at(1, 0.0, "other")])


figures = st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0])


@settings(deadline=None)
@given(st.lists(st.builds(at, figures, figures), max_size=12))
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(candidates: list[Candidate]) -> None:
    def beats(a: Candidate, b: Candidate) -> bool:
        x, y = ((each.cost.value, each.loss.value) for each in (a, b))
        return x[0] <= y[0] and x[1] <= y[1] and x != y

    best = front(candidates)
    for candidate in candidates:
        assert any(beats(other, candidate) for other in candidates) is (candidate not in best)


# against whom methods are held

SDPA, NAIVE, RECOMPUTE, LINEAR = "softmax.sdpa", "softmax.naive", "softmax.recompute", "linear.full"
COMPILED = f"{SDPA}+compile"
LENGTHS = (512, 1024, 2048)
Times = Mapping[str, Mapping[int, float]]


def section_of(summaries: Sequence[CellSummary], named: Sequence[str] = ()) -> Section:
    (found,) = sections(summaries, Axes(N=LENGTHS))
    return compared(found, named)


def test_the_baseline_is_the_exact_kernel_of_least_time_per_sample_that_ran() -> None:
    naive, sdpa, linear = (writer.summary(writer.cell(name), [t]) for name, t in ((NAIVE, 5.0), (SDPA, 2.0), (LINEAR, 1.0)))
    broken = writer.summary(cell := writer.cell("softmax.broken"), [0.1], writer.failed(cell, replicate=1))
    assert strongest_exact(section_of([naive, sdpa, broken, linear]), 1024) is sdpa
    assert strongest_exact(section_of([linear]), 1024) is None
    few = writer.summary(writer.largest(NAIVE), [1.0], B=10)
    many = writer.summary(writer.largest(SDPA), [2.0], B=100)
    assert strongest_exact(section_of([few, many]), 1024) is many
    assert known(speedup(few, many)).value == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("searched", "seconds", "want"),
    [
        pytest.param(True, {LINEAR: 1.0, RECOMPUTE: 9.0, SDPA: 2.0}, [SDPA, RECOMPUTE], id="one without a cache is second"),
        pytest.param(True, {RECOMPUTE: 1.0, SDPA: 2.0}, [SDPA, RECOMPUTE], id="and no first, however fast"),
        pytest.param(True, {RECOMPUTE: 1.0}, [RECOMPUTE], id="unless it is the only one"),
        pytest.param(True, {LINEAR: 1.0}, [], id="without any exact one there is none"),
        pytest.param(False, {SDPA: 2.0, RECOMPUTE: 3.0}, [SDPA], id="at once there is no second"),
    ],
)
def test_in_decoding_one_without_a_cache_comes_second(searched: bool, seconds: dict[str, float], want: list[str]) -> None:
    cells = [(writer.largest if searched else writer.cell)(method) for method in seconds]
    summaries = [writer.summary(cell, [time]) for cell, time in zip(cells, seconds.values(), strict=True)]
    assert [each.cell.method for each in baselines(section_of(summaries), 1024)] == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param({COMPILED: 1.0, SDPA: 2.0, RECOMPUTE: 9.0}, [SDPA, COMPILED], id="the strongest with a cache and without"),
        pytest.param({COMPILED: 1.0, RECOMPUTE: 9.0}, [COMPILED], id="where none has a cache there is no second"),
        pytest.param({SDPA: 2.0, "lsh.reformer": 1.0}, [SDPA], id="what is not exact is no baseline"),
    ],
)
def test_a_model_generates_without_a_cache_where_its_record_says_so(seconds: dict[str, float], want: list[str]) -> None:
    cells = []
    for method, time in seconds.items():
        cell = writer.cell(method, causal=True).model_copy(update={"workload": Workload.GENERATE})
        cells.append(CellSummary(cell, OK, medians={0: time}, facts={"generation": STEP_BY_STEP if method == SDPA else ANEW}))
    assert [each.cell.method for each in baselines(section_of(cells), 1024)] == want
    assert [without_cache(cell) for cell in cells] == [method != SDPA for method in seconds]


def test_a_named_baseline_is_found_where_all_its_cells_are_compiled() -> None:
    section = section_of([writer.summary(writer.cell(method), [1.0]) for method in (COMPILED, LINEAR)], [SDPA])
    assert [each.cell.method for each in baselines(section, 1024)] == [COMPILED]


def test_what_is_called_softmax_and_computes_something_else_is_no_baseline() -> None:
    seconds = {SDPA: 3.0, "softmax.fox": 2.0, "softmax.new": 4.0, "mine:Exact": 1.0}
    cells = [writer.summary(writer.cell(method), [time]) for method, time in seconds.items()]
    say: dict[str, bool | None] = {SDPA: True, "softmax.fox": False, "mine:Exact": True, "softmax.new": None}
    run = Synthetic([]).run()
    about = {
        name: Description(method=name, tier="", paper="", causality="", summary="", version="", is_softmax=exact)
        for name, exact in say.items()
    }
    for left, best in (((), "mine:Exact"), (("mine:Exact",), SDPA), (("mine:Exact", SDPA), "softmax.new")):
        (section,) = sections_of(run.model_copy(update={"methods": about}), [s for s in cells if s.cell.method not in left])
        assert known(strongest_exact(section, 1024)).cell.method == best
    (section,) = sections_of(run, cells)
    assert known(strongest_exact(section, 1024)).cell.method == "softmax.fox", "of a run that did not ask, by its name"


def test_a_speedup_pairs_replicates_of_one_number_and_is_of_the_medians_where_none_has_a_partner() -> None:
    cell = writer.cell("b")
    base, fast = writer.summary(writer.cell("a"), [2.0, 20.0, 4.0]), writer.summary(cell, [1.0, 10.0, 1.0])
    assert speedup(base, fast) == Estimate(2.0, Interval(2.0, 4.0, Spread.BAND))
    assert speedup(base, writer.summary(cell, [], writer.timed(cell, [1.0], replicate=7))) == Estimate.exact(4.0)
    failed = writer.summary(cell)
    assert speedup(base, failed) is speedup(failed, base) is None


@pytest.mark.parametrize(
    ("times", "named", "want"),
    [
        ({SDPA: {512: 3, 1024: 3}, NAIVE: {512: 1, 1024: 4}, LINEAR: {512: 1, 1024: 1, 2048: 1}}, (), SDPA),
        ({SDPA: {512: 3, 1024: 3}, NAIVE: {512: 1, 1024: 4}}, (NAIVE,), NAIVE),
        ({LINEAR: {512: 1, 1024: 1, 2048: 1}}, (), None),
        # none is exact at the length that the most reach: the longest length of one counts
        ({SDPA: {512: 3}, "a": {512: 1, 1024: 1, 2048: 1}, "b": {1024: 1, 2048: 1}}, (), SDPA),
    ],
)
def test_the_baseline_is_named_or_the_strongest_exact_one_where_most_ran(times: Times, named: Sequence[str], want: str) -> None:
    cells = [writer.summary(writer.cell(method, N), [t]) for method, row in times.items() for N, t in row.items()]
    assert baseline(section_of(cells, named)) == want
