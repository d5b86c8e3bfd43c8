"""Orders of the tokens in which a query sees one or a few ranges of keys, so that blocks of 128 × 128 skip well.

In the order of the text the residues of a stride touch every block, and so do the cells of a summary. Here residues are
grouped, and summaries follow the keys. H heads, N tokens, R ranges of a query, C cells of a summary.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..patterns.band import Band, Part, Summary
from ..patterns.pattern import Pattern, Shape


@dataclass(frozen=True)
class Layout:
    """The order of queries and keys of a call, and what each query sees.

    order, int64 [N]: tokens of the queries and of the first N keys, or None for their own order. cells, int64 [heads or 1, C]:
    tokens of the keys that follow, or None. Query a sees keys first[…, a] … stop[…, a] - 1 of each of R disjoint ranges, int32
    [heads or 1, R, N], with one head where all see the same.
    """

    order: Tensor | None
    cells: Tensor | None
    first: Tensor
    stop: Tensor

    @property
    def keys(self) -> int:
        """Count the keys, summaries included."""
        return self.first.shape[-1] + (0 if self.cells is None else self.cells.shape[-1])

    @property
    def key(self) -> tuple[object, ...]:
        """Return what layouts of different heads must have in common to be joined."""
        order = None if self.order is None else tuple(self.order.tolist())
        return order, self.keys, self.first.shape[1:]


@dataclass(frozen=True)
class Share:
    """Some heads, and the layouts that each show a part of what they see."""

    heads: tuple[int, ...]
    layouts: tuple[Layout, ...]


def shares(pattern: Pattern, shape: Shape) -> list[Share]:
    """Lay out all heads, each once; on a CPU, where the lists are built."""
    together: dict[object, list[Share]] = {}
    for part in pattern.parts(shape):
        share = Share(part.heads, tuple(_layouts(part, shape.N)))
        together.setdefault(tuple(layout.key for layout in share.layouts), []).append(share)
    return [_joined(group) for group in together.values()]


def _joined(group: list[Share]) -> Share:
    """Join shares to one of all their heads, in order, whose ranges then differ by head."""
    if len(group) == 1:
        return group[0]
    heads = torch.tensor([head for share in group for head in share.heads])
    same = zip(*(share.layouts for share in group), strict=True)
    sizes, order = [len(share.heads) for share in group], heads.argsort()
    return Share(tuple(heads[order].tolist()), tuple(_side_by_side(layouts, sizes, order) for layouts in same))


def _side_by_side(layouts: tuple[Layout, ...], sizes: list[int], order: Tensor) -> Layout:
    def joined(tensors: list[Tensor]) -> Tensor:
        return torch.cat([x.expand(n, *x.shape[1:]) for x, n in zip(tensors, sizes, strict=True)])[order].contiguous()

    cells = [x.cells for x in layouts if x.cells is not None]
    first, stop = joined([x.first for x in layouts]), joined([x.stop for x in layouts])
    return replace(layouts[0], first=first, stop=stop, cells=joined(cells) if cells else None)


def _layouts(part: Part, N: int) -> list[Layout]:
    """Lay out bands of residues by residue, others in text order, or with the residues if all their keys precede these."""
    residues = [band for band in part.bands if band.stride > 1]
    if not residues:
        return [_layout(part, part.bands, N, None)]
    before = residues[0].keys[0]
    along = [band for band in part.bands if band.stride == 1 and min(band.queries[1], band.keys[1]) <= before]
    rest = tuple(band for band in part.bands if band.stride == 1 and band not in along)
    by_residue = _layout(part, (*residues, *along), N, _order(N, residues[0].stride, before))
    return [by_residue, *([_layout(part, rest, N, None)] if rest else [])]


def _order(N: int, stride: int, before: int) -> Tensor:
    """Order the first tokens, then the others residue by residue."""
    others = torch.arange(before, N)
    return torch.cat([torch.arange(before), others[(others % stride).argsort(stable=True)]])


def _layout(part: Part, bands: tuple[Band, ...], N: int, order: Tensor | None) -> Layout:
    place = torch.arange(N) if order is None else order.argsort()
    ranges = torch.stack([_range(band, place) for band in bands], dim=1)
    first, stop = (x.unsqueeze(0).int().contiguous() for x in (ranges if order is None else ranges[..., order]))
    cells = _cells(part.summary) if part.summary is not None and any(band.summary for band in bands) else None
    return Layout(order, cells, first, stop)


def _cells(summary: Summary) -> Tensor:
    """List the tokens of a summary, for one head where all have the same."""
    tokens = summary.tokens()
    return tokens[:1] if len(set(summary.starts)) == 1 else tokens


def _range(band: Band, place: Tensor) -> Tensor:
    """Compute the range of keys of each token, with keys in order of `place`: int64 [2, N], first and after the last."""
    N = len(place)
    t = torch.arange(N)
    g = t % band.stride if band.stride > 1 else t // band.apart if band.groups > 1 else torch.zeros_like(t)
    a = (t - g * band.apart) // band.stride
    first, stop = torch.tensor([band.key_positions(group) for group in range(band.groups)])[g].unbind(1)
    row = a // band.query_unit
    if band.high is not None:
        first = first.maximum((row - band.high) * band.key_unit)
    if band.low is not None:
        stop = stop.minimum((row - band.low + 1) * band.key_unit)
    asks = (t >= band.queries[0]) & (t < band.queries[1]) & (a < band.length)
    count = (stop - first).clamp(min=0) * asks
    begin = N + first if band.summary else place[(g * band.apart + first * band.stride).clamp(0, N - 1)]
    return torch.stack([begin, begin + count]) * (count > 0)


def reordered(x: Tensor, layout: Layout) -> Tensor:
    """Arrange keys or values as the layout has them: [B, heads, N, ·] -> [B, heads, N + C, ·]."""
    natural = x if layout.order is None else x.index_select(2, layout.order)
    if layout.cells is None:
        return natural
    index = layout.cells[None, :, :, None].expand(x.shape[0], x.shape[1], -1, x.shape[3])
    return torch.cat([natural, x.gather(2, index)], dim=2)


def with_sink(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Append a key of zeros, and two value columns: 1 and 0 for each key, 0 and 1 for that one."""
    ones = F.pad(v.new_ones(*v.shape[:3], 1), (0, 1))
    sink = F.pad(v.new_zeros(*v.shape[:2], 1, v.shape[3] + 1), (0, 1), value=1.0)
    return F.pad(k, (0, 0, 0, 1)), torch.cat([torch.cat([v, ones], dim=3), sink], dim=2)
