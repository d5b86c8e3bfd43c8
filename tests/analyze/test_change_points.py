"""Change points: steps are found at the right run, as others find them, and noise, single bad runs and drift are none."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.change_points import FEWEST, LEVEL, STAY, deviation, segment, steps
from attnbench.schema.history import Floats

MARGIN = 0.05
NOISE = 0.03
STEP = math.log(1.1)
Noise = Callable[[np.random.Generator, int], Floats]


def normal(rng: np.random.Generator, n: int) -> Floats:
    return NOISE * rng.standard_normal(n)


def with_bad_runs(rng: np.random.Generator, n: int) -> Floats:
    """One run in thirty takes half as long again, or twice as long."""
    found: Floats = normal(rng, n) + rng.choice([0.0, math.log(1.5), math.log(2)], n, p=[29 / 30, 1 / 60, 1 / 60])
    return found


# Student's t of three degrees, of the same deviation: now and then a run is bad by many of them
NOISES: dict[str, Noise] = {
    "normal": normal,
    "heavy": lambda rng, n: NOISE * rng.standard_t(3, n) / math.sqrt(3),
    "with bad runs": with_bad_runs,
}


def still(seed: int, n: int) -> Floats:
    """A series in which nothing changes."""
    return normal(np.random.default_rng(seed), n)


def found_in(y: Floats, margin: float = MARGIN) -> list[int]:
    return [step.at for step in segment(y, margin)]


def trial(rng: np.random.Generator, count: int, noise: Noise, n: int = 60, height: float = STEP) -> tuple[Floats, list[int]]:
    """A series with so many steps up or down, at least ten runs from each other and from the ends, and where they are."""
    cuts = np.sort(rng.integers(0, n - (count + 1) * 10 + 1, count))
    at = [int(cut) + 10 * (i + 1) for i, cut in enumerate(cuts)]
    heights = height * rng.choice([-1, 1], count)
    y = noise(rng, n)
    for place, each in zip(at, heights, strict=True):
        y[place:] += each
    return y, at


def score(trials: Sequence[tuple[Floats, list[int]]]) -> tuple[float, float, int]:
    """Of the steps that were told, the share that is there, to one run; of those that are there, the share told; all told."""
    true = told = hits = 0
    for y, at in trials:
        found = found_in(y)
        true, told = true + len(at), told + len(found)
        hits += sum(any(abs(step - place) <= 1 for step in found) for place in at)
    return hits / max(1, told), hits / max(1, true), told


def many(count: int, steps: Sequence[int], noise: Noise, seed: int) -> list[tuple[Floats, list[int]]]:
    rng = np.random.default_rng(seed)
    return [trial(rng, steps[number % len(steps)], noise) for number in range(count)]


SLOW = (pytest.mark.slow, pytest.mark.timeout(1200))


@pytest.mark.parametrize(
    ("noise", "trials", "steps", "alarms"),
    [
        *((noise, 300, (1, 2), 2) for noise in NOISES),
        *(pytest.param(noise, 10_000, (0, 1, 2), 20 if noise == "normal" else 200, marks=SLOW) for noise in NOISES),
    ],
)
def test_steps_of_ten_per_cent_are_found_in_three_per_cent_of_noise_to_one_run_and_noise_alone_has_none(
    noise: str, trials: int, steps: Sequence[int], alarms: int
) -> None:
    precision, recall, _ = score(many(trials, steps, NOISES[noise], seed=1))
    assert precision >= 0.95
    assert recall >= 0.95
    *_, false = score(many(trials, (0,), NOISES[noise], seed=2))
    assert false <= alarms


@pytest.mark.parametrize("factor", [1.1, 1.25, 2.0, 10.0])
def test_a_step_in_a_long_series_is_one_step_however_high(factor: float) -> None:
    rng = np.random.default_rng(17)
    precision, recall, told = score([trial(rng, 2, normal, 1000, math.log(factor)) for _ in range(60)])
    assert precision >= 0.95
    assert recall >= 0.95
    assert told <= 2 * 60 + 1


def test_over_many_series_false_alarms_are_controlled_together() -> None:
    rng = np.random.default_rng(5)
    quiet, stepped = [normal(rng, 60) for _ in range(200)], [trial(rng, 1, normal) for _ in range(50)]
    found = steps([*quiet, *(y for y, _ in stepped)], MARGIN)
    assert sum(map(len, found[:200])) == 0
    assert sum(len(each) == 1 for each in found[200:]) >= 45
    # a step that is just clear enough alone is not among many series
    noise, up = rng.normal(0, NOISE, 40), np.repeat([0.0, 1.0], 20)
    weak = next(y for height in np.linspace(0.05, 0.2, 200) if segment(y := noise + height * up, MARGIN))
    clear = noise + 0.3 * up
    quiet = [rng.normal(0, NOISE, 40) for _ in range(200)]
    assert steps([weak], MARGIN) == [segment(weak, MARGIN)]
    assert steps([weak, clear, *quiet], MARGIN) == [(), segment(clear, MARGIN), *([()] * 200)]


@pytest.mark.parametrize(
    ("places", "factor"),
    [
        *(((at,), factor) for at in (0, 1, 2, 10, 28, 29) for factor in (1.5, 20.0, 0.1)),
        *((places, 2.0) for places in ((10, 11), (10, 12), (10, 12, 14), (27, 29), (0, 2))),
    ],
)
def test_bad_runs_that_went_by_are_no_change(places: tuple[int, ...], factor: float) -> None:
    y = still(7, 30)
    y[list(places)] += math.log(factor)
    assert found_in(y) == []


def test_a_change_counts_once_it_has_stayed_for_two_runs_and_a_level_that_went_by_for_three() -> None:
    y = still(9, 40)
    y[-2:] += math.log(1.5)
    assert (found_in(y[:-1]), found_in(y)) == ([], [38])
    rng, sizes = np.random.default_rng(18), set()
    for _ in range(100):
        sizes |= {b - a for a, b in pairwise(found_in(with_bad_runs(rng, 1000)))}
    assert min(sizes) == 3


def test_drift_and_a_step_below_the_margin_are_none_however_clear_and_two_below_it_are_one_above() -> None:
    rng = np.random.default_rng(11)
    for noise in (0.0, 0.001, 0.01, NOISE):
        assert found_in(np.linspace(0, 0.01, 100) + rng.normal(0, 1, 100) * noise) == []
    y = np.repeat([0.0, math.log(1.04)], 50) + rng.normal(0, 0.001, 100)
    assert (found_in(y, 0.05), found_in(y, 0.03)) == ([], [50])
    y = np.repeat([0.0, math.log(1.04), math.log(1.08)], [30, 2, 30]) + rng.normal(0, 0.002, 62)
    (at,) = found_in(y, 0.05)
    assert at in {30, 31, 32}


def test_numbers_without_any_noise_give_their_step_exactly_and_fewer_than_four_have_none() -> None:
    (step,) = segment(np.repeat([2.0, 3.0], [7, 9]), MARGIN)
    assert [step.at, step.before, step.after] == pytest.approx([7, 2, 3])
    assert found_in(np.full(50, 2.0)) == []
    for n in range(FEWEST):
        assert found_in(np.array([10.0 * i for i in range(n)])) == []
    assert steps([], MARGIN) == []


def test_the_interval_of_a_step_holds_the_truth_as_often_as_it_says() -> None:
    found = [step for y, _ in many(300, (1,), normal, seed=15) for step in segment(y, MARGIN)]
    held = [abs(abs(step.after - step.before) - STEP) <= step.half for step in found]
    assert 0.90 <= sum(held) / len(held) <= 0.99


def test_the_noise_is_told_from_steps_and_bad_runs() -> None:
    y = still(16, 2000)
    y[1000:] += 1
    y[::50] += 2
    assert deviation(y) == pytest.approx(NOISE, rel=0.1)
    assert deviation(np.zeros(1)) == 0


@settings(deadline=None, max_examples=150)
@given(y=st.lists(st.floats(-30, 30) | st.sampled_from([0.0, 1.0, 1.05, 2.0]), max_size=60), margin=st.floats(0.001, 2))
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
    assert found_in(y + shift) == found_in(y)


# Apache Otava and asv, in environments of their own

CASES: dict[str, tuple[list[int], list[float]]] = {
    "none": ([60], [1.0]),
    "slower": ([30, 30], [1.0, 1.3]),
    "faster": ([25, 35], [1.0, 0.7]),
    "twice": ([20, 20, 20], [1.0, 1.3, 1.7]),
    "and back": ([20, 20, 20], [1.0, 1.4, 1.0]),
    "long": ([100, 150, 50], [1.0, 1.2, 0.9]),
}
OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for series in json.load(sys.stdin):
    found, _ = compute_change_points(series, window_len=50, max_pvalue=0.001, min_magnitude=0.05)
    print(json.dumps([int(each.index) for each in found]))
"""
ASV = """
import json, sys
from asv.step_detect import detect_steps
for series in json.load(sys.stdin):
    print(json.dumps([int(step[0]) for step in detect_steps(series)[1:]]))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("package", "program"), [("apache-otava", OTAVA), ("asv", ASV)])
def test_on_clear_cases_others_find_the_same_and_true_steps_to_one_run(tmp_path: Path, package: str, program: str) -> None:
    rng = np.random.default_rng(1)
    # milliseconds with two per cent of noise
    series = [np.repeat(levels, sizes) * 12.0 * np.exp(rng.normal(0, 0.02, sum(sizes))) for sizes, levels in CASES.values()]
    ours = [found_in(np.log(each)) for each in series]
    assert ours == [list(np.cumsum(sizes)[:-1]) for sizes, _ in CASES.values()]
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path)], check=True)
    python, text = str(tmp_path / "bin" / "python"), json.dumps([each.tolist() for each in series])
    subprocess.run([python, "-m", "pip", "install", "-q", package], check=True, capture_output=True)
    done = subprocess.run([python, "-c", program], input=text, capture_output=True, text=True, check=True)
    for name, own, other in zip(CASES, ours, map(json.loads, done.stdout.splitlines()), strict=True):
        assert len(own) == len(other), (name, own, other)
        assert all(abs(a - b) <= 1 for a, b in zip(own, other, strict=True)), (name, own, other)
