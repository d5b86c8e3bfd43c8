"""A stand-in for a package's projection to q, k and v, so that only its attention runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from torch import Tensor, nn


class Carrier(nn.Module):
    """Replaces a projection to q, k and v, whose result the package splits by `chunk`; that returns the carried tensors."""

    carried: tuple[Tensor, ...] = ()

    def forward(self, _: Tensor) -> Self:
        """Return itself, for the package to split."""
        return self

    def chunk(self, parts: int, dim: int) -> tuple[Tensor, ...]:  # noqa: ARG002 - as a tensor is cut along its columns
        """Return q, k and v."""
        assert parts == len(self.carried)
        return self.carried


@contextmanager
def carried(carrier: Carrier, tensors: tuple[Tensor, ...]) -> Iterator[None]:
    """Make the carrier return these tensors during one call."""
    carrier.carried = tensors
    try:
        yield
    finally:
        carrier.carried = ()
