"""Trends: what changed for a cell, when, and what is none of a change."""

import math
from functools import partial

import numpy as np
import pytest

from attnbench.analyze.trend import Trend, Trends, look, quantity_called
from attnbench.analyze.verdict import Verdict
from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Floats, Track
from attnbench.schema.problem import Problem
from tests.analyze.conftest import known, track_of

OOM = ("oom_host", "memory limit reached")
FAILS, UNTIMED = math.nan, math.inf
# a run a day, from the first of January on
DAYS = np.datetime64("2026-01-01") + np.arange(100)
ENTRIES = [Entry(f"s/{i}", "s", f"run{i}", f"{day}T00:00:00+00:00", "m") for i, day in enumerate(DAYS)]
track = partial(track_of, Cell(method="a", problem=Problem(N=8)))


def found(*tracks: Track, metric: str = "time", since: str = "") -> Trends:
    return look(ENTRIES, tracks, quantity_called(metric), 0.05, since)


def trend(*arguments: object, **more: object) -> Trend:
    (only,) = found(track(*arguments), **more).trends  # type: ignore[arg-type]
    return only


def noise(deviation: float, count: int) -> Floats:
    """A second each, off by a factor of that size."""
    return np.exp(np.random.default_rng(3).normal(0, deviation, count))


def test_a_step_up_is_slower_from_its_first_run_on() -> None:
    only = trend([0.010] * 10 + [0.013] * 8)
    (turn,) = only.turns
    assert (turn.verdict, turn.last, turn.first, only.state) == (Verdict.SLOWER, 9, 10, Verdict.SLOWER)
    assert [turn.before, turn.after, turn.factor] == pytest.approx([0.010, 0.013, 1.3])
    assert known(turn.interval).low < 1.3 < known(turn.interval).high
    # runs that lack the cell are not between the two that are named
    (turn,) = trend([0.010] * 8 + [0.013] * 8, [*range(8), *range(20, 28)]).turns
    assert (turn.last, turn.first) == (7, 20)


def test_a_series_is_the_same_only_where_few_runs_could_not_hide_a_change() -> None:
    quiet = trend(list(noise(0.005, 40)))
    assert (quiet.state, quiet.smallest) == (Verdict.SAME, 0.05)
    few, one = trend([1.0, 1.0, 1.0]), trend([0.01])
    assert (few.state, few.smallest) == (Verdict.UNCLEAR, math.inf)
    assert (one.state, one.noise, one.newest) == (Verdict.UNCLEAR, 0.0, 0.01)
    assert found().trends == ()


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
    # among many series it has to be larger
    one, *_ = found(track(list(noise(0.05, 24)))).trends
    first, *_ = found(*(track(list(noise(0.05, 24))) for _ in range(100))).trends
    assert first.smallest > one.smallest


WENT_BACK = [1.0] * 10 + [1.3] * 8 + [1.0] * 8
CAME_BACK = [0.010] * 5 + [FAILS] * 4 + [0.010] * 5
CAME_BACK_SLOWER = [0.010] * 8 + [FAILS] * 4 + [0.015] * 8
CAME_BACK_AS_SLOW = [0.010] * 8 + [0.015] * 8 + [FAILS] * 4 + [0.015] * 8


@pytest.mark.parametrize(
    ("numbers", "want", "regressed"),
    [
        pytest.param([0.013] * 10 + [0.010] * 8, [Verdict.FASTER], False, id="a step down is faster"),
        pytest.param(WENT_BACK, [Verdict.SLOWER, Verdict.FASTER], False, id="what went back is told"),
        pytest.param([0.010] * 10 + [FAILS], [Verdict.LOST], True, id="a failure of the newest run is said at once"),
        pytest.param([0.010] * 5 + [FAILS] + [0.010] * 5, [], False, id="a failure that passed is no change"),
        pytest.param(CAME_BACK, [Verdict.LOST, Verdict.GAINED], False, id="a cell comes back"),
        pytest.param([FAILS] * 4 + [0.010] * 5, [Verdict.GAINED], False, id="a cell runs at last"),
        pytest.param(CAME_BACK_SLOWER, [Verdict.LOST, Verdict.GAINED, Verdict.SLOWER], True, id="the last word is slower"),
        pytest.param(CAME_BACK_AS_SLOW, [Verdict.SLOWER, Verdict.LOST, Verdict.GAINED], True, id="no better than before"),
        pytest.param([FAILS] * 6, [], False, id="a cell that never ran is no regression"),
        pytest.param([UNTIMED] * 6, [], False, id="nor is one that is not timed"),
    ],
)
def test_only_worse_changes_that_stayed_are_regressions(numbers: list[float], want: list[Verdict], regressed: bool) -> None:
    seen = found(track(numbers))
    (only,) = seen.trends
    assert [turn.verdict for turn in only.turns] == want
    assert bool(seen.regressed) is regressed
    assert only.state is (want[-1] if want else Verdict.SAME if np.isfinite(numbers).any() else Verdict.ABSENT)
    assert only.passing == (numbers.count(FAILS) if not want and only.state is Verdict.SAME else 0)


