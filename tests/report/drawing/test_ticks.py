import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.drawing.ticks import byte_ticks, factor_ticks, length_ticks, time_ticks


def test_times_are_marked_in_si_steps() -> None:
    assert [text for _, text in time_ticks(5e-6, 3)] == ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]


def test_a_narrow_range_of_times_has_ones_twos_and_fives() -> None:
    assert [text for _, text in time_ticks(0.9e-3, 6e-3)] == ["1 ms", "2 ms", "5 ms"]


def test_bytes_are_marked_in_powers_of_two() -> None:
    assert [text for _, text in byte_ticks(2**20, 2**32)] == ["1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB"]


@given(st.floats(1e-9, 1e3), st.floats(4, 1e9))
def test_every_range_has_a_few_ticks_inside(low: float, ratio: float) -> None:
    for ticks in (time_ticks(low, low * ratio), byte_ticks(low, low * ratio)):
        assert 1 <= len(ticks) <= 7
        assert all(low <= value <= low * ratio * (1 + 1e-9) for value, _ in ticks)
        assert len({text for _, text in ticks}) == len(ticks)


def test_lengths_that_would_overlap_are_left_out() -> None:
    ticks = length_ticks([512, 1000, 1024, 2048], per_doubling=0.3, space=0.2)
    assert ticks == [(512.0, "512"), (1000.0, "1000"), (2048.0, "2k")]
    assert math.log2(1024 / 1000) * 0.3 < 0.2


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 20, ["0.01", "0.1", "1", "10"]),
        (0.3, 12, ["0.5", "1", "2", "5", "10"]),
        (0.22, 1.5, ["0.3", "0.5", "0.7", "1", "1.5"]),
        (0.85, 1.2, ["0.9", "1", "1.1"]),
    ],
)
def test_factors_are_marked_over_the_whole_range_and_not_around_one_alone(low: float, high: float, words: list[str]) -> None:
    assert [text for _, text in factor_ticks(low, high)] == words
