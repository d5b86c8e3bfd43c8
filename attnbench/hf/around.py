"""Hearing what the layers of a model call their attention with, whichever implementation each asks transformers for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import AttentionInterface

Attend = Callable[..., Any]


@contextmanager
def attention_called_through(around: Callable[[Attend], Attend]) -> Iterator[None]:
    """Let every layer of every model in this process call `around(attend)` in place of its attention."""
    usual = AttentionInterface.get_interface

    def get_interface(self: Any, name: str, default: Attend) -> Attend:  # noqa: ANN401
        return around(usual(self, name, default))

    AttentionInterface.get_interface = get_interface
    try:
        yield
    finally:
        AttentionInterface.get_interface = usual
