"""Rules that pool the samples of all processes: right where samples are independent, and wrong where processes differ."""

import random

import pytest

from attnbench.analyze.pooled import rules
from attnbench.analyze.power import Hits


def sides(between: float, within: float, count: int = 60, processes: int = 10) -> list[tuple[list[float], list[float]]]:
    """Samples of both sides, of processes that differ by one spread and vary by another."""
    noise = random.Random(5)

    def side() -> list[float]:
        means = [1 + noise.gauss(0, between) for _ in range(processes)]
        return [mean * (1 + noise.gauss(0, within)) for mean in means for _ in range(20)]

    return [(side(), side()) for _ in range(count)]


def test_where_processes_do_not_differ_pooling_does_no_harm() -> None:
    ranks, means, limit = rules(sides(between=0.0, within=0.03), 0.05)
    assert (ranks.alarms.share or 0) < 0.15
    assert (means.alarms.share or 0) < 0.15
    assert limit.alarms == Hits(0, 60)


def test_where_they_do_pooled_tests_call_noise_a_difference() -> None:
    ranks, means, _ = rules(sides(between=0.03, within=0.01), 0.05)
    assert (ranks.alarms.share or 0) > 0.4
    assert (means.alarms.share or 0) > 0.4


def test_a_slow_down_is_looked_for_by_multiplying_side_b() -> None:
    for rule in rules(sides(between=0.005, within=0.01), 0.05):
        assert rule.sought[1] == Hits(60, 60), rule.name
        assert rule.sought[0].of == 60


def test_a_fast_side_b_is_an_alarm_and_no_find() -> None:
    (rule,) = [rule for rule in rules([([1.0, 1.01, 0.99] * 5, [0.5, 0.51, 0.49] * 5)], 0.05) if "Welch" in rule.name]
    assert rule.alarms == Hits(1, 1)
    assert rule.sought == (Hits(0, 1), Hits(0, 1))


@pytest.mark.parametrize("values", [[1.0] * 6, [1.0, 1.0]])
def test_samples_that_are_all_alike_are_told_from_none(values: list[float]) -> None:
    assert [rule.alarms for rule in rules([(values, values)], 0.05)] == [Hits(0, 1)] * 3


def test_no_verdicts_give_no_alarms() -> None:
    assert all(rule.alarms == Hits(0, 0) for rule in rules([], 0.05))
