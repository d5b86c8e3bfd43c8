"""Where two methods change places, what may be said of it, and that the interval covers the truth as often as it says."""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.crossover import (
    NO_FIGURE,
    NOT_PLANNED,
    Crossing,
    Crossover,
    Lead,
    Values,
    Versus,
    crossover,
)
from attnbench.analyze.quantities import recorded
from attnbench.analyze.sections import Section, sections
from attnbench.schema.outcome import NEEDLE, Counter, Status
from attnbench.schema.suite import Axes
from tests.analyze.conftest import Writer, known

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
    assert found.length == pytest.approx(truth, rel=1e-6)
    assert found.gained
    assert found.bracket[0] <= truth * (1 + 1e-9)
    assert truth <= found.bracket[1] * (1 + 1e-9)


def test_without_noise_the_interval_is_the_point() -> None:
    found = only(crossover(exact(linear), exact(quadratic(3000))))
    assert (known(found.interval).low, found.length, known(found.interval).high) == pytest.approx((3000, 3000, 3000))
    assert found.bracket == (2048, 4096)
    assert found.reach == pytest.approx(1.0)


@given(st.integers(0, 10**6))
def test_changing_sides_changes_nothing_but_who_gains(seed: int) -> None:
    source = random.Random(seed)
    a, b = noisy(linear, 5, source), noisy(quadratic(3000), 5, source)
    one, other = crossover(a, b), crossover(b, a)
    assert [c.length for c in one.crossings] == pytest.approx([c.length for c in other.crossings])
    assert [c.reach for c in one.crossings] == pytest.approx([c.reach for c in other.crossings])
    assert [not c.gained for c in one.crossings] == [c.gained for c in other.crossings]


def test_who_leads_everywhere_has_no_crossing_but_one_stretch_and_who_stays_behind_has_neither() -> None:
    fast, slow = exact(lambda N: 0.9 * linear(N)), exact(linear)
    ahead, behind = crossover(fast, slow), crossover(slow, fast)
    assert (ahead.crossings, ahead.stretches, set(ahead.leads.values())) == ((), [(None, None)], {Lead.OF})
    assert (behind.crossings, behind.stretches, behind.told) == ((), [], LENGTHS)


def test_every_change_of_places_is_told() -> None:
    found = table({N: [ratio] * 5 for N, ratio in zip(LENGTHS, (2, 0.5, 0.5, 2, 2, 0.5, 2, 0.5), strict=True)})
    assert [c.gained for c in found.crossings] == [True, False, True, False, True]
    first, second, third = found.stretches
    assert first == found.crossings[:2]
    assert second == found.crossings[2:4]
    assert third == (found.crossings[4], None)
    assert found.crossings[0].length == pytest.approx(math.sqrt(512 * 1024))


def test_a_stretch_that_begins_at_the_shortest_length_has_no_start() -> None:
    found = table({512: [0.5] * 5, 1024: [2.0] * 5, 2048: [2.0] * 5})
    assert found.stretches == [(None, only(found))]


def test_lengths_that_only_one_has_are_not_compared() -> None:
    found = crossover(exact(linear), exact(quadratic(3000), lengths=LENGTHS[:5]))
    assert found.lengths == LENGTHS[:5]
    assert crossover(exact(linear), {}) == Crossover({}, (), 0)


def test_replicates_are_paired_by_number_and_those_without_a_partner_do_not_count() -> None:
    of = {N: {0: 1.0, 1: 9.0, 2: 1.0} for N in (512, 1024)}
    found = crossover(of, {512: {0: 0.5, 2: 0.5}, 1024: {0: 2.0, 2: 2.0, 7: 1e9}})
    assert found.replicates == 2
    assert only(found).length == pytest.approx(math.sqrt(512 * 1024))
    assert crossover({512: {0: 1.0}}, {512: {1: 1.0}}).lengths == ()


def test_a_value_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"math domain|expected a positive"):
        crossover({512: {0: 0.0}}, {512: {0: 1.0}})


@pytest.mark.parametrize("replicates", [1, 2, 4])
def test_below_five_replicates_there_is_a_bracket_and_no_interval(replicates: int) -> None:
    found = only(crossover(exact(linear, replicates), exact(quadratic(3000), replicates)))
    assert (found.bracket, found.interval) == ((2048, 4096), None)
    assert found.reach == pytest.approx(math.sqrt(2))


def test_in_a_first_look_who_leads_is_told_only_where_all_replicates_agree() -> None:
    found = table({512: [1.5, 1.2, 1.1], 1024: [0.9, 1.3, 0.8], 2048: [1.0, 0.9, 0.9], 4096: [0.9, 0.5, 0.7]})
    assert list(found.leads.values()) == [Lead.OVER, Lead.TIE, Lead.TIE, Lead.OF]
    assert only(found).bracket == (512, 4096)
    assert found.ties == ()


def test_from_five_replicates_on_chance_decides_who_leads() -> None:
    found = table({512: [1.01, 1.3, 1.2, 1.1, 0.99], 1024: [1.1, 1.2, 1.1, 1.2, 1.1], 2048: [1.1, 0.9, 1.05, 0.95, 1.0]})
    assert list(found.leads.values()) == [Lead.TIE, Lead.OVER, Lead.TIE]
    assert found.ties == (512, 2048)
    assert found.crossings == ()


def test_a_tie_between_different_leads_lies_in_the_bracket_and_the_interval_may_reach_over_it() -> None:
    spread = [1.1, 0.9, 1.05, 0.95, 1.02]
    found = table({512: [2 * s for s in spread], 1024: spread, 2048: [s / 2 for s in spread]})
    crossing = only(found)
    assert crossing.bracket == (512, 2048)
    assert 512 < known(crossing.interval).low < 1024 < known(crossing.interval).high < 2048


