"""Calls of FlexAttention, one for each layout, and their union.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask

from ..patterns.pattern import Pattern, Shape
from .flex_blocks import block_mask
from .flex_layout import Layout, Share, reordered, shares, with_sink

Attend = Callable[..., Any]
"""FlexAttention, compiled or not."""
REACH = 64.0
"""Greatest absolute logsumexp that a sink of score 0 can give: e^-87 is the least that float32 holds in full precision."""


@dataclass(frozen=True)
class Call:
    """A layout on a device, with its blocks; if `sink`, an additional key gives the total weight of the layout's keys."""

    layout: Layout
    blocks: BlockMask
    back: Tensor | None
    sink: bool

    @classmethod
    def of(cls, layout: Layout, device: torch.device, *, sink: bool) -> Self:
        """Build the lists on a CPU and move them to the device."""
        first, stop, S = layout.first, layout.stop, layout.keys
        if sink:
            last = first.new_full((first.shape[0], 1, first.shape[2]), S)
            first, stop, S = torch.cat([first, last], dim=1), torch.cat([stop, last + 1], dim=1), S + 1
        back = None if layout.order is None else layout.order.argsort().to(device)
        moved = {name: x.to(device) for name in ("order", "cells") if (x := getattr(layout, name)) is not None}
        return cls(replace(layout, **moved), block_mask(first, stop, S, device), back, sink)

    def attend(self, function: Attend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]."""
        o: Tensor = function(*self._inputs(q, k, v), **self._rest(q, k, scale))
        return self._in_order(o)

    def attend_part(self, function: Attend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Compute the output over these keys alone, and the log of their weight [B, H, N], -inf where there are none."""
        q, k, v = self._inputs(q, k, v)
        if self.sink:
            o = function(q, *with_sink(k, v), **self._rest(q, k, scale))
            return tuple(self._in_order(x) for x in _without_sink(o))  # type: ignore[return-value]
        o, logsumexp = with_logsumexp(function, q, k, v, **self._rest(q, k, scale))
        return self._in_order(o), self._in_order(logsumexp)

    def _inputs(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.layout.cells is not None and self.layout.cells.shape[0] not in (1, k.shape[1]):
            k, v = (_for_heads(x, q.shape[1]) for x in (k, v))
        order = self.layout.order
        return q if order is None else q.index_select(2, order), reordered(k, self.layout), reordered(v, self.layout)

    def _rest(self, q: Tensor, k: Tensor, scale: float) -> dict[str, Any]:
        return {"block_mask": self.blocks, "scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}

    def _in_order(self, x: Tensor) -> Tensor:
        return x if self.back is None else x.index_select(2, self.back)


@dataclass(frozen=True)
class Union:
    """The calls of some heads."""

    heads: Tensor
    """Numbers of the heads, int64, on the device, to which a list would be copied at each call."""
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, share: Share, device: torch.device, *, sink: bool) -> Self:
        """Build the calls; a single one needs no sink."""
        merged = len(share.layouts) > 1
        heads = torch.tensor(share.heads, device=device)
        return cls(heads, tuple(Call.of(x, device, sink=sink and merged) for x in share.layouts))

    def attend(self, function: Attend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Attend: [B, heads, N, D] ... -> [B, heads, N, M]. Raises ValueError on scores that a sink cannot represent."""
        if len(self.calls) == 1:
            return self.calls[0].attend(function, q, k, v, scale)
        kind = q.dtype
        if self.calls[0].sink:
            # the share of the sink may be too small for float16
            q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
        parts = [call.attend_part(function, q, k, v, scale) for call in self.calls]
        total = reduce(torch.logaddexp, [logsumexp for _, logsumexp in parts])
        if self.calls[0].sink:
            _within_reach(total)
        return _merged(parts, total).to(kind)


def unions(pattern: Pattern, shape: Shape, device: torch.device, *, sink: bool) -> list[Union]:
    """Build the calls of all heads, for a length and a device."""
    return [Union.of(share, device, sink=sink) for share in shares(pattern, shape)]


def attend(unions: list[Union], function: Attend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend, each head by its own calls: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M]."""
    if len(unions) == 1:
        return unions[0].attend(function, q, k, v, scale)
    k, v = (_for_heads(x, q.shape[1]) for x in (k, v))
    parts = [union.attend(function, *_of(union.heads, q, k, v), scale) for union in unions]
    back = torch.cat([union.heads for union in unions]).argsort()
    return torch.cat(parts, dim=1).index_select(1, back)


def _of(heads: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Select some heads of all three."""
    return q.index_select(1, heads), k.index_select(1, heads), v.index_select(1, heads)


def _for_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat heads of k or v for each head of q."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def with_logsumexp(function: Attend, *inputs: Tensor, **rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - its keywords
    """Compute output and logsumexp, by whichever interface this version of torch has."""
    if hasattr(flex, "AuxRequest"):
        o, aux = function(*inputs, **rest, return_aux=flex.AuxRequest(lse=True))
        return o, aux.lse
    o, logsumexp = function(*inputs, **rest, return_lse=True)
    return o, logsumexp


def _without_sink(o: Tensor) -> tuple[Tensor, Tensor]:
    """Compute from two more output columns the mean over the keys alone, and the log of their weight, the sink's being 1."""
    keys, sink = o[..., -2:-1], o[..., -1:]
    return o[..., :-2] / keys.clamp(min=torch.finfo(o.dtype).tiny), (keys / sink).log().squeeze(-1)


def _within_reach(logsumexp: Tensor) -> None:
    """Raise ValueError where a sink cannot represent the logsumexp, because the output would be finite but wrong."""
    if bool((logsumexp.abs() > REACH).any()):
        raise ValueError(f"FlexAttention on a CPU cannot merge scores this far from 0: their logsumexp is beyond ±{REACH:g}")


def _merged(parts: list[tuple[Tensor, Tensor]], total: Tensor) -> Tensor:
    """Merge softmaxes of a union by exp(logsumexp - total), of which one at least is not -inf; `total` is that of all."""
    return sum(
        (o * (logsumexp - total).exp().unsqueeze(-1).to(o.dtype) for o, logsumexp in parts),
        start=torch.zeros((), dtype=parts[0][0].dtype, device=total.device),
    )
