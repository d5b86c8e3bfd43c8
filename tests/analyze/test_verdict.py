import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.statistics import Interval, Spread, t_quantile
from attnbench.analyze.verdict import Ratio, Verdict, adjusted, judge, ratio, resolution
from tests.analyze.conftest import known


def found(value: float, p: float, half: float = 0.01) -> Ratio:
    return Ratio(value, Interval(value * (1 - half), value * (1 + half), Spread.INTERVAL), p, paired=True, replicates=10)


def test_a_verdict_needs_both_a_small_p_and_an_effect_beyond_the_margin() -> None:
    ratios = [found(1.2, 1e-6), found(0.8, 1e-6), found(1.03, 1e-6), found(1.2, 0.5, half=0.3)]
    assert judge(ratios, margin=0.05) == [Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR]


def test_a_sure_but_small_effect_whose_interval_leaves_the_margin_is_unclear() -> None:
    assert judge([found(1.045, 1e-6)], margin=0.05) == [Verdict.UNCLEAR]


def test_the_margin_reaches_as_far_down_as_up() -> None:
    assert judge([found(1 / 1.06, 1e-9), found(1 / 1.04, 1e-9, 0.005)], margin=0.05) == [Verdict.FASTER, Verdict.SAME]


def test_without_an_interval_nothing_is_the_same() -> None:
    assert judge([Ratio(1.0, None, 1.0, paired=False, replicates=1)]) == [Verdict.UNCLEAR]


def test_many_comparisons_raise_the_bar() -> None:
    lone, crowd = judge([found(1.2, 0.04)]), judge([found(1.2, 0.04), *[found(1.0, 0.9)] * 19])
    assert (lone[0], crowd[0]) == (Verdict.SLOWER, Verdict.UNCLEAR)


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg() -> None:
    # p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "BH") in R, and one out of order
    assert adjusted([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05] * 5)
    assert adjusted([0.8, 0.001, 0.02]) == pytest.approx([0.8, 0.003, 0.03])
    assert adjusted([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusting_keeps_the_order_and_never_helps(ps: Sequence[float]) -> None:
    after = adjusted(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, after, strict=True))
    ranked = sorted(zip(ps, after, strict=True))
    assert all(a[1] <= b[1] for a, b in pairwise(ranked))


MEDIANS = st.dictionaries(st.integers(0, 30), st.floats(1e-6, 1e3), min_size=2, max_size=12)


def test_a_paired_ratio_is_the_mean_of_the_logarithms_with_its_t_interval() -> None:
    old, new = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.4, 2: 4.0}
    logs = [math.log(1.1), math.log(1.2), 0.0]
    found = ratio(old, new, paired=True)
    half = t_quantile(2) * statistics.stdev(logs) / math.sqrt(3)
    assert found.value == pytest.approx(math.exp(statistics.fmean(logs)))
    assert (known(found.interval).low, known(found.interval).high) == pytest.approx(
        (found.value * math.exp(-half), found.value * math.exp(half))
    )
    assert (found.paired, found.replicates) == (True, 3)


def test_pairing_takes_away_what_both_sides_share() -> None:
    drift = {i: 2.0**i for i in range(5)}
    slower = {i: value * 1.1 * (1 + 0.001 * (i % 2)) for i, value in drift.items()}
    assert ratio(drift, slower, paired=True).p < 1e-6
    assert ratio(drift, slower, paired=False).p > 0.5


def test_replicates_that_only_one_side_has_are_no_pairs() -> None:
    found = ratio({0: 1.0, 1: 1.0, 7: 9.0}, {0: 2.0, 1: 2.0, 3: 100.0}, paired=True)
    assert found.value == pytest.approx(2.0)
    assert found.replicates == 2


def test_an_unpaired_ratio_is_that_of_welch() -> None:
    # scipy.stats.ttest_ind(log new, log old, equal_var=False)
    old, new = dict(enumerate([1, 1.02, 0.95, 1.1, 0.97])), dict(enumerate([1.2, 1.25, 1.3, 1.18]))
    found = ratio(old, new, paired=False)
    mean = statistics.fmean(map(math.log, new.values())) - statistics.fmean(map(math.log, old.values()))
    assert found.value == pytest.approx(math.exp(mean))
    assert found.p == pytest.approx(0.000516535, rel=1e-5)
    assert found.replicates == 4


@pytest.mark.parametrize("paired", [True, False])
def test_one_replicate_says_nothing_of_chance_and_no_spread_all(paired: bool) -> None:
    one = ratio({0: 1.0}, {0: 3.0}, paired=paired)
    assert one.value == pytest.approx(3.0)
    assert (one.interval, one.p) == (None, 1.0)
    same, other = {0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}
    assert (ratio(same, same, paired=paired).p, ratio(same, other, paired=paired).p) == (1.0, 0.0)


@pytest.mark.parametrize("paired", [True, False])
def test_nothing_to_compare_is_an_error(paired: bool) -> None:
    with pytest.raises(ValueError, match=r"replicate"):
        ratio({}, {0: 1.0}, paired=paired)


@given(MEDIANS, MEDIANS, st.floats(1e-3, 1e3))
def test_swapping_the_sides_inverts_it_and_the_unit_does_not_matter(
    old: dict[int, float], new: dict[int, float], unit: float
) -> None:
    found, back = ratio(old, new, paired=False), ratio(new, old, paired=False)
    assert found.value * back.value == pytest.approx(1.0)
    assert found.p == pytest.approx(back.p, abs=1e-9)
    scaled = ratio({r: v * unit for r, v in old.items()}, {r: v * unit for r, v in new.items()}, paired=False)
    assert scaled.value == pytest.approx(found.value)


def ratios(deviation: float, replicates: int, cells: int = 200, *, paired: bool = True) -> list[Ratio]:
    random = np.random.default_rng(1)

    def side() -> dict[int, float]:
        return dict(enumerate(np.exp(random.normal(0, deviation, replicates)).tolist()))

    return [ratio(side(), side(), paired=paired) for _ in range(cells)]


@pytest.mark.parametrize("paired", [True, False])
def test_as_many_replicates_as_it_says_make_the_interval_as_narrow_as_the_margin(paired: bool) -> None:
    now = known(resolution(ratios(0.05, 5, paired=paired), 0.05))
    assert now.replicates == 5
    assert now.typical > 0.05
    then = known(resolution(ratios(0.05, now.enough, paired=paired), 0.05))
    assert then.typical == pytest.approx(0.05, rel=0.25)


def test_the_worst_cell_is_told_beside_the_one_in_the_middle() -> None:
    found = known(resolution([*ratios(0.01, 5), *ratios(0.2, 5, cells=1)], 0.05))
    assert found.typical < 0.05 < found.worst
    assert found.enough <= 5 < found.enough_for_worst


def test_sides_that_never_differ_take_the_fewest_replicates_that_there_are() -> None:
    found = known(resolution([ratio({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}, paired=True)], 0.05))
    assert (found.typical, found.enough) == (0.0, 2)


def test_one_replicate_tells_nothing() -> None:
    assert resolution([ratio({0: 1.0}, {0: 2.0}, paired=True)], 0.05) is None
    assert resolution([], 0.05) is None


def test_noise_beyond_all_measure_takes_ten_thousand() -> None:
    found = known(resolution([ratio({0: 1.0, 1: 9.0}, {0: 9.0, 1: 1.0}, paired=True)], math.ulp(1.0)))
    assert found.enough == 10_000
