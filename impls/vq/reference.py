"""Attention over quantised keys by its definition, dense and slow.

B batch, H heads, N tokens, L tokens of a block, D query/key width, M value width, S codes, P width of the sinusoids; SG stops
the gradient.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Definition:
    """Blocks of L tokens (None: all keys are in the window), causality, and whether values beyond the window get a gradient."""

    block: int | None
    causal: bool
    gradient_through_table: bool = True


@dataclass(frozen=True)
class XLBias:
    """The bias of Transformer-XL (Dai et al.

    2019, section 3.3): u, v [H, D], W [H, D, P], `base` the longest wavelength / 2π.

    All three are multiplied by `factor`, as queries and keys are.
    """

    u: Tensor
    v: Tensor
    w: Tensor
    factor: float
    base: float = 1e5


def quantised_attention(q: Tensor, k_hat: Tensor, v: Tensor, definition: Definition, bias: XLBias | None = None) -> Tensor:
    """Compute softmax_j(q_i·k̂_j + b_ij) v_j, Lingle 2023, eq. 8-11: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M].

    A head of k and v serves H / K neighbouring heads of q.

    The forward is dense softmax attention over k̂. The gradients are the paper's: keys of a query's own block and of the one
    before get theirs through k̂; keys of earlier blocks (of all, without causality) are constants, SG(k̂), and their values get
    one only where `gradient_through_table`.
    """
    k_hat, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k_hat, v))
    near = _near(definition, q.shape[2], q.device)
    u = 0 if bias is None else bias.factor * bias.u.unsqueeze(1)
    scores = torch.where(near, (q + u) @ k_hat.mT, (q + u) @ k_hat.detach().mT)
    if bias is not None:
        assert definition.block is not None
        scores = scores + position_scores(q, bias, definition.block)
    if definition.causal:
        scores = scores.masked_fill(torch.ones_like(near).triu(1), -torch.inf)
    p = scores.softmax(-1)
    far = v if definition.gradient_through_table else v.detach()
    return torch.where(near, p, 0) @ v + torch.where(near, 0, p) @ far


def quantised_rows(
    at: Tensor, q: Tensor, k_hat: Tensor, v: Tensor, definition: Definition, bias: XLBias | None = None
) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head, with u, v [D], W [D, P].

    Int64 [n], [N, D] twice, [N, M] -> [n, M].
    """
    i, j = at.unsqueeze(1), torch.arange(len(k_hat), device=at.device)
    near = torch.full((len(at), len(j)), definition.block is None, device=at.device)
    if definition.block is not None and definition.causal:
        near = i // definition.block - j // definition.block <= 1
    q = q[at]
    content = q if bias is None else q + bias.factor * bias.u
    scores = torch.where(near, content @ k_hat.mT, content @ k_hat.detach().mT)
    if bias is not None:
        assert definition.block is not None
        r = bias.factor * (_sinusoids(definition.block + 1, bias.w, bias.base) @ bias.w.mT)
        by_distance = (q + bias.factor * bias.v) @ r.mT
        places = (i - j).clamp(0, definition.block)
        scores = scores + torch.where((i >= j) & (i - j <= definition.block), by_distance.gather(1, places), 0)
    if definition.causal:
        scores = scores.masked_fill(j > i, -torch.inf)
    p = scores.softmax(-1)
    far = v if definition.gradient_through_table else v.detach()
    return torch.where(near, p, 0) @ v + torch.where(near, 0, p) @ far


def _near(definition: Definition, N: int, device: torch.device) -> Tensor:
    """Mark pairs [N, N] of blocks n and n or n - 1, and of later blocks; none without causality."""
    if definition.block is None:
        return torch.ones(N, N, dtype=torch.bool, device=device)
    if not definition.causal:
        return torch.zeros(N, N, dtype=torch.bool, device=device)
    blocks = torch.arange(N, device=device) // definition.block
    return blocks.unsqueeze(1) - blocks <= 1


def position_scores(q: Tensor, bias: XLBias, reach: int) -> Tensor:
    """Compute (q_i + v)·r_{i-j}: [B, H, N, N], where r_t = W (sin t ω, cos t ω) for 0 <= t <= `reach`, else 0."""
    N = q.shape[2]
    r = bias.factor * (_sinusoids(N, bias.w, bias.base) @ bias.w.mT)
    by_distance = (q + bias.factor * bias.v.unsqueeze(1)) @ r.mT
    places = torch.arange(N, device=q.device)
    distances = places.unsqueeze(1) - places
    scores = by_distance.gather(3, distances.clamp(min=0).expand(*q.shape[:2], N, N))
    return torch.where((distances >= 0) & (distances <= reach), scores, 0)


def _sinusoids(N: int, like: Tensor, base: float) -> Tensor:
    """Compute [N, P]: half sines, half cosines of angles t base^(-2p / P); Vaswani et al. 2017, section 3.5."""
    width = like.shape[-1]
    waves = base ** (-2 * torch.arange((width + 1) // 2, dtype=torch.float64, device=like.device) / width)
    angles = torch.arange(N, dtype=torch.float64, device=like.device).unsqueeze(1) * waves
    return torch.cat((angles.sin(), angles.cos()), 1)[:, :width].to(like.dtype)


def normalised(x: Tensor, factor: float, *, normalise: bool) -> Tensor:
    """Compute `factor` x / √(mean x² + 1e-6), Lingle 2023, section 3.1 and its code; without `normalise` only `factor` x."""
    return factor * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() if normalise else factor * x


def quantised(k: Tensor, codebook: Tensor, codes: Tensor) -> Tensor:
    """Compute k̂ = SG(c_z) + k - SG(k), Lingle 2023, eq. 5: [B, H, N, D], [H, S, D], int64 [B, H, N] -> [B, H, N, D]."""
    heads = torch.arange(k.shape[1], device=k.device).view(-1, 1)
    return codebook.detach()[heads, codes] + (k - k.detach())
