"""Attentions that keep a known part of softmax attention, for the tests of fidelity."""

import torch
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Workload, default_scale, dense_flops, io_bytes


class Near(Attention):
    """Softmax over the keys at most `reach` away."""

    paper = "a fixture of the tests"

    def __init__(self, problem: Problem, reach: int = 0) -> None:
        super().__init__(problem)
        self.reach = reach

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        flops, moved = dense_flops(problem), io_bytes(problem, workload)
        return Cost(nominal_flops=flops, exact_flops=flops, executed_flops=flops, traffic_bytes=moved, peak_bytes=moved)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        far = torch.ones(q.shape[2], k.shape[2]).triu(self.reach + 1) + torch.ones(q.shape[2], k.shape[2]).tril(-self.reach - 1)
        scores = (q @ k.mT * default_scale(self.problem)).masked_fill(far > 0, -torch.inf)
        return scores.softmax(-1) @ v

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Near.forward(self, q, k, v)


class Spoilt(Near):
    """Not a number."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v) * torch.nan


class Asked(Near):
    """Refuses in words that tell which workload it was asked about."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return f"asked about {cell.workload}"
