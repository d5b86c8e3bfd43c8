import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.statistics import Interval, Spread, outliers, spread, t_quantile


@pytest.mark.parametrize(
    ("df", "want"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (19, 2.0930), (40, 2.0211), (120, 1.9799)]
)
def test_the_t_quantile_has_the_values_of_the_printed_tables(df: int, want: float) -> None:
    assert t_quantile(df) == pytest.approx(want, abs=1e-4)


def test_the_t_quantile_falls_to_that_of_the_normal_distribution() -> None:
    values = [t_quantile(df) for df in range(1, 2000)]
    assert values == sorted(values, reverse=True)
    assert t_quantile(10**9) == pytest.approx(1.959964, abs=1e-6)


def test_no_degrees_of_freedom_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 degrees"):
        t_quantile(0)


def test_below_five_replicates_the_spread_is_a_band_from_least_to_greatest() -> None:
    assert spread([3.0, 1.0, 2.0, 5.0]) == Interval(1.0, 5.0, Spread.BAND)
    assert spread([2.0]) == Interval(2.0, 2.0, Spread.BAND)


def test_from_five_replicates_on_it_is_the_t_interval_of_the_logarithms() -> None:
    found = spread([1.0, 2.0, 4.0, 8.0, 16.0])
    half = t_quantile(4) * statistics.stdev([0, 1, 2, 3, 4]) / math.sqrt(5) * math.log(2)
    assert found.kind is Spread.INTERVAL
    assert (found.low, found.high) == pytest.approx((4 * math.exp(-half), 4 * math.exp(half)))


@given(st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=60).map(sorted))
def test_outliers_are_those_of_the_standard_library_s_quartiles(rising: list[float]) -> None:
    low, _, high = statistics.quantiles(rising, n=4)
    reach = 1.5 * (high - low)
    assert outliers(rising) == sum(not low - reach <= value <= high + reach for value in rising)
    assert outliers(rising[:3]) == 0
