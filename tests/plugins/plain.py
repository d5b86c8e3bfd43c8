"""A right, plain attention that other fixtures spoil."""

import os
from pathlib import Path

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, Workload, dense_flops, io_bytes


class Plain(Attention):
    """Softmax attention, written out."""

    paper = "a fixture of the tests"

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        flops = dense_flops(problem)
        return Cost(nominal_flops=flops, exact_flops=flops, executed_flops=flops, traffic_bytes=io_bytes(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if self.problem.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        o: Tensor = scores.softmax(-1) @ v
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Plain.forward(self, q, k, v)

    @property
    def late(self) -> bool:
        """Whether this is a real cell and not the small one of the check: faults wait for it."""
        return self.problem.N > 64


class Marked(Plain):
    """Says by a line in a file that it ran: so a test sees which process did."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        with Path(os.environ["ATTNBENCH_TEST_MARKS"]).open("a") as marks:
            marks.write(f"{os.getpid()} {problem.N}\n")


class WithParameter(Plain):
    """Has a parameter."""

    def __init__(self, problem: Problem, chunk: int = 4) -> None:
        super().__init__(problem)
        if chunk < 1:
            raise ValueError(f"chunk={chunk} must be at least 1")
