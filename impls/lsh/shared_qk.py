"""Attention with one tensor as query and key over all keys by its definition, which every LSH attention approximates.

N tokens, n rows, D query/key width, M value width.
"""

import torch
from torch import Tensor

from .reference import SELF, unit


def shared_qk_attention(qk: Tensor, v: Tensor, scale: float, *, causal: bool, hides_self: bool = True) -> Tensor:
    """Compute softmax over q·k̂ · scale, k̂ = q / ‖q‖, -50000 for the token itself: [..., N, D], [..., N, M] -> [..., N, M].

    Kitaev et al. 2020, section 2: a token attends to itself only where it has nothing else. Without `hides_self` it is a key
    like any other.
    """
    square_NN = torch.ones(qk.shape[-2], qk.shape[-2], dtype=torch.bool, device=qk.device)
    logits = qk @ unit(qk).mT * scale
    if hides_self:
        logits = logits.masked_fill(square_NN.triu().tril(), SELF)
    if causal:
        logits = logits.masked_fill(square_NN.triu(1), -torch.inf)
    o: Tensor = logits.softmax(-1) @ v
    return o


def shared_qk_rows(at: Tensor, qk: Tensor, v: Tensor, scale: float, *, causal: bool) -> Tensor:
    """Compute the same, hiding itself, for the queries at tokens `at` of one head: int64 [n], [N, D], [N, M] -> [n, M]."""
    i, j = at.unsqueeze(1), torch.arange(len(qk), device=qk.device)
    logits = (qk[at] @ unit(qk).mT * scale).masked_fill(i == j, SELF)
    o: Tensor = (logits.masked_fill(j > i, -torch.inf) if causal else logits).softmax(-1) @ v
    return o
