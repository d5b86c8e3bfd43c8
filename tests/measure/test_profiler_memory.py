"""torch's own CPU allocations: exact on known patterns, and what is kept for a backward, known by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnbench.measure.profiler_memory import saved_for_backward, torch_profiler_peak

Patterns = Callable[[str], dict[str, dict[str, Any]]]
N = 2**18
BYTES = 4 * N


def test_the_peak_of_a_known_pattern_is_within_one_percent(patterns: Patterns, pattern: str) -> None:
    found = patterns("system")[pattern]
    assert found["profiler"] == pytest.approx(found["expected"], rel=0.01)


def test_memory_that_malloc_retains_changes_no_peak(patterns: Patterns) -> None:
    found = patterns("retain")["forward and backward"]
    assert found["profiler"] == pytest.approx(found["expected"], rel=0.01)


def test_memory_freed_before_the_peak_does_not_count() -> None:
    def call() -> None:
        torch.ones(N)
        torch.ones(N)

    assert torch_profiler_peak(call).bytes == BYTES


def test_what_lived_before_the_call_does_not_count() -> None:
    x = torch.ones(8 * N)
    assert torch_profiler_peak(lambda: x.add_(1)).bytes == pytest.approx(0, abs=64)


def leaf() -> torch.Tensor:
    return torch.ones(N, requires_grad=True)


@pytest.mark.parametrize(
    ("forward", "tensors_kept"),
    [
        # exp and tanh keep their own output, which is not counted where it is the result
        (lambda x, y: x.exp(), 0),
        (lambda x, y: x.tanh(), 0),
        # a product keeps its two factors: leaves that lived before
        (lambda x, y: x * y, 0),
        (lambda x, y: x.exp() * y, 1),
        (lambda x, y: x.exp() * y.tanh(), 2),
        (lambda x, y: (x.exp() * y).tanh(), 1),
        # the sum keeps nothing: its input goes
        (lambda x, y: (x + y) + y, 0),
    ],
    ids=["exp", "tanh", "mul of leaves", "exp, mul", "exp, tanh, mul", "exp, mul, tanh", "add, add"],
)
def test_what_is_kept_for_a_backward_is_known_by_hand(
    forward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tensors_kept: int
) -> None:
    x, y = leaf(), leaf()
    assert saved_for_backward(lambda: forward(x, y)).bytes == pytest.approx(tensors_kept * BYTES, abs=64)


def test_nothing_is_kept_without_autograd() -> None:
    x, y = leaf(), leaf()
    with torch.no_grad():
        assert saved_for_backward(lambda: x.exp() * y.tanh()).bytes == 0
