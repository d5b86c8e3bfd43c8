"""Over the lengths: where two methods change places, how often its interval covers the truth, and how a figure grows."""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.crossover import NO_FIGURE, NO_RATIO, NOT_PLANNED, Crossing, Crossover, Lead, Values, Versus, crossover
from attnbench.analyze.quantities import quantities, recorded
from attnbench.analyze.scaling import Exponent, exponent, fit_interval, slope
from attnbench.analyze.sections import sections
from attnbench.schema.outcome import NEEDLE, Status
from attnbench.schema.suite import Axes
from tests.analyze.conftest import known, writer

LENGTHS = tuple(2**i for i in range(9, 17))
Law = Callable[[int], float]


def exact(law: Law, replicates: int = 5, lengths: Sequence[int] = LENGTHS) -> Values:
    return {N: dict.fromkeys(range(replicates), law(N)) for N in lengths}


def noisy(law: Law, replicates: int, source: random.Random, noise: float = 0.03) -> Values:
    """Each process is off by a factor of its own."""
    return {N: {r: law(N) * math.exp(source.gauss(0, noise)) for r in range(replicates)} for N in LENGTHS}


def linear(N: int) -> float:
    return 1e-6 * N


def quadratic(crossing: float) -> Law:
    return lambda N: 1e-6 * N * N / crossing


def table(ratios: Mapping[int, Sequence[float]]) -> Crossover:
    """By length, the ratios of the replicates."""
    of = {N: dict(enumerate(values)) for N, values in ratios.items()}
    return crossover(of, {N: dict.fromkeys(values, 1.0) for N, values in of.items()})


def only(found: Crossover) -> Crossing:
    (crossing,) = found.crossings
    return crossing


@given(st.floats(600, 60_000), st.floats(0.2, 2), st.floats(1e-9, 1e3))
def test_of_two_power_laws_the_crossing_is_found_wherever_it_lies(truth: float, steeper: float, scale: float) -> None:
    found = only(crossover(exact(lambda N: scale * N), exact(lambda N: scale * N * (N / truth) ** steeper)))
    interval, (low, high) = known(found.interval), found.bracket
    # without noise the interval is the point
    assert [interval.low, found.length, interval.high] == pytest.approx([truth] * 3, rel=1e-6)
    assert low * (1 - 1e-9) <= truth <= high * (1 + 1e-9)
    assert found.gained
    assert found.reach == pytest.approx(1.0)


@given(st.integers(0, 10**6))
def test_changing_sides_changes_nothing_but_who_gains(seed: int) -> None:
    source = random.Random(seed)
    a, b = noisy(linear, 5, source), noisy(quadratic(3000), 5, source)
    one, other = crossover(a, b), crossover(b, a)
    assert [c.length for c in one.crossings] == pytest.approx([c.length for c in other.crossings])
    assert [c.reach for c in one.crossings] == pytest.approx([c.reach for c in other.crossings])
    assert [not c.gained for c in one.crossings] == [c.gained for c in other.crossings]


def test_every_change_of_places_is_told_and_each_stretch_in_the_lead() -> None:
    fast, slow = exact(lambda N: 0.9 * linear(N)), exact(linear)
    ahead, behind = crossover(fast, slow), crossover(slow, fast)
    assert (ahead.crossings, ahead.stretches, set(ahead.leads.values())) == ((), [(None, None)], {Lead.OF})
    assert (behind.crossings, behind.stretches, behind.told) == ((), [], LENGTHS)
    found = table({N: [ratio] * 5 for N, ratio in zip(LENGTHS, (2, 0.5, 0.5, 2, 2, 0.5, 2, 0.5), strict=True)})
    assert [c.gained for c in found.crossings] == [True, False, True, False, True]
    assert found.stretches == [found.crossings[:2], found.crossings[2:4], (found.crossings[4], None)]
    assert found.crossings[0].length == pytest.approx(math.sqrt(512 * 1024))
    # a stretch that begins at the shortest length has no start
    found = table({512: [0.5] * 5, 1024: [2.0] * 5, 2048: [2.0] * 5})
    assert found.stretches == [(None, only(found))]


def test_lengths_and_replicates_that_only_one_has_are_not_compared() -> None:
    found = crossover(exact(linear), exact(quadratic(3000), lengths=LENGTHS[:5]))
    assert found.lengths == LENGTHS[:5]
    assert crossover(exact(linear), {}) == Crossover({}, (), 0)
    of = {N: {0: 1.0, 1: 9.0, 2: 1.0} for N in (512, 1024)}
    found = crossover(of, {512: {0: 0.5, 2: 0.5}, 1024: {0: 2.0, 2: 2.0, 7: 1e9}})
    assert found.replicates == 2
    assert only(found).length == pytest.approx(math.sqrt(512 * 1024))
    assert crossover({512: {0: 1.0}}, {512: {1: 1.0}}).lengths == ()
    with pytest.raises(ValueError, match=r"math domain|expected a positive"):
        crossover({512: {0: 0.0}}, {512: {0: 1.0}})


