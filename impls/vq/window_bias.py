"""Biases by distance laid out over the keys of a window, and back.

X rows (batch and heads folded), n blocks of L tokens, R = L + 1 distances, the farthest first; a window is 2L keys, the query's
own block and the one before. Dai et al. 2019, appendix B, by a view with longer rows instead of a shift.
"""

import torch
from torch import Tensor


def over_window(by_distance: Tensor) -> Tensor:
    """Lay biases out: [X, n, L or fewer, R] -> [X, n, L or fewer, 2L], 0 beyond the farthest key, -inf for later keys."""
    *shape, R = by_distance.shape
    hidden = torch.full((shape[-1], 2 * (R - 1)), -torch.inf, dtype=by_distance.dtype, device=by_distance.device).triu_(R)
    bias = hidden.expand(*shape, -1).contiguous()
    band(bias).copy_(by_distance)
    return bias


def band(window: Tensor) -> Tensor:
    """View the keys at a distance of L … 0: dense [X, n, ·, 2L] -> [X, n, ·, L + 1], where row i begins at key i."""
    rows, n, length, keys = window.shape
    strides = (n * length * keys, length * keys, keys + 1, 1)
    return window.as_strided((rows, n, length, keys // 2 + 1), strides)


def pull_back_biased(
    g: Tensor, inputs: tuple[Tensor, Tensor, Tensor], final: tuple[Tensor, Tensor], bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute dL/dq, dL/dk, dL/dv and dL/d bias of some of the keys; `partial.softmax.pull_back` returns the first three.

    dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O)), which torch's kernel does not return.
    """
    q, k, v = inputs
    p = (q @ k.mT).to(bias.dtype).add_(bias).sub_(final[1].unsqueeze(-1)).exp_()
    dv = p.to(v.dtype).mT @ g
    slope = (g @ v.mT).to(p.dtype).sub_((g * final[0]).sum(-1, keepdim=True, dtype=p.dtype))
    ds = p.mul_(slope)
    ds_low = ds.to(q.dtype)
    return ds_low @ k, ds_low.mT @ q, dv, ds
