"""Softmax attention over listed keys, with a backward through those alone.

B batch with heads of k folded in, T of them that share a list, R heads of q for each, N queries, S keys, k keys kept, D
query/key width, M value width.
"""

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...partial.softmax import sums
from .selection import SCORES

_dots = torch.ops.aten._embedding_bag_per_sample_weights_backward.default
with warnings.catch_warnings():
    # of the first such matrix in a process torch says that its sparse formats are in beta state
    warnings.simplefilter("ignore")
    torch.zeros(1, 1).to_sparse_csr()


def attend_kept(q: Tensor, k: Tensor, v: Tensor, kept: Tensor, scale: float) -> Tensor:
    """Attend: [B, R, N, D], [B, S, D], [B, S, M], int64 [B / T, R or 1, N, k], negative where there is none -> [B, R, N, M].

    T neighbours share a list, and so do the heads of q where there is one for all. Differentiable once; each query needs at
    least one key. Sums are in float32 at least. Gradients of a key are added in the order of the queries, so that they are the
    same at each call.
    """
    o: Tensor = _KeptKeys.apply(q, k, v, kept, scale)  # type: ignore[no-untyped-call]
    return o


class _KeptKeys(torch.autograd.Function):
    """`attend_kept` with its gradient; it reads rows of k and v in place, of which a gather would make k copies."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kept: Tensor, scale: float) -> Tensor:  # noqa: ANN401 - torch's own bag
        """Compute scores of the listed keys, softmax, and the sum of values; keep the weights where a backward may follow."""
        o, trains = v.new_empty(*q.shape[:3], v.shape[-1]), any(ctx.needs_input_grad)
        weights = o.new_empty((*q.shape[:3], kept.shape[3]) if trains else (), dtype=sums(q.dtype))
        for group, rows in _groups(kept, q, k):
            heads = group[0]
            p = rows.dots(q[group], k[heads]).mul_(scale).masked_fill_(rows.absent, -torch.inf).softmax(-1)
            o[group] = rows.sums(p, v[heads]).view_as(o[group])
            if trains:
                weights[group] = p.view_as(weights[group])
        ctx.save_for_backward(q, k, v, kept, weights)
        ctx.scale = scale
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Compute dS = P ∘ (dP - rowsum(P ∘ dP)), dP = g vᵀ of the kept keys; dq = dS k, dk = dSᵀ q, dv = Pᵀ g."""
        q, k, v, kept, weights = ctx.saved_tensors
        dq, (dk, dv) = torch.empty_like(q), (torch.zeros_like(x, dtype=sums(x.dtype)) for x in (k, v))
        for group, rows in _groups(kept, q, k):
            heads, p = group[0], weights[group].flatten(0, -2)
            dp = rows.dots(g[group], v[heads])
            ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * ctx.scale
            dq[group] = rows.sums(ds, k[heads]).view_as(dq[group])
            # heads of q that share one of k and v may be in several groups
            dk[heads] += rows.spread(ds, q[group]).view_as(dk[heads])
            dv[heads] += rows.spread(p, g[group]).view_as(dv[heads])
        return dq, dk.to(k.dtype), dv.to(v.dtype), None, None


class _Rows:
    """The listed keys of some queries [z, R, N, k] as rows of k or v [z, S, ·]: n = z R N queries."""

    def __init__(self, kept: Tensor, S: int) -> None:
        z, k = kept.shape[0], kept.shape[-1]
        self.count = z * S
        first = torch.arange(0, self.count, S, device=kept.device).view(z, 1, 1, 1)
        self.absent = (kept < 0).view(-1, k)
        # an absent key may be any key, since its weight is 0
        self.index = (kept.clamp(min=0) + first).view(-1, k)

    def dots(self, x: Tensor, rows: Tensor) -> Tensor:
        """Multiply each query [z, R, N, ·] with its listed rows of [z, S, ·]: [n, k]."""
        x, rows, places, k = _flat(x), _flat(rows), self.index.view(-1), self.index.shape[1]
        found: Tensor
        if x.is_cuda:
            queries = torch.arange(len(x), device=x.device)
            found = _dots(x, rows, places, queries * k, queries.repeat_interleave(k), 0)
        else:
            # torch takes no list that is longer than there are keys
            rows = F.pad(rows, (0, 0, 0, k - len(rows))) if k > len(rows) else rows
            # a third of what `_dots` takes; written into the zeros, which are copied otherwise
            found, starts = x.new_zeros(len(places)), torch.arange(0, len(places) + 1, k)
            listed = torch.sparse_csr_tensor(starts, places, found, (len(x), len(rows)), check_invariants=False)
            torch.sparse.sampled_addmm(listed, x, rows.mT, beta=0.0, out=listed)
        return found.view_as(self.index)

    def sums(self, weights: Tensor, rows: Tensor) -> Tensor:
        """Sum up listed rows of [z, S, ·] by weight: [n, ·]."""
        return F.embedding_bag(self.index, _flat(rows), per_sample_weights=weights, mode="sum")

    def spread(self, weights: Tensor, x: Tensor) -> Tensor:
        """Sum up for each row, by weight, the queries [z, R, N, ·] that list it: [z S, ·]."""
        queries, starts, order = self._by_row
        in_order = weights.view(-1).index_select(0, order)
        return F.embedding_bag(queries, _flat(x), starts, per_sample_weights=in_order, mode="sum")

    @cached_property
    def _by_row(self) -> tuple[Tensor, Tensor, Tensor]:
        """List the queries of each row one after the other, in order: all of them, where each row's begin, and their places."""
        # half as wide, and as fast, as int64
        listed, order = self.index.view(-1).int().sort(stable=True)
        starts = torch.searchsorted(listed, torch.arange(self.count, dtype=torch.int32, device=listed.device))
        return order.div(self.index.shape[1], rounding_mode="floor"), starts, order


def _groups(kept: Tensor, q: Tensor, k: Tensor) -> Iterator[tuple[tuple[slice, slice], _Rows]]:
    """Cut heads of k, and where these are too many those of q that share one, into groups of a limited number of weights.

    All heads that share a list are in one group, or where they are too many one by one, with the same rows.
    """
    (lists, own), R, of_one, share = kept.shape[:2], q.shape[1], kept[0, 0].numel(), len(k) // len(kept)
    width, heads = SCORES // (share * R * of_one), min(own, max(1, SCORES // of_one))
    if width:
        for a in range(0, lists, width):
            some = kept[a : a + width].unsqueeze(1).expand(-1, share, R, -1, -1).flatten(0, 1)
            yield (slice(a * share, (a + width) * share), slice(R)), _Rows(some, k.shape[1])
        return
    for a in range(lists):
        for r in range(0, own, heads):
            rows = _Rows(kept[a : a + 1, r : r + heads], k.shape[1])
            for head in range(a * share, (a + 1) * share):
                for of_q in (slice(r, r + heads),) if own == R else (slice(each, each + 1) for each in range(R)):
                    yield (slice(head, head + 1), of_q), rows


def _flat(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).to(sums(x.dtype))
