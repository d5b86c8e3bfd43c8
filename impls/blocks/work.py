"""Numbers of pairs of a query and a key, or of a query and a block, in each branch.

N tokens, L tokens of a block, C complete blocks, E blocks chosen by a query. All counts are for one head, over all queries of a
workload.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import Problem, Workload

from ..partial.fused import queries_at_once
from .eager.choosing import Choice

WALKS = {Workload.FORWARD: 2, Workload.FORWARD_BACKWARD: 7}
"""Matrix products per pair in a fused kernel: two forward; five backward, which are scores again, dP, dq, dk and dv."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of the queries at `tokens`, int64, in one head."""

    tokens: Tensor
    choice: Choice

    @classmethod
    def of(cls, p: Problem, workload: Workload, choice: Choice) -> "Pairs":
        """Count for all queries, or for DECODE the last one alone."""
        return cls(torch.arange(p.N - 1 if workload is Workload.DECODE else 0, p.N), choice)

    @property
    def own(self) -> int:
        """Count the keys of own blocks up to each query."""
        return int((self.tokens % self.choice.block + 1).sum())

    @property
    def chosen(self) -> int:
        """Count the keys of chosen earlier blocks."""
        earlier = (self.tokens // self.choice.block).clamp(max=self.choice.count)
        return int(earlier.sum()) * self.choice.block

    @property
    def candidates(self) -> int:
        """Count the blocks before each query's own one, which it chooses from; 0 where only the own one is attended."""
        return int((self.tokens // self.choice.block).sum()) if self.choice.count else 0

    @property
    def earlier(self) -> int:
        """Count the keys of those blocks."""
        return self.candidates * self.choice.block

    @property
    def complete(self) -> int:
        """Count the blocks that are complete at each query."""
        return int(((self.tokens + 1) // self.choice.block).sum())

    def window(self, width: int) -> int:
        """Count the keys within the last `width` tokens."""
        return int((self.tokens + 1).clamp(max=width).sum())


def products(workload: Workload) -> float:
    """Count the FLOPs per pair and per column of D + M, by the definition: two products, and four more in the backward."""
    return 2.0 * (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0)


def causal_pairs(length: int) -> int:
    """Count the pairs that the fused kernel computes in a causal block: each group of queries takes all keys up to its last."""
    step = queries_at_once(length)
    return sum(min(step, length - a) * min(a + step, length) for a in range(0, length, step))
