"""Change points: steps are found at the right run, and noise, single bad runs and drift are none."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.change_points import FEWEST, LEVEL, STAY, Step, deviation, segment, steps
from attnbench.schema.history import Floats

MARGIN = 0.05
NOISE = 0.03
STEP = math.log(1.1)
Noise = Callable[[np.random.Generator, int], Floats]


def normal(rng: np.random.Generator, n: int) -> Floats:
    return NOISE * rng.standard_normal(n)


def heavy(rng: np.random.Generator, n: int) -> Floats:
    """Student's t of three degrees, of the same deviation: now and then a run is bad by many of them."""
    found: Floats = NOISE * rng.standard_t(3, n) / math.sqrt(3)
    return found


def with_bad_runs(rng: np.random.Generator, n: int) -> Floats:
    """One run in thirty takes half as long again, or twice as long."""
    found: Floats = normal(rng, n) + rng.choice([0.0, math.log(1.5), math.log(2)], n, p=[29 / 30, 1 / 60, 1 / 60])
    return found


@dataclass
class Score:
    """Steps that were there, that were told, and that were both, to one run."""

    true: int = 0
    told: int = 0
    hits: int = 0
    offs: list[int] = field(default_factory=list)

    def add(self, true: Sequence[int], found: Sequence[Step]) -> None:
        self.true, self.told = self.true + len(true), self.told + len(found)
        near = [min((abs(step.at - at) for step in found), default=99) for at in true]
        self.hits += sum(off <= 1 for off in near)
        self.offs += near

    @property
    def precision(self) -> float:
        return self.hits / max(1, self.told)

    @property
    def recall(self) -> float:
        return self.hits / max(1, self.true)


def places(rng: np.random.Generator, count: int, n: int, apart: int = 10) -> list[int]:
    """Where steps are: at least so many runs from each other and from the ends."""
    room = n - (count + 1) * apart
    cuts = np.sort(rng.integers(0, room + 1, count))
    return [int(cut) + apart * (i + 1) for i, cut in enumerate(cuts)]


def trial(rng: np.random.Generator, count: int, noise: Noise, n: int = 60) -> tuple[Floats, list[int]]:
    at = places(rng, count, n)
    heights = STEP * rng.choice([-1, 1], count)
    y = noise(rng, n)
    for place, height in zip(at, heights, strict=True):
        y[place:] += height
    return y, at


def score(trials: int, counts: Sequence[int], noise: Noise, seed: int) -> Score:
    rng, found = np.random.default_rng(seed), Score()
    for number in range(trials):
        y, at = trial(rng, counts[number % len(counts)], noise)
        found.add(at, segment(y, MARGIN))
    return found


@pytest.mark.parametrize("noise", [normal, heavy, with_bad_runs])
def test_steps_of_ten_per_cent_are_found_in_three_per_cent_of_noise_to_one_run(noise: Noise) -> None:
    found = score(300, (1, 2), noise, seed=1)
    assert found.precision >= 0.95
    assert found.recall >= 0.95


@pytest.mark.parametrize("noise", [normal, heavy, with_bad_runs])
def test_noise_alone_has_no_step(noise: Noise) -> None:
    assert score(300, (0,), noise, seed=2).told <= 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("noise", [normal, heavy, with_bad_runs])
def test_the_same_of_ten_thousand_series(noise: Noise) -> None:
    found = score(10_000, (0, 1, 2), noise, seed=3)
    assert found.precision >= 0.95
    assert found.recall >= 0.95
    assert score(10_000, (0,), noise, seed=4).told <= (20 if noise is normal else 200)


def test_over_many_series_false_alarms_are_controlled_together() -> None:
    rng = np.random.default_rng(5)
    quiet = [normal(rng, 60) for _ in range(200)]
    stepped = [trial(rng, 1, normal) for _ in range(50)]
    found = steps([*quiet, *(y for y, _ in stepped)], MARGIN)
    assert sum(map(len, found[:200])) == 0
    assert sum(len(each) == 1 for each in found[200:]) >= 45


def test_a_step_that_is_just_clear_enough_alone_is_not_among_many_series() -> None:
    rng = np.random.default_rng(6)
    noise, up = rng.normal(0, NOISE, 40), np.repeat([0.0, 1.0], 20)
    weak = next(y for height in np.linspace(0.05, 0.2, 200) if segment(y := noise + height * up, MARGIN))
    clear = noise + 0.3 * up
    quiet = [rng.normal(0, NOISE, 40) for _ in range(200)]
    assert steps([weak], MARGIN) == [segment(weak, MARGIN)]
    assert steps([weak, clear, *quiet], MARGIN) == [(), segment(clear, MARGIN), *([()] * 200)]


def test_a_level_that_went_by_has_stayed_for_three_runs() -> None:
    rng, sizes = np.random.default_rng(18), set()
    for _ in range(100):
        edges = [step.at for step in segment(with_bad_runs(rng, 1000), MARGIN)]
        sizes |= {b - a for a, b in pairwise(edges)}
    assert min(sizes) == 3


