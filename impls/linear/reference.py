"""Linear attention as it is defined: the dense, quadratic form.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from .feature_map import FeatureMap


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, eps: float, phi: FeatureMap, key_mask: Tensor | None = None
) -> Tensor:
    """o_i = Σ_j φ(q_i)·φ(k_j) v_j / (Σ_j φ(q_i)·φ(k_j) + eps); where causal, over j ≤ i only.

    Katharopoulos et al. 2020, eq. 3. [B, H, N, D], [B, kv_heads, N, D], [B, kv_heads, N, M] -> [B, H, N, M]; each head
    of k and v serves H / kv_heads neighbouring heads of q. Keys where key_mask, bool [B, N], is False do not exist.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    similarity_BHNN = phi(q) @ phi(k).mT
    if causal:
        similarity_BHNN = similarity_BHNN.tril()
    if key_mask is not None:
        similarity_BHNN = similarity_BHNN * key_mask[:, None, None, :]
    return similarity_BHNN @ v / (similarity_BHNN.sum(-1, keepdim=True) + eps)
