"""What the replicates at hand tell from chance, and how many a margin would take."""

import math

import numpy as np
import pytest

from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.resolution import resolution


def ratios(deviation: float, replicates: int, cells: int = 200, *, paired: bool = True) -> list[Ratio]:
    random = np.random.default_rng(1)

    def side() -> dict[int, float]:
        return dict(enumerate(np.exp(random.normal(0, deviation, replicates)).tolist()))

    return [ratio(side(), side(), paired=paired) for _ in range(cells)]


@pytest.mark.parametrize("paired", [True, False])
def test_as_many_replicates_as_it_says_make_the_interval_as_narrow_as_the_margin(paired: bool) -> None:
    now = resolution(ratios(0.05, 5, paired=paired), 0.05)
    assert now is not None
    assert now.replicates == 5
    assert now.typical > 0.05
    then = resolution(ratios(0.05, now.enough, paired=paired), 0.05)
    assert then is not None
    assert then.typical == pytest.approx(0.05, rel=0.25)


def test_the_worst_cell_is_told_beside_the_one_in_the_middle() -> None:
    found = resolution([*ratios(0.01, 5), *ratios(0.2, 5, cells=1)], 0.05)
    assert found is not None
    assert found.typical < 0.05 < found.worst
    assert found.enough <= 5 < found.enough_for_worst


def test_sides_that_never_differ_take_the_fewest_replicates_that_there_are() -> None:
    found = resolution([ratio({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}, paired=True)], 0.05)
    assert found is not None
    assert (found.typical, found.enough) == (0.0, 2)


def test_one_replicate_tells_nothing() -> None:
    assert resolution([ratio({0: 1.0}, {0: 2.0}, paired=True)], 0.05) is None
    assert resolution([], 0.05) is None


def test_noise_beyond_all_measure_takes_ten_thousand() -> None:
    found = resolution([ratio({0: 1.0, 1: 9.0}, {0: 9.0, 1: 1.0}, paired=True)], math.ulp(1.0))
    assert found is not None
    assert found.enough == 10_000
