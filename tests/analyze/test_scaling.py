"""Growth: the exponent over the upper lengths, and its interval, by known laws and by another library."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import quantities
from attnbench.analyze.scaling import Exponent, exponent, fit_interval, slope
from attnbench.schema.outcome import Counter
from tests.analyze.conftest import known, writer

LENGTHS = tuple(2**i for i in range(9, 17))


def series(seconds: Callable[[int], float], lengths: Sequence[int] = LENGTHS, tokens: int = 1) -> list[CellSummary]:
    """A method whose call of B = tokens // N samples takes B times `seconds`."""
    cells = [writer.cell(N=N, B=max(1, tokens // N)) for N in lengths]
    return [writer.summary(cell, [cell.problem.B * seconds(cell.problem.N)]) for cell in cells]


def growth(cells: Sequence[CellSummary], name: str = "time") -> Exponent | None:
    return exponent(cells, quantities(cells)[name])


@given(power=st.floats(-1, 3), scale=st.floats(1e-9, 1e3))
def test_a_power_law_gives_its_own_exponent(power: float, scale: float) -> None:
    assert slope({N: scale * N**power for N in LENGTHS}) == pytest.approx(power, abs=1e-6)


def test_only_the_upper_half_of_the_lengths_counts_and_a_batch_that_shrinks_with_the_length_hides_nothing() -> None:
    fit = known(growth(series(lambda N: 1e-3 if N < 8192 else 1e-3 * N / 8192)))
    assert (fit.lengths, fit.value) == ((8192, 16384, 32768, 65536), pytest.approx(1.0))
    assert known(growth(series(lambda N: 1e-9 * N**2, tokens=65536))).value == pytest.approx(2.0)


def test_three_lengths_are_fitted_and_two_are_not_and_those_that_failed_do_not_count() -> None:
    assert growth(series(float, LENGTHS[:3])) is not None
    assert growth(series(float, LENGTHS[:2])) is None
    assert growth([]) is None
    bad = [writer.summary(cell := writer.cell(N=N), [1e9], writer.failed(cell, replicate=1)) for N in LENGTHS[4:]]
    fit = known(growth([*series(float, LENGTHS[:4]), *bad]))
    assert (fit.lengths, fit.value) == (LENGTHS[1:4], pytest.approx(1.0))


def test_from_five_replicates_on_the_interval_is_that_of_their_slopes() -> None:
    powers = (1.0, 1.1, 1.2, 1.3, 1.4)
    few, enough = ([writer.summary(writer.cell(N=N), [N**p for p in powers[:n]]) for N in LENGTHS] for n in (4, 5))
    assert known(growth(few)).interval is None
    interval = known(known(growth(enough)).interval)
    assert (interval.low, interval.high) == pytest.approx(stats.t.interval(0.95, 4, loc=1.2, scale=stats.sem(powers)))


def test_memory_grows_by_its_counter_and_zero_bytes_are_left_out() -> None:
    def weighed(N: int, size: int) -> CellSummary:
        cell = writer.cell(N=N, B=2)
        return writer.summary(cell, [1.0], writer.weighed(cell, host_rss_peak=Counter(bytes=size, source="VmHWM")))

    cells = [*(weighed(N, 2 * N * N) for N in LENGTHS[:3]), weighed(LENGTHS[3], 0)]
    fit = known(growth(cells, "memory"))
    assert (fit.value, fit.interval, fit.lengths) == (pytest.approx(2.0), None, LENGTHS[:3])
    assert growth(cells[1:], "memory") is None


def test_the_interval_of_a_fit_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    points = {N: N**1.5 * math.exp(error) for N, error in zip(LENGTHS, rng.normal(0, 0.1, len(LENGTHS)), strict=True)}
    known = stats.linregress([math.log(N) for N in points], [math.log(y) for y in points.values()])
    half = stats.t.ppf(0.975, len(points) - 2) * known.stderr
    found = fit_interval(points)
    assert (found.low, found.high) == pytest.approx((known.slope - half, known.slope + half))
    exact = fit_interval({N: N**2 for N in LENGTHS[:3]})
    assert (exact.low, exact.high) == pytest.approx((2, 2))
