"""Giving a temporary name to an attention that is passed as a class or as an object.

The harness checks and builds methods by their names.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, cast

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.cell import Batch, Cell, Workload

_LARGEST = 2**27
"""The most scores B H N² on which an object is compared with its dense reference: a gibibyte in float64."""


class Built:
    """An object in the place of its class: it has the attributes of the class, and a call returns a copy of the object."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the class has
        return getattr(type(self.attention), name)

    def __call__(self, *_: object) -> Attention:
        """Return a copy, which may be moved to another device and changed. Raises ValueError where it would not be compiled."""
        made = copy.deepcopy(self.attention)
        if self.attention._compiled_call_impl and not made._compiled_call_impl:
            raise ValueError("a copy is timed, without what torch.compile made of the attention: give its name, with +compile")
        return made

    def check_cell(self, cell: Cell) -> Cell:
        """Return a cell with the object's own problem, because its parameters may fit no smaller one.

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
    """Give the name by which the registry finds a method; a class or an object is registered only inside of this."""
    if isinstance(method, str):
        yield method
        return
    cls = method if isinstance(method, type) else type(method)
    name, found = f"{cls.__module__}.{cls.__qualname__}", method if isinstance(method, type) else Built(method)
    known = registry.catalogue()
    # an entry point of something that is already imported
    known[name] = cast("EntryPoint", SimpleNamespace(value=name, module="", dist=None, load=lambda: found))
    try:
        yield name
    finally:
        del known[name]
