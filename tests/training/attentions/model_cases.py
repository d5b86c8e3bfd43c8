"""Attentions for the tests of models: each does one thing that a model must bear with."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Workload, dense_flops, io_bytes


class Plain(Attention):
    """Exact attention that cannot decode."""

    paper = "a fixture of the tests"

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        flops, moved = dense_flops(problem), io_bytes(problem, workload)
        return Cost(nominal_flops=flops, exact_flops=flops, executed_flops=flops, traffic_bytes=moved)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.problem.causal, enable_gqa=True)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Plain.forward(self, q, k, v)


class Picky(Plain):
    """Takes multiples of eight tokens, and shapes of its own problem only."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "it takes multiples of 8 tokens" if cell.problem.N % 8 else None

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        assert q.shape[:3] == (self.problem.B, self.problem.H, self.problem.N)
        return super().forward(q, k, v)


class ByRoot(Plain):
    """Another function at another length."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.window = round(problem.N**0.5)


class Wide(Plain):
    """Has a weight for each position."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.weight = nn.Parameter(torch.ones(problem.N, 1))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v) * self.weight


class Told(Plain):
    """Knows which layer it is in."""

    def __init__(self, problem: Problem, layer: int = 7, layers: int = 1) -> None:
        super().__init__(problem)
        self.place = (layer, layers)


class Draws(Plain):
    """Drops some outputs at random, at each call anew."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o = super().forward(q, k, v)
        return o * (torch.rand(o.shape) > 0.2).to(o.dtype)


class Bursts(Plain):
    """Gives no finite number from its third call in training on."""

    calls: ClassVar[int] = 0

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        type(self).calls += self.training
        return super().forward(q, k, v) * (float("nan") if type(self).calls > 2 and self.training else 1)


class Moves(Plain):
    """Has a buffer that follows the mean of the values, and a penalty on it; its choice is an offset."""

    centre: Tensor

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.register_buffer("centre", torch.zeros(problem.H, 1, problem.M))

    def choose(self, *inputs: Tensor) -> Tensor:
        return inputs[2].detach().mean((0, 2), keepdim=True).sign()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        chosen = self.choose(q, k, v) if choices is None else choices
        return super().forward(q, k, v) + self.centre * chosen

    def penalty(self, *inputs: Tensor, choices: Tensor | None) -> Tensor:
        assert choices is not None
        return 0.5 * (inputs[2] - choices).square().mean()

    def learn(self, *inputs: Tensor, choices: Tensor | None) -> None:
        assert choices is not None
        self.centre += 0.1 * (inputs[2].mean((0, 2)).unsqueeze(1) - self.centre)
