import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.ratio import ratio
from attnbench.analyze.statistics import t_quantile

MEDIANS = st.dictionaries(st.integers(0, 30), st.floats(1e-6, 1e3), min_size=2, max_size=12)


def test_a_paired_ratio_is_the_mean_of_the_logarithms_with_its_t_interval() -> None:
    old, new = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.4, 2: 4.0}
    logs = [math.log(1.1), math.log(1.2), 0.0]
    found = ratio(old, new, paired=True)
    half = t_quantile(2) * statistics.stdev(logs) / math.sqrt(3)
    assert found.value == pytest.approx(math.exp(statistics.fmean(logs)))
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx(
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


def test_one_replicate_says_nothing_of_chance() -> None:
    for paired in (True, False):
        found = ratio({0: 1.0}, {0: 3.0}, paired=paired)
        assert found.value == pytest.approx(3.0)
        assert (found.interval, found.p) == (None, 1.0)


def test_sides_without_any_spread_differ_for_sure_or_not_at_all() -> None:
    same, other = {0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}
    for paired in (True, False):
        assert ratio(same, same, paired=paired).p == 1.0
        assert ratio(same, other, paired=paired).p == 0.0


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
