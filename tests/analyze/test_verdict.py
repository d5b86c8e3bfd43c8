"""Ratios of two sides and what may be said of them, by definitions and other libraries; and of the cells of two runs."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnbench.analyze import compare as comparing
from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.compare import Comparison, Exit, Pair, Terms, compare, exit_of, is_lost, is_regression, level_of, looks
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.quantities import quantities
from attnbench.analyze.statistics import Estimate, Interval, Spread, by_factors, outliers, spread, t_quantile
from attnbench.analyze.verdict import LEVEL, Ratio, Verdict, adjusted, judge, ratio, resolution
from attnbench.schema.outcome import Counter, Status
from tests.analyze.conftest import known, writer

MEDIANS = st.dictionaries(st.integers(0, 30), st.floats(1e-6, 1e3), min_size=2, max_size=12)


def test_a_spread_is_a_band_below_five_replicates_and_then_the_t_interval_of_the_logarithms() -> None:
    assert spread([3.0, 1.0, 2.0, 5.0]) == Interval(1.0, 5.0, Spread.BAND)
    assert spread([2.0]) == Interval(2.0, 2.0, Spread.BAND)
    found = spread([1.0, 2.0, 4.0, 8.0, 16.0])
    want = stats.t.interval(0.95, 4, loc=2, scale=stats.sem([0, 1, 2, 3, 4]))
    assert found.kind is Spread.INTERVAL
    assert (math.log2(found.low), math.log2(found.high)) == pytest.approx(want)
    # the median of most of one kind of processes and some of another is no value outside of its own interval
    values = [1.0] * 6 + [1.5] * 4
    assert spread(values).low > 1.0
    assert by_factors(values) == Estimate(1.0, Interval(1.0, spread(values).high, Spread.INTERVAL))
    with pytest.raises(ValueError, match="0 degrees"):
        t_quantile(0)


@given(st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=60).map(sorted))
def test_outliers_are_those_of_the_standard_library_s_quartiles(rising: list[float]) -> None:
    low, _, high = statistics.quantiles(rising, n=4)
    reach = 1.5 * (high - low)
    assert outliers(rising) == sum(not low - reach <= value <= high + reach for value in rising)
    assert outliers(rising[:3]) == 0


def found(value: float, p: float, half: float = 0.01) -> Ratio:
    return Ratio(value, Interval(value * (1 - half), value * (1 + half), Spread.INTERVAL), p, paired=True, replicates=10)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(found(1.2, 1e-6), Verdict.SLOWER, id="sure and beyond the margin"),
        pytest.param(found(0.8, 1e-6), Verdict.FASTER, id="the other way"),
        pytest.param(found(1 / 1.06, 1e-9), Verdict.FASTER, id="the margin reaches as far down as up"),
        pytest.param(found(1 / 1.04, 1e-9, 0.005), Verdict.SAME, id="and no further"),
        pytest.param(found(1.03, 1e-6), Verdict.SAME, id="sure and within the margin"),
        pytest.param(found(1.045, 1e-6), Verdict.UNCLEAR, id="sure and small, but its interval leaves the margin"),
        pytest.param(found(1.2, 0.5, half=0.3), Verdict.UNCLEAR, id="not sure"),
        pytest.param(Ratio(1.0, None, 1.0, paired=False, replicates=1), Verdict.UNCLEAR, id="no interval"),
    ],
)
def test_a_verdict_needs_both_a_small_p_and_an_effect_beyond_the_margin(given: Ratio, want: Verdict) -> None:
    assert judge([given], margin=0.05) == [want]


def test_many_comparisons_raise_the_bar_by_benjamini_and_hochberg() -> None:
    lone, crowd = judge([found(1.2, 0.04)]), judge([found(1.2, 0.04), *[found(1.0, 0.9)] * 19])
    assert (lone[0], crowd[0]) == (Verdict.SLOWER, Verdict.UNCLEAR)


@given(st.lists(st.floats(0, 1)))
def test_p_values_are_adjusted_as_scipy_does(ps: list[float]) -> None:
    assert adjusted(ps) == pytest.approx(stats.false_discovery_control(ps))


def test_a_paired_ratio_is_the_t_test_of_the_logarithms_of_common_replicates_and_an_unpaired_one_that_of_welch() -> None:
    old, new = {0: 1.0, 1: 2.0, 2: 4.0, 7: 9.0, 8: 1.5}, {0: 1.1, 1: 2.4, 2: 4.0, 3: 100.0}
    before, after = np.log(list(old.values())), np.log(list(new.values()))
    common = (after - before[:4])[:3]
    of_pairs, of_sides = stats.ttest_1samp(common, 0), stats.ttest_ind(after, before, equal_var=False)
    for paired, mean, test, count in ((True, common.mean(), of_pairs, 3), (False, after.mean() - before.mean(), of_sides, 4)):
        found, ends = ratio(old, new, paired=paired), test.confidence_interval()
        interval = known(found.interval)
        assert [found.value, interval.low, interval.high] == pytest.approx(np.exp([mean, ends.low, ends.high]))
        assert found.p == pytest.approx(test.pvalue)
        assert (found.paired, found.replicates) == (paired, count)


@pytest.mark.parametrize("paired", [True, False])
def test_one_replicate_says_nothing_of_chance_no_spread_all_and_none_is_an_error(paired: bool) -> None:
    one = ratio({0: 1.0}, {0: 3.0}, paired=paired)
    assert one.value == pytest.approx(3.0)
    assert (one.interval, one.p) == (None, 1.0)
    assert resolution([one], 0.05) is None
    same, other = {0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}
    assert (ratio(same, same, paired=paired).p, ratio(same, other, paired=paired).p) == (1.0, 0.0)
    with pytest.raises(ValueError, match=r"replicate"):
        ratio({}, {0: 1.0}, paired=paired)


@given(MEDIANS, MEDIANS, st.floats(1e-3, 1e3))
def test_swapping_sides_inverts_it_and_units_do_not_matter(old: dict[int, float], new: dict[int, float], unit: float) -> None:
    found, back = ratio(old, new, paired=False), ratio(new, old, paired=False)
    assert found.value * back.value == pytest.approx(1.0)
    assert found.p == pytest.approx(back.p, abs=1e-9)
    scaled = ratio({r: v * unit for r, v in old.items()}, {r: v * unit for r, v in new.items()}, paired=False)
    assert scaled.value == pytest.approx(found.value)


def ratios(deviation: float, replicates: int, cells: int = 200, *, paired: bool = True) -> list[Ratio]:
    sides = np.exp(np.random.default_rng(1).normal(0, deviation, (cells, 2, replicates))).tolist()
    return [ratio(dict(enumerate(old)), dict(enumerate(new)), paired=paired) for old, new in sides]


@pytest.mark.parametrize("paired", [True, False])
def test_as_many_replicates_as_it_says_make_the_interval_as_narrow_as_the_margin(paired: bool) -> None:
    now = known(resolution(ratios(0.05, 5, paired=paired), 0.05))
    assert now.replicates == 5
    assert now.typical > 0.05
    assert known(resolution(ratios(0.05, now.enough, paired=paired), 0.05)).typical == pytest.approx(0.05, rel=0.25)


def test_the_resolution_of_the_worst_cell_is_told_beside_that_of_the_one_in_the_middle() -> None:
    found = known(resolution([*ratios(0.01, 5), *ratios(0.2, 5, cells=1)], 0.05))
    assert found.typical < 0.05 < found.worst
    assert found.enough <= 5 < found.enough_for_worst
    still = known(resolution([ratio({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}, paired=True)], 0.05))
    assert (still.typical, still.enough) == (0.0, 2)
    beyond_all_measure = ratio({0: 1.0, 1: 9.0}, {0: 9.0, 1: 1.0}, paired=True)
    assert known(resolution([beyond_all_measure], math.ulp(1.0))).enough == 10_000


# cells of two runs, or methods of one

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)
KNOWN = quantities([])
PAIRED = Terms(KNOWN["time"], KNOWN["time"], paired=True)
OOM = "no number (oom_host: no room)"


def slower(factor: float) -> list[float]:
    return [value * factor for value in STEADY]


def test_cells_of_one_key_are_compared_and_the_others_are_told() -> None:
    old = [writer.summary(writer.cell(N=N), STEADY) for N in (64, 128)]
    new = [writer.summary(writer.cell(N=N), STEADY) for N in (128, 256)]
    found = compare(comparing.same_cells(old, new), PAIRED)
    assert [(c.pair.any.cell.problem.N, c.verdict, c.reason, is_lost(c)) for c in found] == [
        (128, Verdict.SAME, "", False),
        (256, Verdict.ABSENT, "no such cell on the old side", False),
        (64, Verdict.ABSENT, "no such cell on the new side", True),
    ]


def test_a_cell_without_a_number_on_a_side_says_why_and_of_one_run_none_is_lost_or_gained() -> None:
    ok, cell = writer.summary(writer.cell("a"), STEADY), writer.cell("b")
    failed = writer.summary(cell, (), writer.failed(cell, Status.OOM_HOST, reason="no room"))
    pairs = [Pair(ok, failed), Pair(failed, ok), Pair(failed, failed)]
    assert [(each.verdict, each.reason) for each in compare(pairs, PAIRED)] == [
        (Verdict.LOST, "oom_host: no room"),
        (Verdict.GAINED, "before, oom_host: no room"),
        (Verdict.ABSENT, "oom_host: no room"),
    ]
    terms = replace(PAIRED, of_methods=True)
    found = compare([*pairs, Pair(None, ok)], terms)
    assert [(each.verdict, each.reason) for each in found] == [
        (Verdict.FAILS, f"the method has {OOM}"),
        (Verdict.RUNS, f"the baseline has {OOM}"),
        (Verdict.ABSENT, f"the baseline has {OOM}; the method has {OOM}"),
        (Verdict.ABSENT, "no baseline has a number here"),
    ]
    assert exit_of(found) is Exit.UNCLEAR
    same = compare([Pair(ok, ok)], terms)
    assert exit_of([*found, *same]) is Exit.FINE
    # of what was not run, or not to its end, nothing is known
    cut = writer.summary(cell, (), writer.failed(cell, Status.INTERRUPTED))
    for old, new, side in ((ok, writer.summary(cell, ()), "new"), (cut, ok, "old")):
        (unknown,) = compare([Pair(old, new)], PAIRED)
        assert (unknown.verdict, unknown.reason, is_lost(unknown)) == (Verdict.UNCLEAR, f"the {side} side was not run", False)
        assert exit_of([*same, unknown]) is Exit.UNCLEAR
    assert [each.reason for each in compare([Pair(ok, cut)], terms)] == ["the method was not run"]


def test_replicates_are_paired_only_where_the_terms_say_so() -> None:
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    old, new = writer.summary(writer.cell(), drift), writer.summary(writer.cell(), [1.2 * value for value in drift])
    (paired,) = compare([Pair(old, new)], PAIRED)
    (unpaired,) = compare([Pair(old, new)], replace(PAIRED, paired=False))
    assert (paired.verdict, unpaired.verdict) == (Verdict.SLOWER, Verdict.UNCLEAR)


@pytest.mark.parametrize(
    ("old", "new", "B", "want"),
    [
        *((100, 120, B, "SLOWER") for B in (1, 64)),
        *((120, 100, 1, "FASTER"), (100, 104, 1, "SAME"), (1, 1.5, 64, "SAME")),
        # nothing before or now has no ratio, and a size all the same
        *((0, 120, 1, "SLOWER"), (120, 0, 1, "FASTER"), (0, 0.5, 1, "SAME")),
    ],
)
def test_memory_is_read_once_and_judged_by_margin_and_a_megabyte_of_a_call(old: float, new: float, B: int, want: str) -> None:
    cell, counter = writer.cell(B=B), MainCounter("host_rss_peak", "profiler")

    def weighed(mebibytes: float, source: str = "profiler") -> CellSummary:
        read = Counter(bytes=int(mebibytes * 2**20), source=source)
        return writer.summary(cell, STEADY, writer.weighed(cell, host_rss_peak=read))

    sides = Pair(weighed(old), weighed(new))
    (beside,) = compare([sides], replace(PAIRED, counter=counter))
    assert (known(beside.memory).verdict.value, is_regression(beside)) == (want, want == "SLOWER")
    assert beside.verdict is Verdict.SAME
    memory = quantities([weighed(old)])["memory"]
    (alone,) = compare([sides], Terms(memory, memory, paired=True))
    assert (alone.verdict.value, alone.ratio and alone.ratio.interval) == (want, None)
    assert (alone.ratio and alone.ratio.value) == (pytest.approx(new / old) if old and new else None)
    assert exit_of([alone]) is (Exit.REGRESSION if want == "SLOWER" else Exit.FINE)
    # counters of two sources are never compared
    (apart,) = compare([Pair(weighed(old), weighed(new, "sampled"))], replace(PAIRED, counter=counter))
    assert apart.memory is None


def test_of_what_should_be_much_less_is_worse_and_what_is_missing_or_nothing_has_no_ratio() -> None:
    old, new = writer.summary(writer.cell(), STEADY), writer.summary(writer.cell(), slower(1.25))
    (found,) = compare([Pair(old, new)], Terms(KNOWN["tokens"], KNOWN["tokens"], paired=True))
    assert known(found.ratio).value == pytest.approx(0.8)
    assert found.verdict is Verdict.SLOWER
    assert is_regression(found)
    # a cell that never had the figure has not lost it where it fails
    failed = writer.summary(writer.cell(), (), writer.failed(writer.cell()))
    for missing in compare([Pair(old, old), Pair(old, failed)], Terms(KNOWN["loss"], KNOWN["loss"], paired=True)):
        assert (missing.verdict, missing.reason) == (Verdict.ABSENT, "no held-out loss was recorded")
    nothing, some = (CellSummary(writer.cell(), OK, scores={"output_error": {0: error}}) for error in (0.0, 0.1))
    terms = Terms(KNOWN["output_error"], KNOWN["output_error"], paired=True)
    as_before, now = compare([Pair(nothing, nothing), Pair(nothing, some)], terms)
    assert (as_before.verdict, as_before.reason) == (Verdict.SAME, "output error is 0 on both sides")
    assert (now.verdict, now.reason) == (Verdict.UNCLEAR, "output error is 0 or less on a side, and has no ratio")
    assert (exit_of([as_before]), exit_of([as_before, now])) == (Exit.FINE, Exit.UNCLEAR)


def judged(*news: float | str | None) -> list[Comparison]:
    """Cells that took a second, and now take so many, are `lost`, `noisy` or `new`, or are no longer planned."""
    pairs = []
    for i, new in enumerate(news):
        cell = writer.cell(N=64 * (i + 1))
        fails = [writer.failed(cell, Status.OOM_HOST)] if new == "lost" else []
        medians = [1.0, 1.4, 0.7, 1.2, 0.8] if new == "noisy" else slower(new) if isinstance(new, float) else STEADY
        now = None if new is None else writer.summary(cell, () if fails else medians, *fails)
        pairs.append(Pair(None if new == "new" else writer.summary(cell, STEADY), now))
    return compare(pairs, PAIRED)


@pytest.mark.parametrize(
    ("news", "want"),
    [
        pytest.param([1.001], Exit.FINE, id="what changes nothing passes"),
        pytest.param([1.2, 0.5], Exit.REGRESSION, id="one slower cell is one whatever became faster"),
        pytest.param(["lost"], Exit.LOST, id="a cell that used to run fails"),
        pytest.param([None, 1.0], Exit.LOST, id="a cell is no longer planned"),
        pytest.param(["lost", 1.3], Exit.REGRESSION, id="a proven regression is said before lost cells"),
        pytest.param(["noisy", 1.0], Exit.UNCLEAR, id="what cannot be told"),
        pytest.param(["new"], Exit.UNCLEAR, id="of new cells there is nothing to judge"),
        pytest.param([], Exit.UNCLEAR, id="nothing to judge is not fine"),
    ],
)
def test_one_exit_code_stands_for_all_cells(news: list[float | str | None], want: Exit) -> None:
    found = judged(*news)
    assert exit_of(found) is want
    assert comparing.unclear(found) == ({writer.cell(N=64).key} if "noisy" in news else set()), "that can be asked again"
    # what needs a look comes first
    found = comparing.worst_first(judged(1.01, 0.5, 1.3, "lost", 2.0))
    assert [c.pair.any.cell.problem.N // 64 for c in found] == [4, 5, 3, 2, 1]


@pytest.mark.parametrize(("most", "want"), [(2, [2]), (6, [6]), (10, [5, 10]), (25, [5, 10, 25]), (40, [5, 10, 20, 40])])
def test_looks_double_up_to_the_most_and_together_keep_to_the_level_of_one(most: int, want: list[int]) -> None:
    assert looks(most) == want
    assert level_of(len(want)) * len(want) == pytest.approx(LEVEL)
