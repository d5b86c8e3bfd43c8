"""Linear attention by its definition: the dense, quadratic form.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from ..partial.rows import seen_by
from .maps.exponential import Exponential
from .maps.feature_map import FeatureMap


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, eps: float, phi: FeatureMap, key_mask: Tensor | None = None
) -> Tensor:
    """Compute o_i = Σ_j sim_ij v_j / (Σ_j sim_ij + eps), if causal over j ≤ i only.

    Katharopoulos et al. 2020, eq. 3, with sim_ij = φ(q_i)·φ(k_j) or as the map defines it. [B, H, N, D], [B, kv_heads, N, D],
    [B, kv_heads, N, M] -> [B, H, N, M]; each head of k and v serves H / kv_heads neighbouring heads of q. Keys where key_mask,
    bool [B, N], is False do not exist. Exponentials are computed in float32 at least, because they span more than float16.
    """
    dtype, group = v.dtype, q.shape[1] // k.shape[1]
    if isinstance(phi, Exponential):
        q, k, v = (x.to(phi.arithmetic(dtype)) for x in (q, k, v))
    if key_mask is not None:
        # φ of what a hidden key holds may be infinite, and stay so times 0
        k = k.masked_fill(~key_mask[:, None, :, None], 0)
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    similarity_BHNN = phi.similarity(q, k, _visible(k, causal, key_mask))
    o: Tensor = similarity_BHNN @ v / (similarity_BHNN.sum(-1, keepdim=True) + eps)
    return o.to(dtype)


def linear_rows(  # noqa: PLR0913 - keywords only
    at: Tensor, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, eps: float, phi: FeatureMap, key_mask: Tensor | None = None
) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head: int64 [n], [N, D], [N, D], [N, M], bool [N] -> [n, M]."""
    k = k if key_mask is None else k.masked_fill(~key_mask.unsqueeze(1), 0)
    similarity = phi.similarity_rows(q[at], k, seen_by(at, len(k), causal=causal, key_mask=key_mask))
    return similarity @ v / (similarity.sum(-1, keepdim=True) + eps)


def _visible(k: Tensor, causal: bool, key_mask: Tensor | None) -> Tensor:
    """Mark which keys query i may see, bool [B or 1, 1, N or 1, N]."""
    N = k.shape[2]
    visible = torch.ones(1, 1, N if causal else 1, N, dtype=torch.bool, device=k.device)
    visible = visible.tril() if causal else visible
    return visible if key_mask is None else visible & key_mask[:, None, None, :]
