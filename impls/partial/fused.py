"""Softmax attention by torch's fused kernels, for any widths and any numbers of queries and keys.

B batch, H heads, K heads of k and v, Q queries, S keys, D query/key width, M value width.
"""

import torch.nn.functional as F
from torch import Tensor

from .backend import handed_over
from .widths import one_width


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    """Compute softmax(q kᵀ / √D) v without scores in memory: [B, H, Q, D], [B, K, S, D], [B, K, S, M] -> [B, H, Q, M].

    K divides H. `seen` is bool [B, 1, 1, S], False for keys that do not exist; a query that sees no key gets 0.
    """
    D, M, group = q.shape[-1], v.shape[-1], q.shape[1] // k.shape[1]
    q, k, v = one_width(q, k, v)
    if group > 1 and q.device.type != "cpu":
        # a GPU's kernels for float32, and those that take a mask, need as many heads of k and v as of q
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    grouped = q.shape[1] != k.shape[1]
    mask = None if seen is None else handed_over(seen, q)
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=D**-0.5, enable_gqa=grouped)
    # slicing nothing would cost a copy in the backward, and slicing in another order than the kernel's two
    return o if o.shape[-1] == M else o.transpose(1, 2)[..., :M].transpose(1, 2)


def queries_at_once(queries: int) -> int:
    """Count the queries of a block of torch's kernel for CPUs, which depends on the number of all queries."""
    return 256 if queries >= 768 else 64 if queries >= 192 else 32
