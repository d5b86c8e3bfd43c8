"""Record how a package sorts, or make it sort as recorded, without changing its code."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Collect the result of each call of torch.argsort inside, in order."""
    orders: list[Tensor] = []

    def note(*args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401 - as they come
        orders.append(torch.argsort(*args, **kwargs))
        return orders[-1]

    with _Argsort(note):
        yield orders


@contextmanager
def replayed(orders: Sequence[Tensor]) -> Iterator[None]:
    """Make each call of torch.argsort inside return the next of these orders."""
    left = iter(orders)
    with _Argsort(lambda *_, **__: next(left)):
        yield


class _Argsort(TorchFunctionMode):
    """A mode of torch in which another function runs in place of torch.argsort."""

    def __init__(self, instead: Callable[..., Tensor]) -> None:
        super().__init__()
        self.instead = instead

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 - whatever the function gives
        return (self.instead if func is torch.argsort else func)(*args, **(kwargs or {}))
