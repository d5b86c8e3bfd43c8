"""Values of one tensor with the gradient of another (Bengio et al. 2013; van den Oord et al. 2017, section 3.2)."""

from typing import Any

import torch
from torch import Tensor


def straight_through(k: Tensor, rows: Tensor) -> Tensor:
    """Return `rows` in value and k in gradient; bit for bit, where k + SG(rows - k) would round.

    Both have one shape and dtype.
    """
    if torch.is_grad_enabled() and k.requires_grad:
        out: Tensor = _StraightThrough.apply(k, rows)  # type: ignore[no-untyped-call]
        return out
    return rows


class _StraightThrough(torch.autograd.Function):
    """`straight_through` with its gradient; keeps nothing."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, rows: Tensor) -> Tensor:  # noqa: ANN401, ARG004 - torch's own bag; k is in the gradient only
        """Return the rows."""
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401, ARG004 - torch's own bag
        """Pass the gradient to k unchanged."""
        return g, None
