"""Attentions whose time and memory are decided by their length alone."""

import time
from collections.abc import Callable

from plain import Plain
from torch import Tensor

from attnbench.api import Cell


def before(act: Callable[[Plain], object]) -> type[Plain]:
    """A class that does this before it attends."""

    def forward(method: Plain, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        act(method)
        return Plain.forward(method, q, k, v)

    return type("Before", (Plain,), {"forward": forward, "__module__": __name__})


def refuse(N: int, most: int, error: Exception) -> None:
    if most < N:
        raise error


# wait in proportion to the length, 50 ms at N = 500, or 50 ms
Steep = before(lambda method: time.sleep(1e-4 * method.problem.N if method.late else 0))
Level = before(lambda method: time.sleep(0.05 if method.late else 0))
# has room for 300 tokens; falls over above 400
Cramped = before(lambda method: refuse(method.problem.N, 300, MemoryError("there is room for 300 tokens")))
Fragile = before(lambda method: refuse(method.problem.N, 400, ValueError("this is too long")))


class Declines(Plain):
    """Takes nothing."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "it takes nothing"
