"""Attention to the last tokens and to entries that each stand for a block of earlier ones, with a sink.

B batch, H heads, N tokens, W tokens of the window, m tokens of a block, C = N // m entries, k entries that a query keeps, T
queries of a tile, D width of queries and of the one key that is also the value, for all heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...partial.opaque import opaque
from ...partial.softmax import LOG2_E, sums

_QUERIES, _SCORES = 256, 2**20
"""The most queries of a tile, and the most scores that it holds."""


@dataclass(frozen=True)
class Reach:
    """The keys of a query: its own token and those before it, `window` in all, and the entries of blocks that have ended."""

    window: int
    block: int
    scale: float


@dataclass(frozen=True)
class Tile:
    """Queries start … stop, the first token that any of them sees, and the entries that have ended by the last of them."""

    start: int
    stop: int
    first: int
    entries: int


def tiles(B: int, H: int, N: int, reach: Reach, kept: int | None, device: torch.device | str = "cpu") -> Iterator[Tile]:
    """Cut N queries into tiles of a limited number of scores; `kept` is how many entries each keeps, or None for all."""
    most, start = _SCORES if torch.device(device).type == "cpu" else 64 * _SCORES, 0
    while start < N:
        entries = (start + _QUERIES) // reach.block if kept is None else kept
        rows = max(1, min(_QUERIES, N - start, most // (B * H * (min(reach.window, N) + _QUERIES + entries))))
        stop = start + rows
        yield Tile(start, stop, max(0, start - reach.window + 1), stop // reach.block)
        start = stop


def attend(q: Tensor, c: Tensor, e: Tensor, sink: Tensor, reach: Reach, kept: Tensor | None = None) -> Tensor:
    """Attend: q [B, H, N, D], tokens c [B, N, D], entries e [B, C, D], sink [H] -> [B, H, N, D], differentiable once.

    A query t sees the tokens t - W < s ≤ t, of the entries i < (t + 1) // m all or those in `kept`, int64 [B, N, k], negative
    where there is none, and a sink: one more score, whose weight goes to nothing. Sums are in float32 at least.
    """
    return _attend(q, c, e, sink, kept, [reach.window, reach.block], reach.scale)


def _forward(
    q: Tensor, c: Tensor, e: Tensor, sink: Tensor, kept: Tensor | None, lengths: list[int], scale: float
) -> tuple[Tensor, Tensor]:
    """Compute softmax over both parts of each tile of queries at once: the output and log₂ Σ 2^score, [B, H, N]."""
    o, logsumexp = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=sums(q.dtype))
    bottom = sink.to(logsumexp.dtype).view(1, -1, 1) * LOG2_E
    for part in _parts(q, c, e, Reach(lengths[0], lengths[1], scale), kept):
        most = part.scores.amax(-1).maximum(bottom)
        weights = part.scores.sub_(most.unsqueeze(-1)).exp2_()
        total = weights.sum(-1).add_((bottom - most).exp2_())
        o[:, :, part.rows] = part.mix(weights.to(q.dtype)) / total.unsqueeze(-1)
        logsumexp[:, :, part.rows] = total.log2_().add_(most)
    return o, logsumexp


def _made(q: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=sums(q.dtype))


def _backward(
    g: Tensor, tensors: list[Tensor], results: list[Tensor], lengths: list[int], scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute dS = P ∘ (g vᵀ - g·o) and from it all gradients; what is a key and a value gets both its shares."""
    (q, c, e, sink, *kept), (o, logsumexp) = tensors, results
    wide = logsumexp.dtype
    dq, dc, de = torch.empty_like(q), torch.zeros_like(c, dtype=wide), torch.zeros_like(e, dtype=wide)
    delta = (g.to(wide) * o.to(wide)).sum(-1)
    for part in _parts(q, c, e, Reach(lengths[0], lengths[1], scale), *kept):
        u = g[:, :, part.rows]
        weights = part.scores.sub_(logsumexp[:, :, part.rows].unsqueeze(-1)).exp2_()
        part.spread(weights.to(q.dtype), u, dc, de)
        slopes = weights.mul_(part.dots(u).to(wide).sub_(delta[:, :, part.rows].unsqueeze(-1))).mul_(scale)
        dq[:, :, part.rows] = part.mix(slopes.to(q.dtype))
        part.spread(slopes.to(q.dtype), q[:, :, part.rows], dc, de)
    dsink = -((sink.to(wide).view(1, -1, 1) * LOG2_E - logsumexp).exp2() * delta).sum((0, 2))
    return dq, dc.to(c.dtype), de.to(e.dtype), dsink.to(sink.dtype)


