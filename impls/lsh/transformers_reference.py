"""LSH attention as transformers' Reformer defines it, given the buckets.

B batch and heads folded, R rounds, N tokens (queries × keys where twice), D query/key width, M value width, m bucket size.
"""

import torch
from torch import Tensor

from .candidates import times_seen

OWN, OWN_FLOAT16 = -1e5, -1e3
"""Logit of a token with itself. Later ones get -1e9, or -1e4 in float16: nothing beside it, as -inf here."""
_EPS = 1e-6  # added to the mean square of a key before its root


def transformers_attention(
    qk: Tensor, v: Tensor, buckets_BRN: Tensor, m: int, steps: tuple[int, ...], *, causal: bool
) -> Tensor:
    """Among neighbours in sorted order, also of other buckets: [B, N, D], [B, N, M] -> [B, N, M].

    Kitaev et al. 2020, section 2, as transformers 5.23 has it. Logits are q·k̂ with k̂ = q / √(‖q‖² + 1e-6 D); each round gives
    o_r by softmax and z_r, the logsumexp of its logits; o = Σ_r softmax_r(z_r) o_r. A key that is a candidate twice in one
    round has twice the weight, one of several rounds counts in each.
    """
    seen = times_seen(buckets_BRN.argsort(dim=-1, stable=True), m, steps, closed=True)
    logits = _logits(qk, causal=causal).masked_fill(seen == 0, -torch.inf)  # for each round: [R, B, N, N]
    z = (logits + seen.to(qk.dtype).log()).logsumexp(-1, keepdim=True)
    o = (seen.to(qk.dtype) * (logits - z).exp()) @ v
    combined: Tensor = ((z - z.logsumexp(0)).exp() * o).sum(0)
    return combined


def _logits(qk: Tensor, *, causal: bool) -> Tensor:
    """Products with keys of almost unit length; on the diagonal what a token gives itself: [B, N, N]."""
    keys = qk * (qk.square().mean(-1, keepdim=True) + _EPS).rsqrt() / qk.shape[-1] ** 0.5
    N, own = qk.shape[1], OWN_FLOAT16 if qk.dtype is torch.float16 else OWN
    logits = (qk @ keys.mT).masked_fill(torch.eye(N, dtype=torch.bool, device=qk.device), own)
    later = torch.ones(N, N, dtype=torch.bool, device=qk.device).triu(1)
    hidden: Tensor = logits.masked_fill(later, -torch.inf) if causal else logits
    return hidden