@pytest.mark.parametrize("replicates", [1, 2, 4])
def test_below_five_replicates_there_is_a_bracket_and_no_interval(replicates: int) -> None:
    found = only(crossover(exact(linear, replicates), exact(quadratic(3000), replicates)))
    assert (found.bracket, found.interval) == ((2048, 4096), None)
    assert found.reach == pytest.approx(math.sqrt(2))
    # one length with fewer takes the interval from its own crossing only
    first, second = table({512: [2.0] * 5, 1024: [0.5] * replicates, 2048: [0.5] * 5, 4096: [2.0] * 5}).crossings
    assert (first.interval is None, second.interval is None) == (True, False)


def test_who_leads_is_told_where_a_few_replicates_all_agree_and_from_five_on_by_chance() -> None:
    few = table({512: [1.5, 1.2, 1.1], 1024: [0.9, 1.3, 0.8], 2048: [1.0, 0.9, 0.9], 4096: [0.9, 0.5, 0.7]})
    assert list(few.leads.values()) == [Lead.OVER, Lead.TIE, Lead.TIE, Lead.OF]
    assert (only(few).bracket, few.ties) == ((512, 4096), ())
    many = table({512: [1.01, 1.3, 1.2, 1.1, 0.99], 1024: [1.1, 1.2, 1.1, 1.2, 1.1], 2048: [1.1, 0.9, 1.05, 0.95, 1.0]})
    assert list(many.leads.values()) == [Lead.TIE, Lead.OVER, Lead.TIE]
    assert (many.crossings, many.ties) == ((), (512, 2048))


def test_a_tie_between_different_leads_lies_in_the_bracket_and_of_three_turns_the_middle_one_counts() -> None:
    spread = [1.1, 0.9, 1.05, 0.95, 1.02]
    crossing = only(table({512: [2 * s for s in spread], 1024: spread, 2048: [s / 2 for s in spread]}))
    assert crossing.bracket == (512, 2048)
    assert 512 < known(crossing.interval).low < 1024 < known(crossing.interval).high < 2048
    wide = [4.0, 0.25, 3.0, 0.3, 1.0]
    crossing = only(table({512: [2.0] * 5, 1024: [0.98 * w for w in wide], 2048: [1.3 * w for w in wide], 4096: [0.5] * 5}))
    assert crossing.bracket == (512, 4096)
    low, high = (statistics.fmean(math.log(factor * w) for w in wide) for factor in (0.98, 1.3))
    assert crossing.length == pytest.approx(1024 * 2 ** (low / (low - high)))


def test_methods_that_are_alike_rarely_seem_to_change_places() -> None:
    found = [crossover(noisy(linear, 5, random.Random(i)), noisy(linear, 5, random.Random(-i - 1))) for i in range(300)]
    assert sum(bool(f.told) for f in found) <= 0.09 * len(found)
    assert sum(bool(f.crossings) for f in found) <= 0.02 * len(found)


# Coverage: the truth is known, and the same seeds give the same answer every time.


def covers(truth: float, replicates: int, source: random.Random, together: float) -> bool:
    """Whether one run's interval holds the truth; `together`: noise of a replicate that all its lengths share."""
    shared = [math.exp(source.gauss(0, together)) for _ in range(replicates)]
    of = {N: {r: v * shared[r] for r, v in values.items()} for N, values in noisy(linear, replicates, source).items()}
    crossings = crossover(of, noisy(quadratic(truth), replicates, source)).crossings
    return any(c.interval and c.interval.low <= truth <= c.interval.high for c in crossings)


def share(trials: int, replicates: int, together: float) -> float:
    source = random.Random(f"{trials}/{replicates}/{together}")
    # anywhere between the second and the seventh length, and sometimes at one that was measured
    truths = [source.choice((2048.0, 2 ** source.uniform(10, 15))) for _ in range(trials)]
    return statistics.fmean(covers(truth, replicates, source, together) for truth in truths)


@pytest.mark.parametrize(
    ("trials", "replicates", "together", "room"),
    [
        # three standard errors each way
        *((300, replicates, 0.0, 0.038) for replicates in (5, 10)),
        *(pytest.param(10_000, n, noise, 0.01, marks=pytest.mark.slow) for n in (5, 10, 20) for noise in (0.0, 0.03)),
    ],
)
def test_the_interval_covers_the_truth_in_95_of_100_cases(trials: int, replicates: int, together: float, room: float) -> None:
    assert share(trials, replicates, together) == pytest.approx(0.95, abs=room)


THREE = (512, 1024, 2048)


def versus(cells: Sequence[CellSummary], of: str = "a", over: str = "b", quantity: str = "time") -> Versus:
    (section,) = sections(cells, Axes(N=THREE))
    return Versus(section, of, over, recorded(cells)[quantity])


