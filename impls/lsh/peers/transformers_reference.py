"""LSH attention as transformers' Reformer defines it, given the buckets.

B batch and heads folded, R rounds, N tokens, n queries (all N, or some), D query/key width, M value width, m bucket size.
"""

import torch
from torch import Tensor

from .candidates import times_seen

OWN, OWN_FLOAT16 = -1e5, -1e3
"""Logit of a token with itself. The package gives later tokens -1e9, or -1e4 in float16, which here is -inf."""
_EPS = 1e-6  # added to the mean square of a key before its root


def transformers_attention(
    qk: Tensor, v: Tensor, buckets_BRN: Tensor, m: int, steps: tuple[int, ...], *, causal: bool, at: Tensor | None = None
) -> Tensor:
    """Attend among neighbours in sorted order, also of other buckets: [B, N, D], [B, N, M] -> [B, n, M].

    Queries are those of all tokens, or of tokens `at`, int64 [n]. Kitaev et al. 2020, section 2, as in transformers 5.23.
    Logits are q·k̂ with k̂ = q / √(‖q‖² + 1e-6 D); each round gives o_r by softmax and z_r, the logsumexp of its logits; o =
    Σ_r softmax_r(z_r) o_r. A key that is a candidate twice in one round has twice the weight; one of several rounds counts in
    each.
    """
    at = torch.arange(qk.shape[1], device=qk.device) if at is None else at
    seen = times_seen(buckets_BRN.argsort(dim=-1, stable=True), m, steps, at, closed=True)
    logits = _logits(qk, at, causal=causal).masked_fill(seen == 0, -torch.inf)  # for each round: [R, B, n, N]
    z = (logits + seen.to(qk.dtype).log()).logsumexp(-1, keepdim=True)
    o = (seen.to(qk.dtype) * (logits - z).exp()) @ v
    combined: Tensor = ((z - z.logsumexp(0)).exp() * o).sum(0)
    return combined


def _logits(qk: Tensor, at: Tensor, *, causal: bool) -> Tensor:
    """Compute products with keys of almost unit length, with a fixed logit for the token's own: [B, n, N]."""
    keys = qk * (qk.square().mean(-1, keepdim=True) + _EPS).rsqrt() / qk.shape[-1] ** 0.5
    own = OWN_FLOAT16 if qk.dtype is torch.float16 else OWN
    i, j = at.unsqueeze(1), torch.arange(qk.shape[1], device=qk.device)
    logits = (qk[:, at] @ keys.mT).masked_fill(i == j, own)
    hidden: Tensor = logits.masked_fill(j > i, -torch.inf) if causal else logits
    return hidden
