from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.ratio import Ratio
from attnbench.analyze.statistics import Interval, Spread
from attnbench.analyze.verdict import Verdict, adjusted, judge


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