def test_a_cell_that_fails_from_a_run_on_is_lost_with_its_reason() -> None:
    seen = found(track([0.010] * 10 + [FAILS] * 3))
    (turn,) = seen.trends[0].turns
    assert (turn.verdict, turn.last, turn.first) == (Verdict.LOST, 9, 10)
    assert (turn.before, turn.status, turn.reason, turn.interval) == (0.010, *OOM, None)
    assert seen.regressed == [seen.trends[0]]
    (turn,) = trend([0.0] * 10 + [FAILS] * 3, metric="run_difference").turns
    assert (turn.verdict, turn.before, math.isnan(turn.factor)) == (Verdict.LOST, 0.0, True)
    silent = trend([0.010] * 10 + [0.013] * 8 + [UNTIMED])
    assert (silent.state, math.isnan(silent.newest), silent.regressed) == (Verdict.ABSENT, True, True)
    # where no such figure was ever recorded none is lost, though the cell fails
    other = trend([UNTIMED] * 10 + [FAILS] * 3, metric="accuracy")
    assert (other.turns, other.regressed, other.state) == ((), False, Verdict.ABSENT)
    never, untimed = trend([FAILS] * 6), trend([UNTIMED] * 6)
    assert (math.isnan(never.newest), never.failing, untimed.failing) == (True, True, False)


@pytest.mark.parametrize(("day", "told"), [(11, 1), (12, 0)])
def test_only_changes_since_a_date_are_told_and_older_runs_still_count(day: int, told: int) -> None:
    seen = found(track([0.010] * 10 + [0.013] * 8), since=f"2026-01-{day}T00:00:00+00:00")
    assert len(seen.trends[0].turns) == len(seen.regressed) == told
    assert len(seen.trends[0].steps) == 1


def test_numbers_of_another_counter_or_without_a_ratio_are_left_out_and_counted() -> None:
    only = trend([9e9] * 3 + [2e8] * 8 + [3e8] * 8, None, [1] * 3 + [0] * 16, metric="memory")
    (turn,) = only.turns
    assert [turn.first, turn.before, turn.after] == pytest.approx([11, 2e8, 3e8])
    assert (turn.verdict, only.other_counters, only.newest) == (Verdict.SLOWER, 3, 3e8)
    only = trend([0.5] * 8 + [0.0, -0.1] + [0.5] * 8, metric="cosine")
    assert (only.turns, only.not_positive, len(only.used)) == ((), 2, 16)


@pytest.mark.parametrize(
    ("metric", "before", "after", "want"),
    [
        # whether more is better decides what a change is
        ("loss", 0.5, 0.8, [Verdict.SLOWER]),
        ("accuracy", 0.5, 0.8, [Verdict.FASTER]),
        ("accuracy", 0.9, 0.0, [Verdict.SLOWER]),
        ("flops", 0.5, 0.8, [Verdict.FASTER]),
        # a few pages of memory are none, and of a state that is counted by shape they are
        *((name, 1e3, 900e3, []) for name in ("memory", "torch_profiler_peak")),
        ("state", 1e3, 900e3, [Verdict.SLOWER]),
    ],
)
def test_what_a_change_is_depends_on_the_figure(metric: str, before: float, after: float, want: list[Verdict]) -> None:
    seen = found(track([before] * 8 + [after] * 8), metric=metric)
    assert [turn.verdict for turn in seen.trends[0].turns] == want
    assert bool(seen.regressed) is (want == [Verdict.SLOWER])
