"""Trends: what changed for a cell, when, and what is none of a change."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from attnbench.analyze.trend import Metric, Trend, Trends, look
from attnbench.analyze.verdict import Verdict
from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Floats, Track
from attnbench.schema.problem import Problem

OOM = ("oom_host", "memory limit reached")


def entries(count: int) -> list[Entry]:
    """A run a day, from the first of January on."""
    day = np.datetime64("2026-01-01")
    return [Entry(f"s/{i}", "s", f"run{i}", f"{day + i}T00:00:00+00:00", "m") for i in range(count)]


def track(
    seconds: Sequence[float], runs: Sequence[int] | None = None, bytes_: Sequence[float] = (), counters: Sequence[int] = ()
) -> Track:
    """NaN is a failure, infinity a cell that was measured but not timed."""
    values = np.array(seconds, dtype=float)
    count = len(values)
    return Track(
        suite="s",
        machine="m",
        cell=Cell(method="a", problem=Problem(N=8)),
        runs=np.arange(count) if runs is None else np.array(runs),
        seconds=np.where(np.isfinite(values), values, math.nan),
        spread=np.full(count, 0.01),
        bytes=np.array(bytes_ or [math.nan] * count),
        counters=np.array(counters or [0 if bytes_ else -1] * count),
        failures=np.where(np.isnan(values), 0, -1),
        names=("rss", "profiler"),
        reasons=(OOM,),
    )


def found(*tracks: Track, metric: Metric = Metric.TIME, since: str = "") -> Trends:
    return look(entries(100), tracks, metric, 0.05, since)


def trend(*arguments: object, **more: object) -> Trend:
    (only,) = found(track(*arguments), **more).trends  # type: ignore[arg-type]
    return only


def verdicts(only: Trend) -> list[Verdict]:
    return [turn.verdict for turn in only.turns]


def test_a_step_up_is_slower_from_its_first_run_on() -> None:
    only = trend([0.010] * 10 + [0.013] * 8)
    (turn,) = only.turns
    assert (turn.verdict, turn.last, turn.first, only.state) == (Verdict.SLOWER, 9, 10, Verdict.SLOWER)
    assert [turn.before, turn.after, turn.factor] == pytest.approx([0.010, 0.013, 1.3])
    assert turn.interval is not None
    assert turn.interval.low < 1.3 < turn.interval.high


def noise(deviation: float, count: int) -> Floats:
    """A second each, off by a factor of that size."""
    return np.exp(np.random.default_rng(3).normal(0, deviation, count))


def test_noise_that_could_hide_a_change_leaves_a_series_unclear_and_says_what_it_could_show() -> None:
    """±37 % from run to run hide 60 %: that is no series without a change."""
    values = noise(0.37, 12)
    values[6:] *= 1.6
    only = trend(list(values))
    assert (only.turns, only.state) == ((), Verdict.UNCLEAR)
    assert 0.6 < only.smallest < math.inf


def test_a_quiet_series_of_many_runs_stays_the_same() -> None:
    only = trend(list(noise(0.005, 40)))
    assert (only.state, only.smallest) == (Verdict.SAME, 0.05)


def test_too_few_runs_could_show_no_change_at_all() -> None:
    only = trend([1.0, 1.0, 1.0])
    assert (only.state, only.smallest) == (Verdict.UNCLEAR, math.inf)


def test_a_change_of_the_smallest_size_that_could_be_seen_is_seen_nine_times_in_ten() -> None:
    random = np.random.default_rng(5)
    hits, sizes = 0, []
    for _ in range(200):
        still = np.exp(random.normal(0, 0.05, 24))
        sizes.append(trend(list(still)).smallest)
        still[12:] *= 1 + sizes[-1]
        hits += trend(list(still)).state is Verdict.SLOWER
    assert 0.8 <= hits / 200 <= 1.0
    assert 0.1 < np.median(sizes) < 0.3


def test_among_many_series_a_change_has_to_be_larger_to_be_seen() -> None:
    one, *_ = found(track(list(noise(0.05, 24)))).trends
    first, *_ = found(*(track(list(noise(0.05, 24))) for _ in range(100))).trends
    assert first.smallest > one.smallest


def test_a_step_down_is_faster_and_no_regression() -> None:
    seen = found(track([0.013] * 10 + [0.010] * 8))
    assert verdicts(seen.trends[0]) == [Verdict.FASTER]
    assert seen.regressed == []


def test_what_went_back_is_told_and_is_no_regression_any_more() -> None:
    seen = found(track([0.010] * 10 + [0.013] * 8 + [0.010] * 8))
    assert verdicts(seen.trends[0]) == [Verdict.SLOWER, Verdict.FASTER]
    assert seen.regressed == []


def test_runs_that_lack_the_cell_are_not_between_the_two_that_are_named() -> None:
    only = trend([0.010] * 8 + [0.013] * 8, [*range(8), *range(20, 28)])
    assert [(turn.last, turn.first) for turn in only.turns] == [(7, 20)]


def test_a_cell_that_fails_from_a_run_on_is_lost_with_its_reason() -> None:
    seen = found(track([0.010] * 10 + [math.nan] * 3))
    (turn,) = seen.trends[0].turns
    assert (turn.verdict, turn.last, turn.first) == (Verdict.LOST, 9, 10)
    assert (turn.before, turn.status, turn.reason) == (0.010, *OOM)
    assert turn.interval is None
    assert seen.regressed == [seen.trends[0]]


def test_a_cell_that_fails_in_the_newest_run_is_lost_at_once() -> None:
    assert verdicts(trend([0.010] * 10 + [math.nan])) == [Verdict.LOST]


def test_a_failure_that_passed_is_no_change_and_is_counted() -> None:
    only = trend([0.010] * 5 + [math.nan] + [0.010] * 5)
    assert (verdicts(only), only.passing, only.state) == ([], 1, Verdict.SAME)


def test_a_cell_that_comes_back_is_gained() -> None:
    assert verdicts(trend([0.010] * 5 + [math.nan] * 4 + [0.010] * 5)) == [Verdict.LOST, Verdict.GAINED]
    assert verdicts(trend([math.nan] * 4 + [0.010] * 5)) == [Verdict.GAINED]


def test_of_a_cell_that_comes_back_slower_the_last_word_is_that() -> None:
    only = trend([0.010] * 8 + [math.nan] * 4 + [0.015] * 8)
    assert verdicts(only) == [Verdict.LOST, Verdict.GAINED, Verdict.SLOWER]
    assert only.turns[-1].last == 7


def test_a_cell_that_never_ran_is_absent_and_no_regression() -> None:
    seen = found(track([math.nan] * 6))
    assert (seen.trends[0].state, seen.regressed) == (Verdict.ABSENT, [])
    assert math.isnan(seen.trends[0].newest)


def test_a_cell_that_is_not_timed_is_absent_of_time() -> None:
    only = trend([math.inf] * 6)
    assert (only.state, only.failing) == (Verdict.ABSENT, False)


@pytest.mark.parametrize(("since", "told"), [("", 1), ("2026-01-11T00:00:00+00:00", 1), ("2026-01-12T00:00:00+00:00", 0)])
def test_only_changes_since_a_date_are_told_and_older_runs_still_count(since: str, told: int) -> None:
    seen = found(track([0.010] * 10 + [0.013] * 8), since=since)
    assert len(seen.trends[0].turns) == told
    assert len(seen.regressed) == told
    assert len(seen.trends[0].steps) == 1


def test_memory_is_followed_by_the_counter_that_was_read_last() -> None:
    bytes_ = [9e9] * 3 + [2e8] * 8 + [3e8] * 8
    only = trend([0.01] * 19, None, bytes_, [1] * 3 + [0] * 16, metric=Metric.MEMORY)
    (turn,) = only.turns
    assert [turn.first, turn.before, turn.after] == pytest.approx([11, 2e8, 3e8])
    assert (only.other_counters, only.newest) == (3, 3e8)


def test_a_few_pages_of_memory_are_no_change() -> None:
    assert trend([0.01] * 16, None, [0.0] * 8 + [900e3] * 8, metric=Metric.MEMORY).turns == ()


def test_time_that_stays_while_memory_grows_is_no_change_of_time() -> None:
    both = track([0.01] * 16, None, [2e8] * 8 + [3e8] * 8)
    assert found(both).trends[0].turns == ()
    assert verdicts(found(both, metric=Metric.MEMORY).trends[0]) == [Verdict.SLOWER]


def test_a_history_of_one_run_has_no_change() -> None:
    only = trend([0.01])
    assert (only.state, only.few, only.noise, only.newest) == (Verdict.UNCLEAR, True, 0.0, 0.01)


def test_no_tracks_have_no_trends() -> None:
    assert found().trends == ()
