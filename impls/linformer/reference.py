"""Attention over projected keys by its definition: dense and slow.

B batch, H heads, K heads of k and v, N tokens, S projected keys, L tokens of a block, D query/key width, M value width, C = D
or M.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def attend_to(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute softmax(q k̄ᵀ / √D) v̄, Wang et al. 2020, eq. 7: [B, H, N, D], [B, K, S, D], [B, K, S, M] -> [B, H, N, M]."""
    group = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)
    return (q @ keys.mT / math.sqrt(q.shape[-1])).softmax(-1) @ values


def visible(x: Tensor, key_mask: Tensor | None) -> Tensor:
    """Set hidden rows to zero: [B, K, N, C], bool [B, N] -> [B, K, N, C]."""
    return x if key_mask is None else x.masked_fill(~key_mask[:, None, :, None], 0)


def mean_matrix(N: int, L: int, like: Tensor) -> Tensor:
    """Build E of block means, [S, N]: 1 / (tokens of block i) where j is in block i; the last block may be shorter."""
    block_N = torch.arange(N, device=like.device) // L
    members = (block_N == torch.arange(-(-N // L), device=like.device)[:, None]).to(like.dtype)
    return members / members.sum(-1, keepdim=True)


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """Compute x̄_s = Σ_l w_l ∘ x_(sL + l), zeros beyond the end: [B, K, N, C], [L, K, C] -> [B, K, S, C]."""
    L = len(kernel)
    blocks = F.pad(x, (0, 0, 0, -x.shape[2] % L)).unflatten(2, (-1, L))
    o: Tensor = (blocks * kernel.transpose(0, 1)[:, None]).sum(3)
    return o
