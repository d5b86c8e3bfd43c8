"""Biases by relative position inside the window: Transformer-XL's (Dai et al. 2019, section 3.3), as in Lingle 2023.

B or b batch, H heads, N tokens, L reach, D query/key width, P width of the sinusoids.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from attnbench.api import Problem

from .reference import XLBias

BASE = 1e5
"""Longest wavelength of the sinusoids / 2π."""


class RelativeBias(nn.Module):
    """Scores (q + u)·k̂_j + (q + v)·r_{i-j}, with r_t = W (sin t ω, cos t ω) up to t = L and 0 beyond.

    Parameters u, v [H, D] start as 0, and W [H, D, P], P = D, is drawn from N(0, 1 / P). All are multiplied by `factor`.
    """

    def __init__(self, problem: Problem, reach: int, factor: float) -> None:
        super().__init__()
        H, D, dtype = problem.H, problem.D, getattr(torch, problem.dtype)
        self.reach, self.factor = reach, factor
        self.u, self.v = (nn.Parameter(torch.zeros(H, D, dtype=dtype)) for _ in range(2))
        # drawn in float32, so that all dtypes of a comparison have the same numbers
        self.w = nn.Parameter((torch.randn(H, D, D) / math.sqrt(D)).to(dtype))
        self.sinusoids = Sinusoids(reach, D)

    def to_content(self, q: Tensor) -> Tensor:
        """Compute q + u, [B, H, N, D], for the scores with keys and codes."""
        return q + (self.factor * self.u).unsqueeze(1)

    def to_position(self, q: Tensor) -> Tensor:
        """Compute q + v, [B, H, N, D], for the scores with r."""
        return q + (self.factor * self.v).unsqueeze(1)

    def rows(self, reach: int) -> Tensor:
        """Compute r_t for t = reach … 0, [H, reach + 1, D]: the farthest first, in the order of a window's keys."""
        r: Tensor = self.factor * (self.sinusoids(reach).to(self.w.dtype) @ self.w.mT)
        return r

    def of_last(self, q: Tensor, filled: int) -> Tensor:
        """Compute the bias of the newest of `filled` tokens with all of them: [b, H, 1, D] -> [b, H, 1, filled]."""
        # W is applied to the query: one product, whatever the window
        seen = min(filled, self.reach + 1)
        through_w = self.factor * (self.to_position(q) @ self.w)
        scores = through_w @ self.sinusoids(seen - 1).to(q.dtype).mT
        bias: Tensor = nn.functional.pad(scores, (filled - seen, 0))
        return bias

    def as_defined(self) -> XLBias:
        """Return the parameters for the reference."""
        return XLBias(self.u, self.v, self.w, self.factor, BASE)


class Sinusoids(nn.Module):
    """Sines in the first half, cosines in the other, of t base^(-2p / P); Vaswani et al. 2017, section 3.5.

    Kept in float64, whatever the module is cast to, so that all dtypes of a comparison share them.
    """

    table: Tensor
    """Sinusoids for t = L … 0, [L + 1, P]."""

    def __init__(self, reach: int, width: int) -> None:
        super().__init__()
        waves = torch.exp(-2 * math.log(BASE) / width * torch.arange((width + 1) // 2, dtype=torch.float64))
        angles = torch.arange(reach, -1, -1, dtype=torch.float64).unsqueeze(1) * waves
        self.register_buffer("table", torch.cat((angles.sin(), angles.cos()), 1)[:, :width], persistent=False)

    def forward(self, reach: int) -> Tensor:
        """Return the sinusoids for t = reach … 0, [reach + 1, P]."""
        return self.table[len(self.table) - 1 - reach :]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(lambda x: x.to(fn(x).device), recurse)  # type: ignore[no-untyped-call]
        return self
