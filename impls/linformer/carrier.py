"""A place for a tensor where a package projects its input, so that its attention alone runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


class Carrier(nn.Module):
    """Stands where a projection was, and gives what it carries, whatever it is given."""

    carried: Tensor | None = None

    def forward(self, _: Tensor) -> Tensor:
        """What it carries."""
        assert self.carried is not None
        return self.carried


@contextmanager
def carried(carriers: tuple[Carrier, ...], tensors: tuple[Tensor, ...]) -> Iterator[None]:
    """Load each for the time of one call."""
    for carrier, x in zip(carriers, tensors, strict=True):
        carrier.carried = x
    try:
        yield
    finally:
        for carrier in carriers:
            carrier.carried = None
