"""The roof: ceilings that are positive, from few products."""

import pytest
import torch

from attnbench.measure import roof
from attnbench.measure.clock import WallClock


@pytest.mark.parametrize(
    ("durations", "best", "calls"), [([0.001, 0.09, 0.05, 0.06, 0.07, 0.08, 0.01], 0.05, 6), ([3.0] * 9, 3.0, 2)]
)
def test_the_best_of_five_counts_after_a_warm_up_and_of_slow_products_fewer(
    monkeypatch: pytest.MonkeyPatch, durations: list[float], best: float, calls: int
) -> None:
    taken: list[float] = []
    monkeypatch.setattr(roof, "perf_counter", lambda: sum(taken))
    monkeypatch.setattr("attnbench.measure.clock.perf_counter_ns", lambda: int(sum(taken) * 1e9))
    assert roof._best(WallClock(), lambda: taken.append(durations[len(taken)])) == pytest.approx(best)
    assert len(taken) == calls


def test_a_processor_without_fast_products_of_a_dtype_gets_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, n in ((0.001, 2048), (0.02, 512)):
        monkeypatch.setattr(roof, "_best", lambda clock, call, seconds=seconds: seconds)
        assert roof._affordable(torch.float32) == n


def test_the_roof_counts_two_flops_a_multiply_add_and_both_sides_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 64)
    monkeypatch.setattr(roof, "_best", lambda clock, call, repeats=5: 0.5)
    assert roof.measure("cpu", "float32")[:2] == (2 * 64**3 / 0.5, 2 * 2**28 / 0.5)


@pytest.mark.parametrize(
    ("ceiling", "precision"), [("float32", "highest"), ("float32, matmul high", "high"), ("bfloat16", "highest")]
)
def test_a_roof_is_of_the_precision_that_it_stands_over(monkeypatch: pytest.MonkeyPatch, ceiling: str, precision: str) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 64)
    monkeypatch.setattr(roof, "_REPEATS", 1)
    assert min(roof.measure("cpu", ceiling)) > 0
    # and puts back what it found
    assert asked == [precision, torch.get_float32_matmul_precision()]


@pytest.mark.cuda
def test_the_roof_of_a_gpu_is_above_that_of_any_cpu() -> None:
    flops_per_second, bytes_per_second, cached = roof.measure("cuda:0", "bfloat16")
    assert flops_per_second > 1e12
    assert cached > bytes_per_second > 1e10


def test_short_products_count_where_long_ones_had_no_moment_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "_affordable", lambda dtype: 1024)
    # a long product was held up for ten seconds, a short one was not
    monkeypatch.setattr(roof, "_best", lambda clock, call, repeats=5: 10.0 if repeats == 5 else 0.001)
    assert roof.measure("cpu", "float32")[0] == 2 * 512**3 / 0.001
