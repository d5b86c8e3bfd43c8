"""Forms of a method that its name asks for: `+compile`, by torch.compile, and `+packed`, documents in one row."""

import inspect
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Tier, Workload


@cache
def compiled(method: type[Attention]) -> type[Attention]:
    """Return the class of a method that is compiled at its first call, with static shapes; it refuses what that refuses."""

    class Compiled(method):  # type: ignore[misc, valid-type]
        tier = Tier.COMPILED
        decodes = False

        def __init__(self, problem: Problem, **params: Scalar) -> None:
            super().__init__(problem, **params)
            _compile(self)

        def __setstate__(self, state: dict[str, Any]) -> None:
            """Compile a copy too, from which torch leaves out what was compiled."""
            super().__setstate__(state)
            _compile(self)

        @classmethod
        def why_not(cls, cell: Cell) -> str | None:
            """Refuse what is compiled already, and a machine without a compiler."""
            if method.tier is not Tier.EAGER:
                return f"its tier is {method.tier}: only eager methods are compiled"
            # a GPU needs Triton, which comes with torch
            if cell.device_kind == "cpu" and shutil.which(compiler := os.environ.get("CXX", "g++")) is None:
                return f"torch.compile needs a C++ compiler, and {compiler} is not there: install g++, or name another by CXX"
            reason: str | None = super().why_not(cell)
            return reason

        @classmethod
        def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:
            """Count as the method does: one that is built to be asked would have torch import its compiler."""
            return method.cost(problem, params, workload)

        @contextmanager
        def observe(self) -> Iterator[dict[str, Scalar]]:
            """Record into how many graphs torch compiles meanwhile, and how often Python steps in."""
            before = _compiled_so_far()
            with super().observe() as noted:
                yield noted
            noted |= {name: count - before[name] for name, count in _compiled_so_far().items()}

    return _named_as(method, Compiled)


def _compile(attention: Attention) -> None:
    # torch imports its compiler at the first use
    from torch._dynamo import config

    # after as many shapes, which are 8, torch would run others in Python, and not say so
    config.recompile_limit = config.accumulated_recompile_limit = 2**16
    attention.compile(dynamic=False, backend=_from_nothing)


def _from_nothing(graph: Any, inputs: Any) -> Any:  # noqa: ANN401 - torch's own
    """Compile as torch does unless told otherwise, but whatever it has on disk, of a backward too.

    Random numbers are those of plain torch, so that what a method draws in a call, as buckets, is known to its proof.
    """
    from torch._dynamo.backends.inductor import inductor

    return inductor(graph, inputs, config_patches={"force_disable_caches": True, "fallback_random": True})


def _compiled_so_far() -> dict[str, int]:
    """Count graphs and breaks in this process."""
    from torch._dynamo.utils import counters

    return {"graphs": counters["stats"]["unique_graphs"], "graph_breaks": sum(counters["graph_break"].values())}


@cache
def packed(method: type[Attention]) -> type[Attention]:
    """Return the class of a method for documents that lie one after the other in one row, none of which sees another.

    Its problem names their lengths, or is a padded batch whose sequences they are. By definition each is by itself.
    """

    class Packed(method):  # type: ignore[misc, valid-type]
        decodes = masks = False

        def __init__(self, problem: Problem, **params: Scalar) -> None:
            super().__init__(problem.in_one_row, **params)

        @classmethod
        def refusal(cls, cell: Cell) -> str | None:
            """Refuse what has nothing to pack, or cannot be packed; and what the method refuses of the row that is made."""
            if not cell.problem.padding and not cell.problem.documents:
                return "there is nothing to pack: set padding, whose sequences are laid into one row"
            if cell.workload not in {Workload.FORWARD, Workload.FORWARD_BACKWARD}:
                return "whole sequences are packed; take forward or forward_backward"
            if not method.packs:
                return "it does not attend documents of any length"
            reason: str | None = super().refusal(cell.laid)
            return reason

        @classmethod
        def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:
            """Add up the costs of all documents."""
            single = problem.model_copy(update={"B": 1, "padding": 0.0, "documents": ()})
            lengths = problem.in_one_row.documents
            return _sum([method.cost(single.model_copy(update={"N": N}), params, workload) for N in lengths])

        def forward(self, *inputs: Tensor) -> Tensor:
            """Attend all documents: [1, heads, N, ·] each -> [1, H, N, M]."""
            o: Tensor = self.attend_documents(super().forward, inputs, self.problem.documents)
            return o

        def reference(self, *inputs: Tensor) -> Tensor:
            """Compute the definition of each document by itself."""
            return Attention.attend_documents(self, super().reference, inputs, self.problem.documents)

        def rows(self, head: int, at: Tensor, *inputs: Tensor) -> Tensor:
            """Compute the rows `at`, each by the document that it is in."""
            found, start = [], 0
            for part in zip(*(x.split(self.problem.documents) for x in inputs), strict=True):
                own = at[(at >= start) & (at < start + len(part[0]))] - start
                found += [super().rows(head, own, *part)] if len(own) else []
                start += len(part[0])
            return torch.cat(found)

        def exact(self, *inputs: Tensor) -> Tensor:
            """Attend by softmax within each document."""
            return Attention.attend_documents(self, super().exact, inputs, self.problem.documents)

    return _named_as(method, Packed)


def _sum(costs: list[Cost | None]) -> Cost | None:
    """Add costs up; None where one is unknown."""
    if any(cost is None for cost in costs):
        return None
    return Cost(**{name: sum(getattr(cost, name) for cost in costs) for name in Cost.model_fields})


def _named_as(method: type[Attention], form: type[Attention]) -> type[Attention]:
    """Give a form the name, the place and the signature of its method, by which it is described."""
    form.__name__, form.__qualname__, form.__module__ = method.__name__, method.__qualname__, method.__module__
    form.__doc__, form.__signature__ = method.__doc__, inspect.signature(method)  # type: ignore[attr-defined]
    return form
