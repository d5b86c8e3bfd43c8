"""An attention that is given as a class or as an object, under a name for as long as it is needed.

The harness knows methods by name, where it checks them and where it builds them.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, cast

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.cell import Batch, Cell, Workload

_LARGEST = 2**27
"""B H N² of the largest problem on which an object is compared with its dense reference: a gibibyte of float64 scores."""


class Built:
    """An object in the place of its class: asked as the class is, and called for a copy of the object."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the class has
        return getattr(type(self.attention), name)

    def __call__(self, *_: object) -> Attention:
        """A copy, which may be moved to another device and changed."""
        return copy.deepcopy(self.attention)

    def check_cell(self, cell: Cell) -> Cell:
        """Its own problem: its parameters may fit no smaller one.

        Raises ValueError where the reference would be too large and the method defines no rows.
        """
        p, rows = cell.problem, type(self.attention).rows
        if rows is Attention.rows and p.B * p.H * p.N**2 > _LARGEST:
            raise ValueError(
                f"N={p.N} is too long to check an attention that is already built and defines no rows: "
                "give its class and parameters"
            )
        differentiated = cell.model_copy(update={"workload": Workload.FORWARD_BACKWARD, "batch": Batch.FIXED})
        return cell if cell.workload.decodes or self.attention.refusal(differentiated) else differentiated


@contextmanager
def named(method: str | type[Attention] | Attention) -> Iterator[str]:
    """The name by which the registry finds a method; one that is no name itself is known only inside."""
    if isinstance(method, str):
        yield method
        return
    cls = method if isinstance(method, type) else type(method)
    name = f"{cls.__module__}.{cls.__qualname__}"
    known = registry.catalogue()
    known[name] = cast("EntryPoint", _Here(name, method if isinstance(method, type) else Built(method)))
    try:
        yield name
    finally:
        del known[name]


@dataclass(frozen=True)
class _Here:
    """What an entry point is asked for, of something that is already imported."""

    value: str
    method: type[Attention] | Built
    module: str = ""
    dist: None = None

    def load(self) -> type[Attention] | Built:
        return self.method
