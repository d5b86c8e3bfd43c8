"""Attention with relative positions in segments, with its own backward: it holds the scores of a few segments at a time.

X = B H rows, S segments of L tokens, W = memory + L keys of a window, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import Rule, attend, is_fused, sums
from .positions import clear_outside, moved, with_gap
from .segments import Segments, Tile

SCORES = 2**20
"""Number of scores held at a time on a CPU: 4 MB in float32."""
_SCORES_ELSEWHERE = 2**26


@dataclass(frozen=True)
class Form:
    """The cut of tokens into segments, and the factor for scores."""

    segments: Segments
    scale: float


@dataclass(frozen=True)
class _Side:
    """The inputs of a call, cut into segments.

    Content and position queries [X, S, L, D], windows of keys and values [X, S, W, ·], distances [W + 1, D].
    """

    content: Tensor
    position: Tensor
    keys: Tensor
    values: Tensor
    distances: Tensor

    @classmethod
    def of(cls, inputs: tuple[Tensor, ...], segments: Segments) -> "_Side":
        content, position, k, v, table = inputs
        distances = with_gap(table, segments.width).to(_of_products(content))
        return cls(segments.cut(content), segments.cut(position), segments.windows(k), segments.windows(v), distances)

    def tiles(self, segments: Segments) -> list[Tile]:
        most = SCORES if is_fused(self.content) else _SCORES_ELSEWHERE
        return list(segments.tiles(self.content.shape[0], most))


def relative_attention(content: Tensor, position: Tensor, k: Tensor, v: Tensor, table: Tensor, form: Form) -> Tensor:
    """Compute softmax((content_i·k_j + position_i·R_{i-j}) scale) v over the segment and its memory, differentiable once.

    [B, H, N, D] three times, [B, H, N, M], R [·, D] for distances …, 1, 0 -> [B, H, N, M]. No gradient reaches the memory, so a
    key and its value get one only from queries of their own segment; R gets none.
    """
    inputs = (content, position, k, v, table)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        o: Tensor = _RelativeAttention.apply(*inputs, form)  # type: ignore[no-untyped-call]
    else:
        o = form.segments.join(_forward(inputs, form)[0], content.shape[0])
    return o


class _RelativeAttention(torch.autograd.Function):
    """`relative_attention` with its gradient: keeps the output and its logsumexp, and computes the scores again."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:  # noqa: ANN401 - torch's own bag, and its way of calling
        """Attend, and keep the logsumexp for the backward."""
        *inputs, form = given
        out, logsumexp = _forward(tuple(inputs), form)
        ctx.form = form
        ctx.save_for_backward(*inputs, out, logsumexp)
        o: Tensor = form.segments.join(out, inputs[0].shape[0])
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute the gradients of content, position, k and v."""
        *inputs, out, logsumexp = ctx.saved_tensors
        gradients = _backward(g, tuple(inputs), (out, logsumexp), ctx.form)
        return *(ctx.form.segments.join(x, g.shape[0]) for x in gradients), None, None


def _forward(inputs: tuple[Tensor, ...], form: Form) -> tuple[Tensor, Tensor]:
    """Compute the output [X, S, L, M] and its logsumexp [X, S, L]."""
    side = _Side.of(inputs, form.segments)
    out = side.values.new_empty(*side.content.shape[:3], side.values.shape[-1])
    logsumexp = out.new_empty(out.shape[:3], dtype=sums(out.dtype))
    for tile in side.tiles(form.segments):
        bias = moved(_by_distance(side, tile, form))
        bias.masked_fill_(form.segments.hidden(tile[1], bias.device), -torch.inf)
        rule = Rule(form.scale, bias=bias)
        out[tile], logsumexp[tile] = attend(side.content[tile], side.keys[tile], side.values[tile], rule)
        # free them before the next tile
        del bias, rule
    return out, logsumexp


def _by_distance(side: _Side, tile: Tile, form: Form) -> Tensor:
    """Score each distance with the position queries: [·, ·, L, W + 1], in the dtype of sums."""
    scores: Tensor = (side.position[tile].to(side.distances.dtype) * form.scale) @ side.distances.mT
    return scores.to(sums(scores.dtype))


def _of_products(x: Tensor) -> torch.dtype:
    """Choose the dtype of products: as given on a GPU; on a CPU that of sums.

    The fused kernel on a CPU does not round its scores, so the scores that are held against its logsumexp must not be rounded.
    """
    return sums(x.dtype) if is_fused(x) else x.dtype


def _backward(
    g: Tensor, inputs: tuple[Tensor, ...], final: tuple[Tensor, Tensor], form: Form
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of content, position, k [X, S, L, D] and v [X, S, L, M], for keys within segments alone."""
    side, g = _Side.of(inputs, form.segments), form.segments.cut(g)
    dcontent, dposition, dk = (torch.empty_like(side.content) for _ in range(3))
    dv = torch.empty_like(g)
    for tile in side.tiles(form.segments):
        part = _Tile.of(side, tile, g, final)
        scores = _by_distance(side, tile, form)
        dv[tile] = part.to_slopes(scores, form.segments.hidden(tile[1], g.device), form)
        slopes = scores.to(side.distances.dtype)
        del scores
        by_key = moved(slopes)
        dposition[tile] = (slopes @ side.distances).mul_(form.scale)
        dcontent[tile] = (by_key @ part.keys).mul_(form.scale)
        dk[tile] = (by_key[..., form.segments.memory :].mT @ part.content).mul_(form.scale)
        # free them before the next tile
        del slopes, by_key, part
    return dcontent, dposition, dk, dv


@dataclass(frozen=True)
class _Tile:
    """The tensors that the backward reads of one tile, in the dtype of products; `of_output` is rowsum(dO ∘ O)."""

    content: Tensor
    keys: Tensor
    values: Tensor
    g: Tensor
    logsumexp: Tensor
    of_output: Tensor

    @classmethod
    def of(cls, side: _Side, tile: Tile, g: Tensor, final: tuple[Tensor, Tensor]) -> "_Tile":
        dtype, logsumexp = side.distances.dtype, final[1][tile].unsqueeze(-1)
        content, keys, values, g = (x[tile].to(dtype) for x in (side.content, side.keys, side.values, g))
        return cls(content, keys, values, g, logsumexp, (g * final[0][tile]).sum(-1, keepdim=True, dtype=logsumexp.dtype))

    def to_slopes(self, scores: Tensor, hidden: Tensor, form: Form) -> Tensor:
        """Turn scores by distance into their gradient P ∘ (dO Vᵀ - rowsum(dO ∘ O)), in place, 0 outside; returns dL/dv."""
        p = moved(scores)
        p.add_((self.content * form.scale) @ self.keys.mT).sub_(self.logsumexp).exp_()
        # hidden after the exponential, which is slow where its result underflows
        p.masked_fill_(hidden, 0)
        dv = p[..., form.segments.memory :].to(self.g.dtype).mT @ self.g
        p.mul_((self.g @ self.values.mT).to(p.dtype).sub_(self.of_output))
        clear_outside(scores)
        return dv
