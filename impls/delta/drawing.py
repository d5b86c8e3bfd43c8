"""Inputs beyond N(0, 1): keys of length 1, strengths, log decays.

B batch, H heads, N tokens, D query/key width, G decays of a token: 1, or D.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Layout, Problem, draw

SLOWEST, FASTEST = 0.001, 0.1
"""Between these softplus(bias) lies, evenly in its logarithm."""


def unit(x: Tensor) -> Tensor:
    """X / |x|: a key longer than 1 can make the delta rule diverge."""
    return F.normalize(x, dim=-1)


def strengths(problem: Problem, generator: torch.Generator, layout: Layout) -> Tensor:
    """β = σ(x), x ~ N(0, 1): [B, H, N]."""
    return draw(problem, problem.H, 1, generator, layout).sigmoid().squeeze(-1)


def log_decays(problem: Problem, width: int, generator: torch.Generator, layout: Layout) -> Tensor:
    """Log α = -A softplus(x + bias), x ~ N(0, 1), as layers of this kind start: [B, H, N, G], below 0.

    A ~ U(1, 16) for each head; bias for each head and channel such that softplus(bias) lies between 0.001 and 0.1
    (Dao and Gu 2024, arXiv:2405.21060, whose gate arXiv:2412.06464 and arXiv:2510.26692 take over).
    """
    x = draw(problem, problem.H, width, generator, layout)
    evenly = _uniform((problem.H, 1, width), generator)
    rates = 1 + 15 * _uniform((problem.H, 1, 1), generator)
    steps = SLOWEST * (FASTEST / SLOWEST) ** evenly
    # the inverse of softplus
    bias = steps + (-(-steps).expm1()).log()
    return (-rates * F.softplus(x.to(bias.dtype) + bias)).to(x.dtype)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
