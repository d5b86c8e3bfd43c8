"""LSH attention by its definition, given the buckets: for each round one dense softmax over weighted keys.

B batch and heads folded, R rounds, N tokens, n queries (all N, or some), D query/key width, M value width.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

SELF = -5e4
"""Logit of a token with itself: it counts only where nothing else is seen."""
_COUNT_EPS = 1e-9  # reformer-pytorch corrects by log(count + 1e-9), in float32 whatever the dtype


@dataclass(frozen=True)
class Rules:
    """The rules of which keys a query sees among those that were sorted near it.

    `across`: also keys of other buckets. Not `duplicates`: a key seen in several rounds counts once in all. `after`: also the
    chunk after the own one. `scale`: of the logits, 1 / √D where it is None. `own`: the logit of a token with itself.
    `exact_counts`: without duplicates, subtract log(count) instead of reformer-pytorch's log(count + 1e-9) in float32.
    """

    bucket_size: int
    causal: bool
    across: bool = True
    duplicates: bool = True
    after: bool = False
    scale: float | None = None
    own: float = SELF
    exact_counts: bool = False


def lsh_attention(qk: Tensor, v: Tensor, buckets: Tensor, rules: Rules, at: Tensor | None = None) -> Tensor:
    """Attend among neighbours in sorted order: [B, N, D], [B, N, M], buckets int64 [B, R, N] -> [B, n, M].

    Queries are those of all tokens, or of tokens `at`, int64 [n]. Kitaev et al. 2020, section 2, as in reformer-pytorch 1.4.4.
    Logits are q·k̂ / √D with k̂ = q / ‖q‖; each round gives o_r by softmax and z_r, the logsumexp of its logits; o = Σ_r
    softmax_r(z_r) o_r. A key that is a candidate twice in one round has twice the weight. Buckets of different rounds must have
    different numbers. Where N is no multiple of the bucket size, the last chunk of each round is shorter.
    """
    at = torch.arange(qk.shape[1], device=qk.device) if at is None else at
    logits_BnN = _logits(qk, rules, at)
    seen = torch.stack([_times_seen(buckets, r, rules, at) for r in range(buckets.shape[1])])
    if not rules.duplicates:
        logits_BnN = logits_BnN - _log_counts(seen.sum(0), rules, qk.dtype)
    # literally as printed: where a token sees only itself, z is near -50000, which float32 rounds to 0.004
    logits = logits_BnN.masked_fill(seen == 0, -torch.inf)  # for each round: [R, B, n, N]
    z = (logits + seen.to(qk.dtype).log()).logsumexp(-1, keepdim=True)
    o = (seen.to(qk.dtype) * (logits - z).exp()) @ v
    return ((z - z.logsumexp(0)).exp() * o).sum(0)


def unit(x: Tensor) -> Tensor:
    """Compute x / ‖x‖, and 0 of 0: torch's least norm, 1e-12, is 0 in float16, where a token of zeros would be NaN."""
    return F.normalize(x, dim=-1, eps=max(1e-12, torch.finfo(x.dtype).tiny))


def _logits(qk: Tensor, rules: Rules, at: Tensor) -> Tensor:
    """Compute scaled products with the normalised keys, -inf for later keys, and `own` for the token's own: [B, n, N]."""
    N, D = qk.shape[1:]
    logits_BnN = qk[:, at] @ unit(qk).mT * (1 / math.sqrt(D) if rules.scale is None else rules.scale)
    i, j = at.unsqueeze(1), torch.arange(N, device=qk.device)
    if rules.causal:
        logits_BnN = logits_BnN.masked_fill(j > i, -torch.inf)
    return logits_BnN.masked_fill(i == j, rules.own)


def _log_counts(seen: Tensor, rules: Rules, dtype: torch.dtype) -> Tensor:
    """Compute the log of how often a key is seen in all rounds; keys that are never seen are hidden anyway."""
    if rules.exact_counts:
        return seen.clamp(min=1).to(dtype).log()
    return (seen.float() + _COUNT_EPS).log().to(dtype)


def _times_seen(buckets: Tensor, r: int, rules: Rules, at: Tensor) -> Tensor:
    """Count how often each key is a candidate of each query in round r, 0 … 3: int64 [B, n, N].

    Candidates are the query's own chunk of the sorted order, the one before and, if `after`, the next. All rounds form a ring
    of chunks: before the first chunk of round r comes the last of round r - 1.
    """
    rounds, chunk_BRN = buckets.shape[1], _chunks(buckets, rules.bucket_size)
    chunks = math.ceil(buckets.shape[2] / rules.bucket_size)
    chunk_BRN = chunk_BRN + chunks * torch.arange(rounds, device=buckets.device)[:, None]
    of_query = chunk_BRN[:, r, at, None]
    seen = torch.zeros(len(buckets), len(at), buckets.shape[2], dtype=torch.int64, device=buckets.device)
    for step in (-1, 0, 1)[: 2 + rules.after]:
        for s in {(r + side) % rounds for side in (-1, 0, 1)}:
            near = chunk_BRN[:, s, None, :] == (of_query + step) % (rounds * chunks)
            if not rules.across:
                near &= buckets[:, r, at, None] == buckets[:, s, None, :]
            seen += near
    return seen


def _chunks(buckets: Tensor, bucket_size: int) -> Tensor:
    """Compute each token's chunk in each round, its rank by (bucket, position) over bucket_size: int64 [B, R, N]."""
    order = buckets.argsort(dim=-1, stable=True)
    return order.argsort(dim=-1) // bucket_size
