"""A place for q, k and v where a package projects its input, so that its attention alone runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from torch import Tensor, nn


class Carrier(nn.Module):
    """Stands where one projection to q, k and v was: what it gives is cut by `chunk`, which here gives what it carries."""

    carried: tuple[Tensor, ...] = ()

    def forward(self, _: Tensor) -> Self:
        """Itself, to be cut."""
        return self

    def chunk(self, parts: int, dim: int) -> tuple[Tensor, ...]:  # noqa: ARG002 - as a tensor is cut along its columns
        """q, k and v."""
        assert parts == len(self.carried)
        return self.carried


@contextmanager
def carried(carrier: Carrier, tensors: tuple[Tensor, ...]) -> Iterator[None]:
    """Load it for the time of one call."""
    carrier.carried = tensors
    try:
        yield
    finally:
        carrier.carried = ()
