"""Each vector function is called first by one thread, whatever a method calls later."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnbench.measure.vector_math import choose_kernels


class Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, torch.dtype]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and isinstance(args[0], torch.Tensor):
            self.seen.append((func.__name__, args[0].dtype))
        return func(*args, **(kwargs or {}))


def test_the_functions_that_attentions_use_are_called_in_both_precisions() -> None:
    with Calls() as calls:
        choose_kernels()
    assert {("exp", torch.float32), ("exp", torch.float64), ("log", torch.float32), ("tanh", torch.float32)} <= set(calls.seen)
