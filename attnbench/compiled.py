"""Any eager method compiled by torch.compile for the shapes of its cell: what it costs to be plain torch.

Such a method is called as the one it is made of, with `+compile` at the end.
"""

import inspect
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from attnbench.api import Attention, Cell, Problem, Scalar, Tier

COMPILERS = ("g++", "clang++", "c++")
"""What torch.compile looks for on a CPU; a GPU needs Triton, which comes with torch."""


@cache
def compiled(method: type[Attention]) -> type[Attention]:
    """Return the class of a method that is compiled at its first call, with static shapes; it refuses what that refuses."""

    class Compiled(method):  # type: ignore[misc, valid-type]
        tier = Tier.COMPILED
        decodes = False

        def __init__(self, problem: Problem, **params: Scalar) -> None:
            super().__init__(problem, **params)
            self.compile(dynamic=False)

        @classmethod
        def why_not(cls, cell: Cell) -> str | None:
            """Refuse what is compiled already, and a machine without a compiler."""
            if method.tier is not Tier.EAGER:
                return f"its tier is {method.tier}: only eager methods are compiled"
            if cell.device_kind == "cpu" and not any(map(shutil.which, COMPILERS)):
                return f"torch.compile needs a C++ compiler: {', '.join(COMPILERS)}"
            reason: str | None = super().why_not(cell)
            return reason

        @contextmanager
        def observe(self) -> Iterator[dict[str, Scalar]]:
            """Record also how many graphs this process compiled, and where Python had to step in between."""
            # torch imports its compiler at the first use
            from torch._dynamo.utils import counters

            with super().observe() as noted:
                yield noted
            noted |= {"graphs": counters["stats"]["unique_graphs"], "graph_breaks": sum(counters["graph_break"].values())}

    Compiled.__name__, Compiled.__qualname__, Compiled.__module__ = method.__name__, method.__qualname__, method.__module__
    Compiled.__doc__, Compiled.__signature__ = method.__doc__, inspect.signature(method)
    return Compiled
