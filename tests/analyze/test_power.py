"""How often a slow-down of known size is found, against what theory says of normal noise."""

import math
import random
from collections.abc import Sequence

import pytest
from scipy import special

from attnbench.analyze.power import INJECTED, LIKELY, SOUGHT, SURE, Hits, Sides, power, smallest
from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.verdict import Verdict, judge

SPREAD = 0.03


def alike(verdicts: int, replicates: int, seed: int = 0, spread: float = SPREAD, factor: float = 1.0) -> list[Sides]:
    """Two sides of one truth (B times a factor), with lognormal noise."""
    noise = random.Random(seed)

    def side(scale: float) -> dict[int, float]:
        return {r: scale * math.exp(noise.gauss(0, spread)) for r in range(replicates)}

    return [(side(1e-3), side(1e-3 * factor)) for _ in range(verdicts)]


def judge_each(ratios: Sequence[Ratio], margin: float) -> list[Verdict]:
    return [judge([each], margin)[0] for each in ratios]


def expected(effect: float, replicates: int, *, paired: bool) -> float:
    """The share of t tests that find it (noncentral t; Welch's degrees at equal spreads)."""
    df = replicates - 1 if paired else 2 * (replicates - 1)
    away = math.log1p(effect) / (SPREAD * math.sqrt(2 / replicates))
    return float(1 - special.nctdtr(df, away, special.stdtrit(df, 0.975)))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("replicates", [5, 10])
def test_without_a_margin_a_slow_down_is_found_as_often_as_theory_says(replicates: int, paired: bool) -> None:
    found = power(alike(300, replicates), replicates, 0.05, paired=paired)
    for effect, hits in zip(INJECTED, found.bare, strict=True):
        if effect:
            # five standard errors, and what two approximations differ by
            room = 5 * math.sqrt(0.25 / 300) / 2 + 0.03
            assert hits.share == pytest.approx(expected(effect, replicates, paired=paired), abs=room), effect


@pytest.mark.parametrize("paired", [True, False])
def test_where_nothing_differs_one_in_twenty_is_significant_and_none_is_beyond_a_wide_margin(paired: bool) -> None:
    found = power(alike(400, 10), 10, 0.08, paired=paired)
    assert found.significant.share == pytest.approx(0.05, abs=0.04)
    assert found.alarms == Hits(0, 400)
    assert found.same.hits >= 396


def test_hit_rates_fall_with_the_margin() -> None:
    found = power(alike(100, 5), 5, 0.1, paired=True)
    assert all(at.hits <= bare.hits for at, bare in zip(found.at_margin, found.bare, strict=True))


@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize("paired", [True, False])
def test_what_finds_a_slow_down_finds_every_larger_one(paired: bool, margin: float) -> None:
    sides = alike(20, 3)
    found = power(sides, 3, margin or 1e-9, paired=paired)
    for i, effect in enumerate(INJECTED):
        slowed = [(a, {r: median * (1 + effect) for r, median in b.items()}) for a, b in sides]
        said = judge_each([ratio(a, b, paired=paired) for a, b in slowed], margin)
        assert (found.at_margin if margin else found.bare)[i].hits == said.count(Verdict.SLOWER)


def test_a_slow_down_of_the_margins_size_is_found_half_the_time_and_one_well_beyond_it_nearly_always() -> None:
    found = power(alike(400, 10), 10, 0.1, paired=True)
    shares = dict(zip(INJECTED, (hits.share for hits in found.at_margin), strict=True))
    assert shares[0.1] == pytest.approx(0.5, abs=0.1)
    assert shares[0.15] == pytest.approx(1.0, abs=0.02)


def test_what_everybody_asks_for_is_looked_for_at_half_its_size() -> None:
    assert [margin for _, margin in SOUGHT] == [effect / 2 for effect, _ in SOUGHT]
    found = power(alike(200, 10), 10, 0.3, paired=True)
    assert [hits.share for hits in found.sought] == pytest.approx([0.9, 1.0], abs=0.07)


def test_the_half_width_is_that_of_the_t_interval() -> None:
    found = power(alike(200, 10), 10, 0.05, paired=False)
    want = special.stdtrit(18, 0.975) * SPREAD * math.sqrt(2 / 10)
    assert found.half_width == pytest.approx(want, rel=0.1)


def test_a_slow_side_b_is_counted_as_slower_and_a_fast_one_as_faster() -> None:
    slow, fast = (power(alike(50, 5, factor=factor), 5, 0.05, paired=True) for factor in (1.3, 1 / 1.3))
    assert (slow.slower, slow.faster) == (Hits(50, 50), Hits(0, 50))
    assert (fast.slower, fast.faster) == (Hits(0, 50), Hits(50, 50))
    assert fast.alarms == Hits(50, 50)


def test_no_verdicts_give_no_hits() -> None:
    found = power([], 10, 0.05, paired=True)
    assert found.alarms.share is None
    assert found.half_width is None
    assert smallest(found.bare, SURE).effect is None


def curve(*shares: float) -> list[Hits]:
    """Hit rates of 1000 verdicts; the last one goes on to the end."""
    padded = [*shares, *[shares[-1]] * (len(INJECTED) - len(shares))]
    return [Hits(round(1000 * share), 1000) for share in padded]


def test_the_smallest_slow_down_lies_on_a_line_between_two_that_were_tried() -> None:
    found = smallest(curve(0, 0.2, 0.7, 1.0), SURE)
    assert found.effect == pytest.approx(0.02 + 0.01 * 2 / 3)
    assert smallest(curve(0, 0.2, 0.7, 1.0), LIKELY).effect == pytest.approx(0.02 + 0.01 / 3)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.02 + 0.01 * 2 / 3 < found.high


def test_one_that_is_never_found_often_enough_is_not_known() -> None:
    assert smallest(curve(0, 0.5), SURE).effect is None
    nearly = smallest(curve(0, 0.91), SURE)
    assert nearly.effect is not None
    assert nearly.high is None, "it may be that even the largest is found less often"


def test_what_is_always_said_to_be_slower_needs_no_slow_down() -> None:
    assert smallest(curve(0.95), SURE).effect == 0.0


def test_fewer_replicates_find_less() -> None:
    effects = [smallest(power(alike(200, n), n, 0.05, paired=True).bare, SURE).effect for n in (3, 5, 10)]
    assert effects == sorted(effects, key=lambda effect: -(effect or 9))
