"""Values of one tensor with the gradient of another (Bengio et al. 2013; van den Oord et al. 2017, section 3.2)."""

from typing import Any

import torch
from torch import Tensor


def straight_through(k: Tensor, rows: Tensor) -> Tensor:
    """`rows` in value, k in gradient, bit for bit: k + SG(rows - k) would round. Both of one shape and dtype."""
    if torch.is_grad_enabled() and k.requires_grad:
        out: Tensor = _StraightThrough.apply(k, rows)  # type: ignore[no-untyped-call]
        return out
    return rows


class _StraightThrough(torch.autograd.Function):
    """Keeps nothing."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401, ARG004 - torch's own bag; k is in the gradient only
        """The rows."""
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401, ARG004 - torch's own bag
        """To k as it is."""
        return g, None
