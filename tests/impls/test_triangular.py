"""Unit triangular systems by the inverse of blocks: solutions and gradients are those of substitution."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

# by name: installed under another name than that of its folder
triangular: Any = import_module("attnbench_impls.partial.triangular")


@settings(max_examples=60, deadline=None)
@given(L=st.integers(1, 200), widths=st.lists(st.integers(1, 9), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_every_side_is_solved_as_by_substitution_whatever_is_above_the_diagonal(L: int, widths: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(2, 3, L, L, generator=generator, dtype=torch.float64) / L**0.5
    sides = [torch.randn(2, 3, L, W, generator=generator, dtype=torch.float64) for W in widths]
    for b, x in zip(sides, triangular.solve(a, *sides), strict=True):
        want = torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)
        torch.testing.assert_close(x, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("L", [1, 5, 16, 18, 40, 64])
def test_its_gradient_is_that_of_the_solution(L: int) -> None:
    generator = torch.Generator().manual_seed(L)
    a, b, c = (torch.randn(2, L, W, generator=generator, dtype=torch.float64).requires_grad_() for W in (L, 3, 2))
    torch.autograd.gradcheck(lambda a, b, c: triangular.solve(a / L, b, c), (a, b, c))


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("L", [64, 128])
def test_one_key_written_again_and_again_loses_no_digits(L: int, beta: float) -> None:
    b = torch.randn(4, L, 8, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    a = torch.full((4, L, L), beta, dtype=torch.float64)
    (want,) = triangular.solve(a, b)
    (x,) = triangular.solve(a.float(), b.float())
    torch.testing.assert_close(x.double(), want, rtol=0, atol=3e-6 * float(want.abs().max()))
