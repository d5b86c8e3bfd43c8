"""Decoding from the keys that a pattern's later queries can still see.

b batch, H heads, K heads of k and v, n tokens, S keys of a band, D query/key width, M value width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...partial.cache import refuse_beyond
from ...partial.softmax import Rule, attend
from .caches import Caches, Share

Part = tuple[Tensor, Tensor]
"""The output for some keys, and the logsumexp of their scores."""


@dataclass(frozen=True)
class SparseState:
    """The keys and values of the first `length` of at most `capacity` tokens: a tensor of each for each cache."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    length: int
    capacity: int


def state_of(caches: Caches, k: Tensor, v: Tensor, capacity: int) -> SparseState:
    """Build the state after n tokens, [b, K, n, D] and [b, K, n, M]. Raises ValueError where they do not fit."""
    refuse_beyond(k.shape[2], capacity)
    k, v = k.detach(), v.detach()
    keys, values = (tuple(cache.holding(x) for cache in caches.layouts) for x in (k, v))
    return SparseState(keys, values, k.shape[2], capacity)


def step(
    caches: Caches,
    scale: float,
    inputs: tuple[Tensor, Tensor, Tensor],
    state: SparseState,
    sinks: Tensor | None = None,
) -> tuple[Tensor, SparseState]:
    """Attend one token, updating the state in place. Raises ValueError where it is full.

    [b, H, 1, D], [b, K, 1, D], [b, K, 1, M] -> [b, H, 1, M] and the state. `sinks` [H] are one more score for each head.
    """
    q, k, v = (x.detach() for x in inputs)
    token = state.length
    refuse_beyond(token + 1, state.capacity)
    for cache, keys, values in zip(caches.layouts, state.keys, state.values, strict=True):
        cache.write(keys, k, token)
        cache.write(values, v, token)
    after = replace(state, length=token + 1)
    if len(caches.shares) == 1:
        return _attended(caches.shares[0], scale, q, after, v.shape[-1], sinks), after
    o = v.new_empty(*q.shape[:3], v.shape[-1])
    for share in caches.shares:
        o[:, share.heads] = _attended(share, scale, q, after, v.shape[-1], sinks)
    return o, after


def extend(
    caches: Caches,
    scale: float,
    inputs: tuple[Tensor, Tensor, Tensor],
    state: SparseState,
    sees: Callable[[Tensor, Tensor], Tensor],
    sinks: Tensor | None = None,
) -> tuple[Tensor, SparseState]:
    """Attend n tokens at once where the caches are one, and leave the state as it was. Raises as `step` does.

    [b, H, n, D], [b, K, n, D], [b, K, n, M] -> [b, H, n, M] and the state. `sees` marks the earlier tokens [S] that the pattern
    shows to queries [n, 1].
    """
    (b, H, n, _), (cache,) = inputs[0].shape, caches.layouts
    (writer,), (q, k, v) = cache.writers, (x.detach() for x in inputs)
    refuse_beyond(state.length + n, state.capacity)
    new = torch.arange(state.length, state.length + n, device=q.device)
    held = torch.arange(max(0, state.length - cache.slots), state.length, device=q.device)
    used, order = writer.slots.of_all(held).sort()
    tokens, last = torch.cat((held[order], new)), writer.slots.of_all(new[-cache.slots :])

    def seen_and_kept(old: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[:, writer.heads]
        # a full cache is read as it lies, in the order of its slots
        earlier = old if len(used) == cache.slots else old.index_select(2, used)
        return torch.cat((earlier, rows), 2), old.index_copy(2, last, rows[:, :, -len(last) :])

    (keys, k_after), (values, v_after) = seen_and_kept(state.keys[0], k), seen_and_kept(state.values[0], v)
    seen, groups = sees(new.unsqueeze(1), tokens) & (tokens <= new.unsqueeze(1)), H // keys.shape[1]
    hidden = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill_(~seen, -torch.inf).repeat(groups, 1)
    o, logsumexp = attend(q.reshape(b, -1, groups * n, q.shape[3]), keys, values, Rule(scale, bias=hidden[None, None]))
    o, logsumexp = o.reshape(b, H, n, -1), logsumexp.reshape(b, H, n)
    if sinks is not None:
        o = merged([(o, logsumexp), (o.new_zeros(()), sinks.detach().to(logsumexp.dtype).view(1, -1, 1).expand_as(logsumexp))])
    return o, SparseState((k_after,), (v_after,), state.length + n, state.capacity)


def _attended(share: Share, scale: float, q: Tensor, state: SparseState, M: int, sinks: Tensor | None) -> Tensor:
    """Attend for the heads of a share: [b, H, 1, D] -> [b, heads of the share, 1, M]; a query that sees nothing gets 0."""
    rows, rule = q[:, share.heads], Rule(scale)
    parts: list[Part] = []
    for read in share.reads:
        seen = read.seen(state.length - 1)
        if seen is None:
            continue
        keys, values = state.keys[read.cache], state.values[read.cache]
        # heads of q that share a row of the cache are rows of one product
        together = rows.reshape(q.shape[0], keys.shape[1], -1, q.shape[3])
        parts.append(attend(together, keys[:, :, seen], values[:, :, seen], rule))
    outer = (q.shape[0], share.count, 1)
    if not parts:
        return q.new_zeros(*outer, M)
    parts = [(o.reshape(*outer, M), logsumexp.reshape(outer)) for o, logsumexp in parts]
    if sinks is not None:
        logsumexp = sinks.detach()[share.heads].to(parts[0][1].dtype).view(1, -1, 1).expand(outer)
        parts.append((parts[0][0].new_zeros(()), logsumexp))
    return merged(parts)


def merged(parts: list[Part]) -> Tensor:
    """Merge softmaxes over disjoint sets of keys: outputs [..., M] with logsumexps [...] -> [..., M].

    May overwrite them.
    """
    o, logsumexp = parts[0]
    if len(parts) == 1:
        return o
    # in float32 at least; otherwise in the memory of the first part
    total = o.to(logsumexp.dtype)
    for more, its in parts[1:]:
        total.lerp_(more.to(total.dtype), (its - logsumexp).sigmoid_().unsqueeze(-1))
        logsumexp = torch.logaddexp(logsumexp, its)
    return total.to(o.dtype)
