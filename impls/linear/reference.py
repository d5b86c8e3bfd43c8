"""Linear attention as it is defined: the dense, quadratic form.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch.nn.functional as F
from torch import Tensor


def linear_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, eps: float) -> Tensor:
    """o_i = Σ_j φ(q_i)·φ(k_j) v_j / (Σ_j φ(q_i)·φ(k_j) + eps), φ(x) = elu(x) + 1; where causal, over j ≤ i only.

    Katharopoulos et al. 2020, eq. 3 with eq. 7. [B, H, N, D], [B, kv_heads, N, D], [B, kv_heads, N, M] ->
    [B, H, N, M]; each head of k and v serves H / kv_heads neighbouring heads of q.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    similarity_BHNN = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    if causal:
        similarity_BHNN = similarity_BHNN.tril()
    return similarity_BHNN @ v / (similarity_BHNN.sum(-1, keepdim=True) + eps)
