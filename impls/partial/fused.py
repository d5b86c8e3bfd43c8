"""Softmax attention by torch's fused kernels, whatever the widths and however many queries and keys.

B batch, H heads, K heads of k and v, Q queries, S keys, D query/key width, M value width.
"""

import torch.nn.functional as F
from torch import Tensor

from .backend import handed_over
from .widths import one_width


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    """softmax(q kᵀ / √D) v: [B, H, Q, D], [B, K, S, D], [B, K, S, M] -> [B, H, Q, M], no scores in memory; K divides H.

    `seen`: bool [B, 1, 1, S], False for keys that do not exist; a query that sees no key gets 0.
    """
    D, M, group = q.shape[-1], v.shape[-1], q.shape[1] // k.shape[1]
    q, k, v = one_width(q, k, v)
    if group > 1 and q.device.type != "cpu":
        # of a GPU's kernels those for float32, and those that take a mask, know one number of heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    grouped = q.shape[1] != k.shape[1]
    mask = None if seen is None else handed_over(seen, q)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=D**-0.5, enable_gqa=grouped)
    # a slice of all would cost a copy in the backward, and one in another order than the kernels' two
    return o if o.shape[-1] == M else o.transpose(1, 2)[..., :M].transpose(1, 2)
