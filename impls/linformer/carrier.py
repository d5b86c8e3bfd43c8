"""A stand-in for a package's projection, so that only its attention runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


class Carrier(nn.Module):
    """Replaces a projection, and returns the carried tensor whatever its input is."""

    carried: Tensor | None = None

    def forward(self, _: Tensor) -> Tensor:
        """Return the carried tensor."""
        assert self.carried is not None
        return self.carried


@contextmanager
def carried(carriers: tuple[Carrier, ...], tensors: tuple[Tensor, ...]) -> Iterator[None]:
    """Make each carrier return its tensor during one call."""
    for carrier, x in zip(carriers, tensors, strict=True):
        carrier.carried = x
    try:
        yield
    finally:
        for carrier in carriers:
            carrier.carried = None
