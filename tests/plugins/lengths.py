"""Attentions whose time and memory are decided by their length alone."""

import time

from plain import Plain
from torch import Tensor

from attnbench.api import Cell


class Steep(Plain):
    """Waits in proportion to the length: 50 ms at N = 500."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        time.sleep(1e-4 * self.problem.N if self.late else 0)
        return super().forward(q, k, v)


class Level(Plain):
    """Waits 50 ms."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        time.sleep(0.05 if self.late else 0)
        return super().forward(q, k, v)


class Cramped(Plain):
    """Has room for 300 tokens."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.problem.N > 300:
            raise MemoryError("there is room for 300 tokens")
        return super().forward(q, k, v)


class Fragile(Plain):
    """Falls over above 400 tokens."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.problem.N > 400:
            raise ValueError("this is too long")
        return super().forward(q, k, v)


class Declines(Plain):
    """Takes nothing."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "it takes nothing"
