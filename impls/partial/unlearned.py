"""Inputs that choose and are not learned by the output: their gradient is 0, and not missing."""

from typing import Any

import torch
from torch import Tensor


class _Unlearned(torch.autograd.Function):
    """The output as it is, and gradients of 0 for what chose its keys."""

    @staticmethod
    def forward(ctx: Any, o: Tensor, *scorer: Tensor) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Return the output."""
        ctx.save_for_backward(*scorer)
        return o.view_as(o)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's own bag
        """Pass dL/do on."""
        return g, *(torch.zeros_like(x) for x in ctx.saved_tensors)


def unlearned(o: Tensor, *scorer: Tensor) -> Tensor:
    """Return o, of which the tensors that chose have a gradient of 0."""
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in scorer)):
        return o
    passed: Tensor = _Unlearned.apply(o, *scorer)  # type: ignore[no-untyped-call]
    return passed
