"""Padding of tensors to one width, as fused attention kernels require."""

import torch.nn.functional as F
from torch import Tensor


def one_width(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Pad each [..., C] with zeros to the widest and make it dense; those that are as wide already stay as they are."""
    widest = max(x.shape[-1] for x in tensors)
    return tuple(x if x.shape[-1] == widest else _filled(x, widest) for x in tensors)


def _filled(x: Tensor, width: int) -> Tensor:
    # pad would follow the strides as if these were images, in which C is not dense
    return F.pad(x, (0, width - x.shape[-1])).contiguous()
