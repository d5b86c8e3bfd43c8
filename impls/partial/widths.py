"""Tensors of different widths as one width, which is all that fused kernels of attention know."""

import torch.nn.functional as F
from torch import Tensor


def one_width(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each [..., C], filled up with zeros to the widest, then dense; those that are as wide already, as they are."""
    widest = max(x.shape[-1] for x in tensors)
    return tuple(x if x.shape[-1] == widest else _filled(x, widest) for x in tensors)


def _filled(x: Tensor, width: int) -> Tensor:
    # pad takes on the order that it believes to see in the strides: that of images, in which C is not dense
    return F.pad(x, (0, width - x.shape[-1])).contiguous()
