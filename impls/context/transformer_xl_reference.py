"""Transformer-XL's attention by its definition: dense, with the position of each pair gathered by its distance.

B batch, H heads, N tokens, T distances, D query/key width, M value width.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """The learned u and w [H, D] and W_r [H, D, D], and sinusoids R_x [T, D] for x = T - 1, …, 0."""

    u: Tensor
    w: Tensor
    W_r: Tensor
    R: Tensor


def transformer_xl_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, sizes: tuple[int, int]) -> Tensor:
    """Compute the attention of Dai et al. 2019, section 3.3.

    Scores are (q_i·k_j + q_i·r_{i-j} + u·k_j + w·r_{i-j}) / √D with r_x = W_r R_x. [B, H, N, D], [B, H, N, D], [B, H, N, M] ->
    [B, H, N, M]. `sizes` are the tokens of a segment and of the memory: a query sees its own segment up to itself and the
    memory before it, whose keys and values are constants (section 3.2).
    """
    segment, memory = sizes
    i, j = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
    start = i // segment * segment
    own = (j >= start) & (j <= i)
    seen = (j >= start - memory) & (j <= i)
    r = weights.R.flip(0) @ weights.W_r.mT
    by_distance = (q + weights.w[:, None]) @ r.mT
    apart = (i - j).clamp(0, r.shape[1] - 1)
    content = q + weights.u[:, None]
    scores = torch.where(own, content @ k.mT, content @ k.detach().mT)
    scores = (scores + by_distance.gather(-1, apart.expand(scores.shape))) / math.sqrt(q.shape[-1])
    p = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (p * own) @ v + (p * ~own) @ v.detach()


def transformer_xl_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, weights: Weights, sizes: tuple[int, int]) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head, u and w [D], W_r [D, D]: int64 [n], [N, ·] -> [n, M]."""
    segment, memory = sizes
    i, j = at.unsqueeze(1), torch.arange(len(k), device=at.device)
    start = i // segment * segment
    own, seen = (j >= start) & (j <= i), (j >= start - memory) & (j <= i)
    r = weights.R.flip(0) @ weights.W_r.mT
    content, by_distance = q[at] + weights.u, (q[at] + weights.w) @ r.mT
    scores = torch.where(own, content @ k.mT, content @ k.detach().mT)
    scores = (scores + by_distance.gather(1, (i - j).clamp(0, len(r) - 1))) / math.sqrt(q.shape[-1])
    p = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (p * own) @ v + (p * ~own) @ v.detach()
