"""The tokens that are kept: those that get the most attention.

B batch, H heads, K heads of k, R heads of q for each, N tokens, l tokens kept, D query/key width.
"""

from torch import Tensor

from ..partial.softmax import LOG2_E, sums

SCORES = 1 << 20
"""Number of scores that are held at a time: 4 MB in float32, which stay in the cache of a core or two."""


def kept_count(N: int, keep: float) -> int:
    """Count the tokens that are kept, l: round(keep N), but one at least."""
    return max(1, round(keep * N))


def significance(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Sum the attention that each token gets over all heads and queries: [B, H, N, D], [B, K, N, D] -> [B, N].

    Goyal et al. 2020, section 3: Sig(w) = Σ_h Σ_w' A_h[w', w], A_h = softmax(q kᵀ / √D). Sums are in float32 at least; N²
    scores are never held.
    """
    (B, H, N, _), heads, wide = q.shape, k.shape[1], sums(q.dtype)
    total = q.new_zeros(B, N, dtype=wide)
    folded = q.unflatten(1, (heads, H // heads)).flatten(2, 3)
    for b in range(B):
        for queries in folded[b].split(max(1, SCORES // (heads * N)), dim=1):
            weights = ((queries * (scale * LOG2_E)) @ k[b].mT).to(wide)
            weights.sub_(weights.amax(-1, keepdim=True)).exp2_()
            # each row is divided by its sum while the rows are added up
            total[b] += (weights.sum(-1, keepdim=True).reciprocal_().mT @ weights).sum((0, 1))
            del weights  # before the next ones are made
    return total


def most_significant(significance: Tensor, count: int) -> Tensor:
    """Choose the tokens with the largest numbers, of equal ones the earlier: [B, N] -> int64 [B, 1, l], in rising order."""
    order = significance.sort(dim=-1, descending=True, stable=True).indices
    return order[:, :count].sort(dim=-1).values.unsqueeze(1)