def _gradients(_: Tensor, tensors: list[Tensor], *others: object) -> tuple[Tensor, ...]:  # noqa: ARG001
    return tuple(map(torch.empty_like, tensors[:4]))


_attend = opaque("attend_entries", _forward, _made, _backward, _gradients)


@dataclass
class _Part:
    """The keys of one tile: some tokens in a row [B, S, D], and entries, all alike [B, E, D] or of each query [B, T, k, D]."""

    tile: Tile
    tokens: Tensor
    entries: Tensor
    at: Tensor | None
    """Where the entries of each query lie among those of all sequences, [B, T, k]; None where all queries have the same."""
    scores: Tensor
    """Scaled scores times log₂ e, of which 2^score is the weight, [B, H, T, S + E]; -inf where hidden."""

    @property
    def rows(self) -> slice:
        """The queries."""
        return slice(self.tile.start, self.tile.stop)

    def dots(self, x: Tensor) -> Tensor:
        """Multiply [B, H, T, D] with all keys: [B, H, T, S + E]."""
        own = _flat(x) @ self.tokens.mT
        if self.at is None:
            earlier = _flat(x) @ self.entries.mT
            return torch.cat((own, earlier), -1).view(*x.shape[:3], -1)
        earlier = (x.transpose(1, 2) @ self.entries.mT).transpose(1, 2)
        return torch.cat((own.view(*x.shape[:3], -1), earlier), -1)

    def mix(self, weights: Tensor) -> Tensor:
        """Sum up all keys by weight: [B, H, T, S + E] -> [B, H, T, D]."""
        own, earlier = weights.split((self.tokens.shape[1], self.entries.shape[-2]), -1)
        shape = (*weights.shape[:3], -1)
        mixed: Tensor = (_flat(own) @ self.tokens).view(shape)
        if self.at is None:
            return mixed.add_((_flat(earlier) @ self.entries).view(shape))
        return mixed.add_((earlier.transpose(1, 2) @ self.entries).transpose(1, 2))

    def spread(self, weights: Tensor, x: Tensor, tokens: Tensor, entries: Tensor) -> None:
        """Add to each key, by weight, the rows x [B, H, T, D] of the queries that see it."""
        own, earlier = weights.split((self.tokens.shape[1], self.entries.shape[-2]), -1)
        tokens[:, self.tile.first : self.tile.stop] += _flat(own).mT @ _flat(x)
        if self.at is None:
            entries[:, : self.entries.shape[1]] += _flat(earlier).mT @ _flat(x)
            return
        shares = earlier.transpose(1, 2).mT @ x.transpose(1, 2)
        entries.view(-1, entries.shape[-1]).index_add_(0, self.at.flatten(), shares.flatten(0, 2).to(entries.dtype))


def _parts(q: Tensor, c: Tensor, e: Tensor, reach: Reach, kept: Tensor | None = None) -> Iterator[_Part]:
    """Give the keys of each tile with its scores, scaled and hidden."""
    (B, H, N, _), wide = q.shape, sums(q.dtype)
    first = (torch.arange(B, device=q.device) * e.shape[1]).view(-1, 1, 1)
    for tile in tiles(B, H, N, reach, None if kept is None else kept.shape[-1], q.device):
        t = torch.arange(tile.start, tile.stop, device=q.device).unsqueeze(-1)
        s = torch.arange(tile.first, tile.stop, device=q.device)
        unseen = (s > t) | (s <= t - reach.window)
        if kept is None:
            i = torch.arange(tile.entries, device=q.device)
            part = _Part(tile, c[:, tile.first : tile.stop], e[:, : tile.entries], None, q)
            unseen = torch.cat((unseen, i >= (t + 1) // reach.block), -1)
        else:
            some = kept[:, tile.start : tile.stop]
            at = some.clamp(min=0).add_(first)
            part = _Part(tile, c[:, tile.first : tile.stop], F.embedding(at, e.flatten(0, 1)), at, q)
            unseen = torch.cat((unseen.expand(B, -1, -1), some < 0), -1).unsqueeze(1)
        part.scores = part.dots(q[:, :, part.rows]).to(wide).mul_(reach.scale * LOG2_E).masked_fill_(unseen, -torch.inf)
        yield part


def _flat(x: Tensor) -> Tensor:
    """Take the heads as more rows: [B, H, T, ·] -> [B, H T, ·]."""
    return x.flatten(1, 2)
