"""From the records of a selfcheck to its figures."""

import math
import random
from collections.abc import Sequence

import pytest
from scipy import special

from attnbench.analyze.selfcheck import INJECTED, LIKELY, SOUGHT, SURE, Hits, Sides, calibrate, power, smallest
from attnbench.analyze.verdict import Verdict, judge, ratio
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck
from tests.analyze.conftest import known, writer


def records(
    plan: Selfcheck, spread: float = 0.02, drift: float = 0.0, between: float = 0.0, flags: Sequence[str] = ()
) -> list[Record]:
    """One sample a process; `between` is the logarithm by which the second side is slower."""
    noise, found = random.Random(0), []
    for number in range(plan.processes):
        place = plan.place(number)
        log = noise.gauss(0, spread) + drift * place.replicate + between * place.side
        found.append(writer.timed(plan.cell(number), [2e-3 * math.exp(log)], number, flags=flags if number % 4 == 0 else ()))
    return found


def planned(verdicts: int = 24, replicates: int = 10, injected: float = 0.0) -> Selfcheck:
    cell, slow = writer.cell(), writer.cell("slow")
    return Selfcheck(sides=(cell, slow if injected else cell), verdicts=verdicts, replicates=replicates, injected=injected)


def test_both_names_of_one_method_are_told_apart_by_their_numbers_alone() -> None:
    plan = planned()
    off = calibrate(plan, records(plan, between=0.2), 0.05)
    assert off.paired[-1].slower == off.unpaired[-1].slower == Hits(24, 24)
    assert known(off.overall).value == pytest.approx(math.exp(0.2), rel=0.006)
    alike = calibrate(plan, records(plan), 0.05)
    assert alike.paired[-1].alarms == alike.unpaired[-1].alarms == alike.together == Hits(0, 24)
    interval = known(known(alike.overall).interval)
    assert interval.low < 1 < interval.high
    assert alike.seconds == pytest.approx(2e-3, rel=0.01)
    assert alike.processes == pytest.approx(0.02, rel=0.1)
    assert (alike.lost, alike.reason) == (0, "")


@pytest.mark.parametrize(("replicates", "counts"), [(2, [2]), (3, [3]), (4, [3, 4]), (7, [3, 5, 7]), (25, [3, 5, 10, 20, 25])])
def test_counts_below_what_was_planned_are_shown_too(replicates: int, counts: list[int]) -> None:
    plan = planned(verdicts=2, replicates=replicates)
    assert [power.replicates for power in calibrate(plan, records(plan), 0.05).unpaired] == counts


def test_what_falls_on_both_sides_of_a_round_is_seen_by_unpaired_verdicts_only() -> None:
    plan = planned()
    found = calibrate(plan, records(plan, drift=0.03), 0.05)
    assert known(found.unpaired[-1].half_width) > 3 * known(found.paired[-1].half_width)
    assert found.rounds == pytest.approx(math.expm1(9 * 0.03), abs=0.02)
    assert found.processes == pytest.approx(0.02, rel=0.1), "drift is no difference between processes"


def test_rounds_are_cut_into_verdicts_that_share_no_process_and_what_failed_or_is_missing_costs_its_own() -> None:
    plan = planned(verdicts=20)
    every = records(plan)
    whole = calibrate(plan, every, 0.05)
    assert [(power.replicates, power.slower.of) for power in whole.paired] == [(3, 60), (5, 40), (10, 20)]
    lost = plan.number(Place(7, 1, 6))
    failed = writer.failed(plan.cell(lost), Status.TIMEOUT, "no answer within 62 s", lost)
    found = calibrate(plan, [*every[:lost], failed, *every[lost + 1 :]], 0.05)
    assert [power.slower.of for power in found.paired] == [59, 39, 19]
    assert (found.lost, found.reason, found.measured) == (1, "timeout: no answer within 62 s", plan.processes - 1)
    found = calibrate(plan, [record for record in every if plan.place(record.job.replicate).replicate < 6], 0.05)
    assert [power.slower.of for power in found.paired] == [40, 20, 0]
    assert found.lost == 20 * 2 * 4


def test_a_repeated_process_counts_by_its_last_attempt_and_without_records_there_are_no_figures() -> None:
    plan = planned(verdicts=2, replicates=2)
    every = records(plan, flags=("loaded", "noisy"))
    again = writer.timed(plan.sides[0], [5.0], 0, attempt=1, flags=("throttled",))
    check = writer.failed(writer.cell(N=64), Status.INCORRECT, "wrong", phase=Pass.CHECK)
    found = calibrate(plan, [check, *every, again], 0.05)
    assert (found.flags, found.lost) == ({"loaded": 1, "noisy": 1, "throttled": 1}, 0)
    assert found.seconds == pytest.approx(2e-3 * (5.0 / 2e-3) ** (1 / 8), rel=0.05)
    found = calibrate(planned(), [], 0.05)
    assert (found.measured, found.seconds, found.overall, found.floor) == (0, None, None, ())
    assert (found.paired[-1].alarms.share, smallest(found.paired[-1].bare, SURE).effect) == (None, None)


