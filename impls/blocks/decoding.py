"""The state of decoding over blocks: all keys and values so far, and the means of complete blocks.

b batch, K heads of k and v, R heads of q that share one, n tokens so far, L tokens of a block, C = n // L complete blocks, E
blocks chosen by a query, S keys that are read, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from ..partial.cache import KvCache
from ..partial.softmax import sums
from .eager.heads import block_means


@dataclass(frozen=True)
class BlockCache:
    """Keys and values of all tokens so far (`tokens`), and the means of their complete blocks (`means`)."""

    tokens: KvCache
    means: KvCache
    block: int

    @classmethod
    def of(cls, k: Tensor, v: Tensor, capacity: int, block: int, *, values: bool) -> Self:
        """Start a cache with tokens [b, K, n, D] and [b, K, n, M].

        With `values`, means of v are kept too; else those have width 0. Raises ValueError if the tokens exceed the capacity.
        """
        averaged = v if values else v[..., :0]
        means = KvCache.of(block_means(k, block), block_means(averaged, block), capacity // block)
        return cls(KvCache.of(k, v, capacity), means, block)

    def then(self, k: Tensor, v: Tensor) -> Self:
        """Append one token in the same memory, and a mean where it completes a block. Raises ValueError where full."""
        tokens, means = self.tokens.then(k, v), self.means
        if tokens.length % self.block == 0:
            last = (x[:, :, -self.block :] for x in (tokens.keys, tokens.values[..., : means.v.shape[-1]]))
            means = means.then(*(block_means(x, self.block) for x in last))
        return type(self)(tokens, means, self.block)

    @property
    def last(self) -> int:
        """Return the index of the token that was added last."""
        return self.tokens.length - 1


def attend_chosen(q: Tensor, tokens: KvCache, block: int, chosen: Tensor, scale: float) -> Tensor:
    """Attend from the last token to its own block and the chosen ones: [b, X, R, D], int [b, X, E] -> [b, X, R, M].

    X is K, where the R heads that share one of k choose together, or H = K G with R = 1, where each chooses for itself.
    """
    own = (tokens.length - 1) // block
    # only so many blocks lie before the own one
    chosen = chosen[..., : min(chosen.shape[-1], own)]
    within = torch.arange(block, device=q.device)
    earlier = (chosen.long().unsqueeze(-1) * block + within).flatten(-2)
    rest = torch.arange(own * block, tokens.length, device=q.device).expand(*earlier.shape[:2], -1)
    place = torch.cat((earlier, rest), -1)
    rows = place.clamp(min=0) + _first_rows(tokens.k).repeat_interleave(place.shape[1] // tokens.k.shape[1], dim=1)
    return attend_keys(q, _rows(tokens.k, rows), _rows(tokens.v, rows), scale, absent=place < 0)


def attend_keys(q: Tensor, k: Tensor, v: Tensor, scale: float, absent: Tensor | None = None) -> Tensor:
    """Attend to given keys except `absent` ones: [b, K, R, D], [b, K, S, D], [b, K, S, M], bool [b, K, S] -> [b, K, R, M]."""
    return weights_of(q, k, scale, absent).to(v.dtype) @ v


def weights_of(q: Tensor, k: Tensor, scale: float, absent: Tensor | None = None) -> Tensor:
    """Compute the softmax weights [b, K, R, D], [b, K, S, D] -> [b, K, R, S], in float32 at least."""
    scores = (q @ k.mT).to(sums(q.dtype)).mul_(scale)
    if absent is not None:
        scores.masked_fill_(absent.unsqueeze(2), -torch.inf)
    return scores.softmax(-1)


def _first_rows(x: Tensor) -> Tensor:
    """Number the first row of each head in the flattened memory [b, K, capacity, ·] -> [b, K, 1]."""
    heads, capacity = x.shape[:2], x.shape[2]
    return (torch.arange(heads.numel(), device=x.device) * capacity).view(*heads, 1)


def _rows(x: Tensor, rows: Tensor) -> Tensor:
    """Gather rows [b, K, S] of a cache's flattened memory -> [b, K, S, ·]."""
    return x.flatten(0, 2).index_select(0, rows.flatten()).view(*rows.shape, -1)
