"""Whether the verdicts keep their word, on invented replicates whose truth is known, and what a selfcheck makes of its records.

A few hundred trials by default, with room for chance; ten thousand in the slow tests. All seeds are fixed.
"""

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from attnbench.analyze.compare import level_of, looks
from attnbench.analyze.digest import digest
from attnbench.analyze.selfcheck import INJECTED, LIKELY, SOUGHT, SURE, Hits, Sides, calibrate, power, smallest
from attnbench.analyze.statistics import Interval, Spread
from attnbench.analyze.verdict import LEVEL, Ratio, Verdict, judge, ratio
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck
from attnbench.store.run_folder import RunFolder
from tests.analyze.conftest import known, writer

Numbers = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Numbers]
TRUTH = 1.07
RECORDED = Path(__file__).parents[2] / "results/reference/xeon-2-cores/selfcheck"
FEW, MANY = 300, 10_000
REPLICATES = (5, 10, 20)
SIGNS = {Verdict.SLOWER: 1, Verdict.FASTER: -1}


@cache
def _processes() -> Numbers:
    """Logarithms of the medians of 4,000 processes that measured one cell on the reference machine (skewness 7)."""
    records = RunFolder(RECORDED).read()
    return np.log([digest(record).values["time"] for record in records if record.job.phase is Pass.TIME and record.ok])


# logarithms of replicate medians over their least time
NOISES: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.normal(0, 0.03, shape),
    # Student's t of 3 degrees: now and then a process is far off, either way
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape) * 0.02,
    # a least time, and on top an excess with a moderate tail (skewness 1.4)
    "skewed excess": lambda rng, shape: np.log1p(rng.gamma(2, 0.025, shape)),
    "measured": lambda rng, shape: rng.choice(_processes(), shape),
    # an excess of some per cent with a very long tail (skewness 6)
    "lognormal excess": lambda rng, shape: np.log1p(0.03 * rng.lognormal(0, 1, shape)),
    # waits as they come
    "exponential tail": lambda rng, shape: np.log1p(rng.exponential(0.05, shape)),
}


def logs(noise: str, replicates: int, paired: bool, trials: int) -> tuple[Numbers, Numbers]:
    """Old and new, [trials, replicates], of a known ratio; pairs share the machine's drift from round to round."""
    rng = np.random.default_rng([ord(c) for c in f"{noise}, {replicates} a side, {'paired' if paired else 'unpaired'}"])
    shape = (trials, replicates)
    drift = rng.normal(0, 0.05, shape) if paired else np.zeros(shape)
    old, new = (NOISES[noise](rng, shape) + drift for _ in range(2))
    return old, new + math.log(TRUTH)


WIDEST = {"lognormal excess": 0.985, "exponential tail": 0.98}
"""Where both sides have a long tail on the same side, intervals are rather too wide: up to 98 % at 5 replicates, 97 % at 10."""


def compared(old: Numbers, new: Numbers, *, paired: bool) -> list[Ratio]:
    """By the function that is under test, a trial a row."""
    rows = zip(np.exp(old), np.exp(new), strict=True)
    return [ratio(dict(enumerate(map(float, a))), dict(enumerate(map(float, b))), paired=paired) for a, b in rows]


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("replicates", "trials"), [(10, FEW), *(pytest.param(count, MANY, marks=pytest.mark.slow) for count in REPLICATES)]
)
@pytest.mark.parametrize("noise", NOISES)
def test_intervals_hold_the_truth(noise: str, replicates: int, trials: int, paired: bool) -> None:
    intervals = [found.interval for found in compared(*logs(noise, replicates, paired, trials), paired=paired)]
    share = float(np.mean([i is not None and i.low <= TRUTH <= i.high for i in intervals]))
    # of few trials four standard errors less than 93 %
    least, most = (0.89, 1.0) if trials == FEW else (0.93, WIDEST.get(noise, 0.97))
    assert least <= share <= most


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("replicates", REPLICATES)
@pytest.mark.parametrize("noise", WIDEST)
def test_where_one_side_alone_has_a_tail_intervals_fall_short_on_that_side(noise: str, replicates: int, paired: bool) -> None:
    """No t interval can do better on so few: most sets of five hold nothing of the tail that their mean should have."""
    rng = np.random.default_rng([replicates, paired])
    truth = math.exp(float(NOISES[noise](rng, (1_000_000,)).mean()))
    old, new = rng.normal(0, 0.01, (MANY, replicates)), NOISES[noise](rng, (MANY, replicates))
    intervals = [found.interval for found in ratios(old, new, paired=paired) if found.interval]
    above, below = (float(np.mean(side)) for side in ([i.low > truth for i in intervals], [i.high < truth for i in intervals]))
    assert above < 0.02
    assert 0.03 < below < 0.17, f"{below:.2%}"


def ratios(old: Numbers, new: Numbers, *, paired: bool) -> list[Ratio]:
    """As `ratio` does, all trials at once: [trials, replicates] each."""
    n = old.shape[1]
    mean = (new - old).mean(1)
    if paired:
        error, df = (new - old).std(1, ddof=1) / math.sqrt(n), np.full(len(old), n - 1.0)
    else:
        squares = old.var(1, ddof=1) / n, new.var(1, ddof=1) / n
        error = np.sqrt(squares[0] + squares[1])
        df = (squares[0] + squares[1]) ** 2 / ((squares[0] ** 2 + squares[1] ** 2) / (n - 1))
    p = 2 * special.stdtr(df, -np.abs(mean / error))
    half = special.stdtrit(df, 0.975) * error
    columns = zip(np.exp(mean), np.exp(mean - half), np.exp(mean + half), p, strict=True)
    return [Ratio(float(v), Interval(float(a), float(b), Spread.INTERVAL), float(p), paired, n) for v, a, b, p in columns]