def test_where_the_mean_turns_three_times_the_middle_turn_counts() -> None:
    wide = [4.0, 0.25, 3.0, 0.3, 1.0]
    found = table(
        {512: [2.0] * 5, 1024: [0.98 * w for w in wide], 2048: [1.3 * w for w in wide], 4096: [0.5] * 5}
    )  # fmt: skip
    crossing = only(found)
    assert crossing.bracket == (512, 4096)
    low, high = (statistics.fmean(math.log(factor * w) for w in wide) for factor in (0.98, 1.3))
    assert crossing.length == pytest.approx(1024 * 2 ** (low / (low - high)))


def test_one_length_with_fewer_replicates_takes_the_interval_from_its_crossing_only() -> None:
    ratios = {512: [2.0] * 5, 1024: [0.5] * 3, 2048: [0.5] * 5, 4096: [2.0] * 5}
    first, second = table(ratios).crossings
    assert first.interval is None
    assert second.interval is not None


def test_methods_that_are_alike_rarely_seem_to_change_places() -> None:
    found = [crossover(noisy(linear, 5, random.Random(i)), noisy(linear, 5, random.Random(-i - 1))) for i in range(300)]
    assert sum(bool(f.told) for f in found) <= 0.09 * len(found)
    assert sum(bool(f.crossings) for f in found) <= 0.02 * len(found)


# Coverage: the truth is known, and the same seeds give the same answer every time.


def covers(truth: float, replicates: int, source: random.Random, together: float = 0.0) -> bool:
    """Whether one run's interval holds the truth; `together`: noise of a replicate that all its lengths share."""
    shared = [math.exp(source.gauss(0, together)) for _ in range(replicates)]
    of = {N: {r: v * shared[r] for r, v in values.items()} for N, values in noisy(linear, replicates, source).items()}
    crossings = crossover(of, noisy(quadratic(truth), replicates, source)).crossings
    return any(c.interval and c.interval.low <= truth <= c.interval.high for c in crossings)


def share(trials: int, replicates: int, together: float = 0.0) -> float:
    source = random.Random(f"{trials}/{replicates}/{together}")
    # anywhere between the second and the seventh length, and sometimes at one that was measured
    truths = [source.choice((2048.0, 2 ** source.uniform(10, 15))) for _ in range(trials)]
    return statistics.fmean(covers(truth, replicates, source, together) for truth in truths)


@pytest.mark.parametrize("replicates", [5, 10])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(replicates: int) -> None:
    # 95 % of 300, and three standard errors each way
    assert 0.912 <= share(300, replicates) <= 0.988


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [5, 10, 20])
@pytest.mark.parametrize("together", [0.0, 0.03])
def test_the_interval_covers_the_truth_in_95_of_100_cases(replicates: int, together: float) -> None:
    found = share(10_000, replicates, together)
    assert 0.94 <= found <= 0.96


THREE = (512, 1024, 2048)


def section(summaries: Sequence[CellSummary]) -> Section:
    (found,) = sections(summaries, Axes(N=THREE))
    return found


def test_lengths_without_a_figure_of_both_are_told_with_their_statuses(writer: Writer) -> None:
    dense = [writer.cell("softmax.naive", N) for N in THREE]
    fast = [writer.cell("linear.full", N) for N in THREE[:2]]
    cells = [
        writer.summary(dense[0], [1.0]),
        writer.summary(dense[1], (), writer.failed(dense[1], Status.OOM_HOST)),
        writer.summary(dense[2], (), writer.failed(dense[2], Status.OOM_HOST)),
        *(writer.summary(cell, [0.5]) for cell in fast),
    ]
    versus = Versus(section(cells), "linear.full", "softmax.naive", recorded(cells)["time"])
    assert versus.crossover.lengths == (512,)
    assert versus.gaps == {1024: ("", "oom_host"), 2048: (NOT_PLANNED, "oom_host")}
    assert len(versus.cells) == 5


def test_a_cell_that_ran_but_whose_counter_was_not_read_says_so(writer: Writer) -> None:
    cells = [
        writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=Counter(bytes=size, source="VmHWM")))
        for cell, size in ((writer.cell("a"), 10), (writer.cell("b"), None))
    ]
    versus = Versus(section(cells), "a", "b", recorded(cells)["memory"])
    assert versus.gaps == {1024: ("", NO_FIGURE)}


def test_a_length_at_which_a_replicate_has_nothing_is_not_told(writer: Writer) -> None:
    found = {512: {"a": (0.0, 0.0, 0.3), "b": (0.2, 0.2, 0.2)}, 1024: {"a": (0.4, 0.5, 0.4), "b": (0.2, 0.2, 0.2)}}
    cells = [
        CellSummary(writer.cell(name, N), OK, scores={NEEDLE: dict(enumerate(values))})
        for N, each in found.items()
        for name, values in each.items()
    ]
    versus = Versus(section(cells), "a", "b", recorded(cells)[NEEDLE])
    assert versus.crossover.leads == {1024: Lead.OF}
    assert versus.gaps == {512: (NO_FIGURE, "")}


@pytest.mark.parametrize("batches", [(1, 8), (8, 1)])
def test_methods_that_ran_with_different_batches_are_compared_per_sample(writer: Writer, batches: tuple[int, int]) -> None:
    cells = [
        writer.summary(writer.cell(name, N, B=B), [B * seconds] * 5)
        for name, B, seconds in (("a", batches[0], 1.0), ("b", batches[1], 2.0))
        for N in THREE
    ]
    versus = Versus(section(cells), "a", "b", recorded(cells)["time"])
    assert {lead.value for lead in versus.crossover.leads.values()} == {"of"}