def test_lengths_without_a_figure_of_both_are_told_with_their_statuses() -> None:
    dense = [writer.cell("b", N) for N in THREE]
    failed = [writer.summary(cell, (), writer.failed(cell, Status.OOM_HOST)) for cell in dense[1:]]
    ran = [writer.summary(cell, [1.0]) for cell in (dense[0], *(writer.cell("a", N) for N in THREE[:2]))]
    found = versus([*ran, *failed])
    assert (found.crossover.lengths, found.gaps) == ((512,), {1024: ("", "oom_host"), 2048: (NOT_PLANNED, "oom_host")})
    assert len(found.cells) == 5


def test_a_cell_that_ran_but_has_no_counter_or_a_replicate_of_nothing_says_so() -> None:
    cells = [writer.of_size(writer.cell(method), size) for method, size in (("a", 10), ("b", None))]
    assert versus(cells, quantity="memory").gaps == {1024: ("", NO_FIGURE)}
    scores = {(512, "a"): (0, 0, 0.3), (512, "b"): (0.2, 0.2, 0.2), (1024, "a"): (0.4, 0.5, 0.4), (1024, "b"): (0.2, 0.2, 0.2)}
    cells = [CellSummary(writer.cell(m, N), OK, scores={NEEDLE: dict(enumerate(each))}) for (N, m), each in scores.items()]
    found = versus(cells, quantity=NEEDLE)
    assert (found.crossover.leads, found.gaps) == ({1024: Lead.OF}, {512: (NO_RATIO, "")})


def test_methods_that_ran_with_different_batches_are_compared_per_sample() -> None:
    for few, many in ((1, 8), (8, 1)):
        sides = (("a", few, 1.0), ("b", many, 2.0))
        cells = [writer.summary(writer.cell(name, N, B=B), [B * seconds] * 5) for name, B, seconds in sides for N in THREE]
        assert {lead.value for lead in versus(cells).crossover.leads.values()} == {"of"}


# how a figure grows


def series(seconds: Callable[[int], float], lengths: Sequence[int] = LENGTHS, tokens: int = 1) -> list[CellSummary]:
    """A method whose call of B = tokens // N samples takes B times `seconds`."""
    cells = [writer.cell(N=N, B=max(1, tokens // N)) for N in lengths]
    return [writer.summary(cell, [cell.problem.B * seconds(cell.problem.N)]) for cell in cells]


def growth(cells: Sequence[CellSummary], name: str = "time") -> Exponent | None:
    return exponent(cells, quantities(cells)[name])


def test_the_upper_half_of_the_lengths_that_ran_counts_from_three_on() -> None:
    fit = known(growth(series(lambda N: 1e-3 if N < 8192 else 1e-3 * N / 8192)))
    assert fit.lengths == (8192, 16384, 32768, 65536)
    assert fit.value == pytest.approx(1.0)
    assert known(growth(series(lambda N: 1e-9 * N**2, tokens=65536))).value == pytest.approx(2.0)
    assert growth(series(float, LENGTHS[:3])) is not None
    assert growth(series(float, LENGTHS[:2])) is None
    assert growth([]) is None
    bad = [writer.summary(cell := writer.cell(N=N), [1e9], writer.failed(cell, replicate=1)) for N in LENGTHS[4:]]
    fit = known(growth([*series(float, LENGTHS[:4]), *bad]))
    assert fit.lengths == LENGTHS[1:4]
    assert fit.value == pytest.approx(1.0)


def test_intervals_are_those_of_the_replicates_slopes_or_of_least_squares() -> None:
    powers = (1.0, 1.1, 1.2, 1.3, 1.4)
    few, enough = ([writer.summary(writer.cell(N=N), [N**p for p in powers[:n]]) for N in LENGTHS] for n in (4, 5))
    assert known(growth(few)).interval is None
    interval = known(known(growth(enough)).interval)
    assert (interval.low, interval.high) == pytest.approx(stats.t.interval(0.95, 4, loc=1.2, scale=stats.sem(powers)))
    rng = np.random.default_rng(0)
    points = {N: N**1.5 * math.exp(error) for N, error in zip(LENGTHS, rng.normal(0, 0.1, len(LENGTHS)), strict=True)}
    fit = stats.linregress([math.log(N) for N in points], [math.log(y) for y in points.values()])
    half = stats.t.ppf(0.975, len(points) - 2) * fit.stderr
    found = fit_interval(points)
    assert (found.low, found.high) == pytest.approx((fit.slope - half, fit.slope + half))
    exact = fit_interval({N: N**2 for N in LENGTHS[:3]})
    assert (exact.low, exact.high) == pytest.approx((2, 2))
    assert slope(points) == pytest.approx(fit.slope)


def test_memory_grows_by_its_counter_from_zero_bytes_but_not_across_them() -> None:
    sizes = {LENGTHS[0]: 0} | {N: N**2 for N in LENGTHS[1:4]}
    cells = [writer.of_size(writer.cell(N=N), size) for N, size in sizes.items()]
    fit = known(growth(cells, "memory"))
    assert (fit.interval, fit.lengths) == (None, LENGTHS[1:4])
    assert fit.value == pytest.approx(2.0)
    assert growth(cells[:3], "memory") is None
    assert growth([*cells, writer.of_size(writer.cell(N=LENGTHS[4]), 0)], "memory") is None