@pytest.mark.parametrize("at", [0, 1, 2, 10, 28, 29])
@pytest.mark.parametrize("factor", [1.5, 20.0, 0.1])
def test_a_single_bad_run_is_no_change(at: int, factor: float) -> None:
    y = normal(np.random.default_rng(7), 30)
    y[at] += math.log(factor)
    assert segment(y, MARGIN) == ()


@pytest.mark.parametrize("places_", [(10, 11), (10, 12), (10, 12, 14), (27, 29), (0, 2)])
def test_bad_runs_that_went_by_are_no_change(places_: tuple[int, ...]) -> None:
    y = normal(np.random.default_rng(8), 30)
    y[list(places_)] += math.log(2)
    assert segment(y, MARGIN) == ()


def test_a_change_counts_once_it_has_stayed_for_two_runs() -> None:
    y = normal(np.random.default_rng(9), 40)
    y[-2:] += math.log(1.5)
    assert segment(y[:-1], MARGIN) == ()
    assert [step.at for step in segment(y, MARGIN)] == [38]


def test_a_single_bad_run_beside_a_step_hides_it_from_nobody() -> None:
    y = normal(np.random.default_rng(10), 60)
    y[30:] += STEP * 2
    y[25] += 3
    y[34] -= 3
    (step,) = segment(y, MARGIN)
    assert step.at == 30
    assert math.exp(step.after - step.before) == pytest.approx(1.21, rel=0.04)


def test_drift_of_one_per_cent_is_no_change() -> None:
    rng = np.random.default_rng(11)
    for noise in (0.0, 0.001, 0.01, NOISE):
        assert segment(np.linspace(0, 0.01, 100) + rng.normal(0, 1, 100) * noise, MARGIN) == ()


def test_a_step_below_the_margin_is_none_however_clear() -> None:
    y = np.repeat([0.0, math.log(1.04)], 50) + np.random.default_rng(12).normal(0, 0.001, 100)
    assert segment(y, 0.05) == ()
    assert [step.at for step in segment(y, 0.03)] == [50]


def test_two_steps_below_the_margin_are_one_above_it() -> None:
    y = np.repeat([0.0, math.log(1.04), math.log(1.08)], [30, 2, 30]) + np.random.default_rng(13).normal(0, 0.002, 62)
    (step,) = segment(y, 0.05)
    assert step.at in {30, 31, 32}


def test_numbers_without_any_noise_give_their_step_exactly() -> None:
    (step,) = segment(np.repeat([2.0, 3.0], [7, 9]), MARGIN)
    assert [step.at, step.before, step.after] == pytest.approx([7, 2, 3])
    assert segment(np.full(50, 2.0), MARGIN) == ()


def test_up_and_down_again_are_two_steps() -> None:
    y = normal(np.random.default_rng(14), 80)
    y[30:40] += STEP * 2
    assert [step.at for step in segment(y, MARGIN)] == [30, 40]


@pytest.mark.parametrize("factor", [1.1, 1.25, 2.0, 10.0])
def test_a_step_in_a_long_series_is_one_step_however_high(factor: float) -> None:
    rng, found = np.random.default_rng(17), Score()
    for _ in range(60):
        at, y = places(rng, 2, 1000), normal(rng, 1000)
        for place in at:
            y[place:] += math.log(factor) * rng.choice([-1, 1])
        found.add(at, segment(y, MARGIN))
    assert found.precision >= 0.95
    assert found.recall >= 0.95
    assert found.told <= found.true + 1


def test_the_interval_of_a_step_holds_the_truth_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(15), []
    for _ in range(300):
        y, _ = trial(rng, 1, normal)
        held += [abs(abs(step.after - step.before) - STEP) <= step.half for step in segment(y, MARGIN)]
    assert 0.90 <= sum(held) / len(held) <= 0.99


def test_fewer_than_four_numbers_have_no_step() -> None:
    for n in range(FEWEST):
        assert segment(np.array([10.0 * i for i in range(n)]), MARGIN) == ()
    assert steps([], MARGIN) == []


def test_the_noise_is_told_from_steps_and_bad_runs() -> None:
    rng = np.random.default_rng(16)
    y = rng.normal(0, NOISE, 2000)
    y[1000:] += 1
    y[::50] += 2
    assert deviation(y) == pytest.approx(NOISE, rel=0.1)
    assert deviation(np.zeros(1)) == 0


@settings(deadline=None, max_examples=150)
@given(
    y=st.lists(st.one_of(st.floats(-30, 30), st.sampled_from([0.0, 1.0, 1.05, 2.0])), max_size=60),
    margin=st.floats(0.001, 2),
)
def test_whatever_the_numbers_are_steps_are_high_apart_and_sure(y: list[float], margin: float) -> None:
    found = segment(np.array(y), margin)
    edges = [0, *(step.at for step in found), len(y)]
    assert all(b - a >= STAY for a, b in pairwise(edges)) or not found
    for step in found:
        assert abs(step.after - step.before) >= math.log1p(margin) * (1 - 1e-9)
        assert step.p <= LEVEL
        assert step.half > 0


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), shift=st.floats(-20, 20))
def test_the_unit_of_the_numbers_does_not_matter(seed: int, shift: float) -> None:
    y, _ = trial(np.random.default_rng(seed), 2, normal)
    assert [s.at for s in segment(y + shift, MARGIN)] == [s.at for s in segment(y, MARGIN)]
