"""How many pairs of a query and a key, or a block, the branches have.

N tokens, L tokens of a block, C complete blocks, E blocks chosen by a query. Of one head, over all queries of a workload.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Problem, Workload

from .choosing import Choice

WALKS = {Workload.FORWARD: 2, Workload.FORWARD_BACKWARD: 7}
"""Products of each pair in a fused kernel: two forward; backward the scores again, dP, dq, dk and dv."""


@dataclass(frozen=True)
class Pairs:
    """Of the queries at `tokens`, int64."""

    tokens: Tensor
    choice: Choice

    @classmethod
    def of(cls, p: Problem, workload: Workload, choice: Choice) -> "Pairs":
        """All queries, or the last one alone."""
        return cls(torch.arange(p.N - 1 if workload is Workload.DECODE else 0, p.N), choice)

    @property
    def own(self) -> int:
        """Of the own block."""
        return int((self.tokens % self.choice.block + 1).sum())

    @property
    def chosen(self) -> int:
        """Of chosen earlier blocks."""
        earlier = (self.tokens // self.choice.block).clamp(max=self.choice.count)
        return int(earlier.sum()) * self.choice.block

    @property
    def candidates(self) -> int:
        """Blocks before the own one."""
        return int((self.tokens // self.choice.block).sum())

    @property
    def complete(self) -> int:
        """Blocks that have ended."""
        return int(((self.tokens + 1) // self.choice.block).sum())

    def window(self, width: int) -> int:
        """The last `width` tokens."""
        return int((self.tokens + 1).clamp(max=width).sum())


def products(workload: Workload) -> float:
    """FLOPs of a pair and a column of D + M, by the definition: two products, four more in the backward."""
    return 2.0 * (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0)


def causal_pairs(length: int) -> int:
    """Of a block of that many tokens: queries in the kernel's own blocks, each up to the last key that one of them sees."""
    step = queries_at_once(length)
    return sum(min(step, length - a) * min(a + step, length) for a in range(0, length, step))


def queries_at_once(length: int) -> int:
    """Of torch's fused kernel, by how many queries there are."""
    return 256 if length >= 768 else 64 if length >= 192 else 32
