"""Attention with relative positions in segments, with a backward of its own: scores exist a few segments at a time.

X = B H rows, S segments of L tokens, W = memory + L keys of a window, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..partial.softmax import Rule, attend, is_fused, sums
from .positions import clear_outside, moved, with_gap
from .segments import Segments, Tile

SCORES = 2**20
"""Scores at a time on a CPU: 4 MB in float32."""
_SCORES_ELSEWHERE = 2**26


@dataclass(frozen=True)
class Form:
    """How the tokens are cut, and by what the scores are multiplied."""

    segments: Segments
    scale: float


@dataclass(frozen=True)
class _Side:
    """What a call reads, cut: content and position queries [X, S, L, D], windows of keys and values, distances [W + 1, D]."""

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
    """softmax((content_i·k_j + position_i·R_{i-j}) scale) v over the segment and its memory. Once differentiable.

    [B, H, N, D] three times, [B, H, N, M], R [·, D] for distances …, 1, 0 -> [B, H, N, M]. The memory gets no gradient: a key
    and its value are differentiated only as those of their own segment. Nor does R.
    """
    inputs = (content, position, k, v, table)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        o: Tensor = _RelativeAttention.apply(*inputs, form)  # type: ignore[no-untyped-call]
    else:
        o = form.segments.join(_forward(inputs, form)[0], content.shape[0])
    return o


class _RelativeAttention(torch.autograd.Function):
    """Keeps the output and its logsumexp, and computes the scores again."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:  # noqa: ANN401 - torch's own bag, and its way of calling
        """Attend."""
        *inputs, form = given
        out, logsumexp = _forward(tuple(inputs), form)
        ctx.form = form
        ctx.save_for_backward(*inputs, out, logsumexp)
        o: Tensor = form.segments.join(out, inputs[0].shape[0])
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """dL/d content, position, k, v."""
        *inputs, out, logsumexp = ctx.saved_tensors
        gradients = _backward(g, tuple(inputs), (out, logsumexp), ctx.form)
        return *(ctx.form.segments.join(x, g.shape[0]) for x in gradients), None, None


def _forward(inputs: tuple[Tensor, ...], form: Form) -> tuple[Tensor, Tensor]:
    """The output [X, S, L, M] and its logsumexp [X, S, L]."""
    side = _Side.of(inputs, form.segments)
    out = side.values.new_empty(*side.content.shape[:3], side.values.shape[-1])
    logsumexp = out.new_empty(out.shape[:3], dtype=sums(out.dtype))
    for tile in side.tiles(form.segments):
        bias = moved(_by_distance(side, tile, form))
        bias.masked_fill_(form.segments.hidden(tile[1], bias.device), -torch.inf)
        rule = Rule(form.scale, bias=bias)
        out[tile], logsumexp[tile] = attend(side.content[tile], side.keys[tile], side.values[tile], rule)
        # before the next is made
        del bias, rule
    return out, logsumexp


def _by_distance(side: _Side, tile: Tile, form: Form) -> Tensor:
    """What the queries say to each distance: [·, ·, L, W + 1], in the dtype of sums."""
    scores: Tensor = (side.position[tile].to(side.distances.dtype) * form.scale) @ side.distances.mT
    return scores.to(sums(scores.dtype))


def _of_products(x: Tensor) -> torch.dtype:
    """As given where tensor cores want it so; on a CPU wide, lest scores be rounded to whose fused logsumexp none was."""
    return sums(x.dtype) if is_fused(x) else x.dtype


def _backward(
    g: Tensor, inputs: tuple[Tensor, ...], final: tuple[Tensor, Tensor], form: Form
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dL/d content, position, k [X, S, L, D] and v [X, S, L, M]: of a key and value by the queries of their own segment."""
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
        # before the next is made
        del slopes, by_key, part
    return dcontent, dposition, dk, dv


@dataclass(frozen=True)
class _Tile:
    """What the backward reads of one tile, in the dtype of products; `of_output` is rowsum(dO ∘ O)."""

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
        """From scores by distance to their gradient P ∘ (dO Vᵀ - rowsum(dO ∘ O)), in place, 0 outside; returns dL/dv."""
        p = moved(scores)
        p.add_((self.content * form.scale) @ self.keys.mT).sub_(self.logsumexp).exp_()
        # hidden after the exponential, which is slow where it underflows
        p.masked_fill_(hidden, 0)
        dv = p[..., form.segments.memory :].to(self.g.dtype).mT @ self.g
        p.mul_((self.g @ self.values.mT).to(p.dtype).sub_(self.of_output))
        clear_outside(scores)
        return dv