@pytest.mark.parametrize("paired", [True, False])
def test_what_is_computed_at_once_is_what_ratio_computes(paired: bool) -> None:
    old, new = logs("lognormal excess", 5, paired, 50)
    one_by_one, at_once = (
        [(each.value, each.p, known(each.interval).low, known(each.interval).high) for each in compute(old, new, paired=paired)]
        for compute in (compared, ratios)
    )
    assert np.array(one_by_one) == pytest.approx(np.array(at_once))


def suites(share: float, margin: float, count: int, *, paired: bool = True) -> tuple[float, float, float]:
    """Of suites of 50 cells, of which a share is slower or faster by 10 %: what is false, found and found the wrong way.

    The first is the mean over the suites of the share of false ones among all that were told apart; 0 where none was.
    """
    rng = np.random.default_rng([count, round(100 * share), round(1000 * margin), paired])
    false: list[float] = []
    found, wrong, cells = 0, 0, 50
    differs = np.arange(cells) < round(share * cells)
    truth = np.where(differs, np.where(np.arange(cells) % 2, 1, -1) * math.log1p(0.1), 0.0)
    for _ in range(count):
        old = rng.normal(0, 0.03, (cells, 10))
        new = rng.normal(0, 0.03, (cells, 10)) + truth[:, None]
        said = np.array([SIGNS.get(verdict, 0) for verdict in judge(ratios(old, new, paired=paired), margin)])
        alarms = int(np.count_nonzero(said))
        false.append(np.count_nonzero(said[~differs]) / alarms if alarms else 0.0)
        found += int(np.count_nonzero(said * np.sign(truth) > 0))
        wrong += int(np.count_nonzero(said * np.sign(truth) < 0))
    planted = max(1, count * int(np.count_nonzero(differs)))
    return float(np.mean(false)), found / planted, wrong / planted


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    ("margin", "most"), [pytest.param(0.0, 0.11, id="5 % and four standard errors"), pytest.param(0.05, 0.04, id="a margin")]
)
def test_few_of_what_is_told_apart_are_false_and_with_a_margin_hardly_any(share: float, margin: float, most: float) -> None:
    false, found, wrong_way = suites(share, margin, 200)
    assert false <= most
    assert found > 0.95 or not share
    assert wrong_way == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_false_discoveries_of_ten_thousand_suites_keep_the_level(share: float, paired: bool) -> None:
    false, *_ = suites(share, 0.0, MANY, paired=paired)
    # Benjamini and Hochberg: at most the level times the share that does not differ
    allowed = LEVEL * (1 - share)
    assert false <= allowed + 4 * math.sqrt(allowed / MANY)
    assert false >= allowed / 2, "nor is it kept by saying nothing"


def verdicts(effect: float, spread: float, count: int) -> dict[Verdict, float]:
    """Shares of verdicts on single cells of ten replicates."""
    rng = np.random.default_rng([count, round(1000 * abs(effect)), effect < 0, round(1000 * spread), 10])
    old, new = (rng.normal(0, spread, (count, 10)) for _ in range(2))
    said = [judge([found], 0.05)[0] for found in ratios(old, new + math.log1p(effect), paired=True)]
    return {verdict: said.count(verdict) / count for verdict in Verdict}


def test_on_a_quiet_machine_verdicts_are_clear_and_on_a_loud_one_unclear_rather_than_wrong() -> None:
    assert verdicts(0.0, 0.01, FEW)[Verdict.SAME] >= 0.99
    assert verdicts(0.10, 0.01, FEW)[Verdict.SLOWER] >= 0.99
    assert verdicts(-0.09, 0.01, FEW)[Verdict.FASTER] >= 0.99
    nothing, slower = verdicts(0.0, 0.10, FEW), verdicts(0.10, 0.10, FEW)
    assert nothing[Verdict.UNCLEAR] > 0.85
    assert slower[Verdict.SAME] == slower[Verdict.FASTER] == 0
    assert 0.2 < slower[Verdict.SLOWER] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1])
def test_what_differs_by_more_than_the_margin_is_hardly_ever_called_the_same(spread: float) -> None:
    assert verdicts(0.0501, spread, MANY)[Verdict.SAME] <= 0.03, "the upper end of a 95 % interval is passed by 2.5 %"
    assert verdicts(0.10, spread, MANY)[Verdict.SAME] <= 0.001


@pytest.mark.slow
@pytest.mark.parametrize("most", [10, 20, 40])
def test_looking_again_and_again_keeps_the_level_of_one_look(most: int) -> None:
    """A cell that is called different at any look stays so."""
    steps = looks(most)
    rng = np.random.default_rng(most)
    old, new = (rng.normal(0, 0.03, (MANY, most)) for _ in range(2))
    ever = np.zeros(MANY, dtype=bool)
    for step in steps:
        found = ratios(old[:, :step], new[:, :step], paired=True)
        ever |= np.array([judge([each], 0.0, level_of(len(steps)))[0] in SIGNS for each in found])
    assert ever.mean() <= LEVEL + 3 * math.sqrt(LEVEL / MANY), f"{ever.mean():.2%} at looks {steps}"


# from the records of a selfcheck to its figures


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
    assert calibrate(few, records(few), 0.05).floor == (), "120 of 3 say too little of 10"
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