def test_the_noise_floor_is_of_enough_paired_verdicts_without_a_margin_or_a_slow_down_made_on_purpose() -> None:
    plan = planned(verdicts=120)
    floor = dict(calibrate(plan, records(plan, spread=0.03), 0.5).floor)
    # 3.6 standard errors: what a t test at 9 degrees finds nine times in ten
    assert floor[10] == pytest.approx(math.expm1(3.63 * 0.03 * math.sqrt(2 / 10)), rel=0.15)
    assert floor[3] > floor[5] > floor[10]
    few = planned(verdicts=40)
    assert set(dict(calibrate(few, records(few), 0.05).floor)) == {3}, "120 verdicts of 3, 80 of 5, 40 of 10"
    plan = planned(verdicts=120, replicates=5, injected=0.1)
    slowed = calibrate(plan, records(plan, between=math.log1p(0.1)), 0.05)
    assert slowed.paired[-1].slower.hits > 110
    assert slowed.floor == ()
    assert slowed.processes == pytest.approx(0.02, rel=0.1), "the slow-down is no spread"


SPREAD = 0.03


def alike(verdicts: int, replicates: int, factor: float = 1.0) -> list[Sides]:
    """Two sides of one truth (B times a factor), with lognormal noise."""
    noise = random.Random(0)

    def side(scale: float) -> dict[int, float]:
        return {r: scale * math.exp(noise.gauss(0, SPREAD)) for r in range(replicates)}

    return [(side(1e-3), side(1e-3 * factor)) for _ in range(verdicts)]


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
    want = special.stdtrit(9 if paired else 18, 0.975) * SPREAD * math.sqrt(2 / 10)
    assert found.half_width == pytest.approx(want, rel=0.1), "it is that of the t interval"


@pytest.mark.parametrize("margin", [0.0, 0.05])
@pytest.mark.parametrize("paired", [True, False])
def test_what_finds_a_slow_down_finds_every_larger_one(paired: bool, margin: float) -> None:
    sides = alike(20, 3)
    found = power(sides, 3, margin or 1e-9, paired=paired)
    for i, effect in enumerate(INJECTED):
        slowed = [(a, {r: median * (1 + effect) for r, median in b.items()}) for a, b in sides]
        said = [judge([ratio(a, b, paired=paired)], margin)[0] for a, b in slowed]
        assert (found.at_margin if margin else found.bare)[i].hits == said.count(Verdict.SLOWER)


def test_a_slow_down_of_the_margins_size_is_found_half_the_time_and_one_well_beyond_it_nearly_always() -> None:
    found = power(alike(400, 10), 10, 0.1, paired=True)
    shares = dict(zip(INJECTED, (hits.share for hits in found.at_margin), strict=True))
    assert shares[0.1] == pytest.approx(0.5, abs=0.1)
    assert shares[0.15] == pytest.approx(1.0, abs=0.02)
    # so what everybody asks for is looked for at half its size
    assert [margin for _, margin in SOUGHT] == [effect / 2 for effect, _ in SOUGHT]
    assert [hits.share for hits in found.sought] == pytest.approx([0.9, 1.0], abs=0.07)
    fast = power(alike(50, 5, 1 / 1.3), 5, 0.05, paired=True)
    assert (fast.slower, fast.faster, fast.alarms) == (Hits(0, 50), Hits(50, 50), Hits(50, 50))


def curve(*shares: float) -> list[Hits]:
    """Hit rates of 1000 verdicts; the last one goes on to the end."""
    padded = [*shares, *[shares[-1]] * (len(INJECTED) - len(shares))]
    return [Hits(round(1000 * share), 1000) for share in padded]


def test_the_smallest_slow_down_lies_on_a_line_between_two_that_were_tried() -> None:
    found = smallest(curve(0, 0.2, 0.7, 1.0), SURE)
    assert found.effect == pytest.approx(0.02 + 0.01 * 2 / 3)
    assert known(found.low) < 0.02 + 0.01 * 2 / 3 < known(found.high)
    assert smallest(curve(0, 0.2, 0.7, 1.0), LIKELY).effect == pytest.approx(0.02 + 0.01 / 3)
    assert smallest(curve(0, 0.5), SURE).effect is None, "it is never found often enough"
    assert smallest(curve(0.95), SURE).effect == 0.0, "what is always said to be slower needs no slow-down"
    nearly = smallest(curve(0, 0.91), SURE)
    assert known(nearly.effect) > 0
    assert nearly.high is None, "it may be that even the largest is found less often"
