"""The state of decoding, of constant size: a table of all old tokens by code, and the newest tokens themselves.

b batch, H heads of q, K of k and v, L tokens of a block, D query/key width, M value width, S codes. Lingle 2023, theorem 3.7,
token by token.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from ..partial.softmax import Rule, attend, merge_, sums
from .eager.tables import block_tables


@dataclass(frozen=True)
class VQState:
    """All tokens so far: older ones in a table, and the newest ones directly.

    Of those in the table: `means` [b, K, S, M] of their values by code and `counts` [b, K, S], both float32 at least. Of the
    newest `filled` <= 2L, oldest first: `k` [b, K, 2L, D], quantised, `v` [b, K, 2L, M], `codes` int64 [b, K, 2L].
    """

    means: Tensor
    counts: Tensor
    k: Tensor
    v: Tensor
    codes: Tensor
    filled: int
    folded: int
    """Number of tokens in the table, a multiple of L."""

    def then(self, k_hat: Tensor, v: Tensor, codes: Tensor) -> "VQState":
        """Append the n tokens that there is room for in the same memory: [b, K, n, D], [b, K, n, M], [b, K, n]."""
        state, n = self._folded() if self.filled == self.k.shape[2] else self, codes.shape[2]
        for kept, new in zip((state.k, state.v, state.codes), (k_hat, v, codes), strict=True):
            kept[:, :, state.filled : state.filled + n] = new.detach()
        return replace(state, filled=state.filled + n)

    @property
    def room(self) -> int:
        """Count the tokens that fit in before the next block moves into the table."""
        return self.k.shape[2] - self.filled or self.k.shape[2] // 2

    def _folded(self) -> "VQState":
        """Merge the oldest block of a full window into the table, and move the other block to its place."""
        L = self.filled // 2
        old = block_tables(self.v[:, :, :L].flatten(0, 1), self.codes[:, :, :L].flatten(0, 1), self.counts.shape[2], 1)
        means, counts = (x.view(y.shape) for x, y in zip(old, (self.means, self.counts), strict=True))
        self.counts.add_(counts)
        # means are merged by weight, not as sums divided at the end, so that they never exceed the values
        self.means.lerp_(means, (counts / self.counts.clamp_min(1)).unsqueeze(-1))
        for x in (self.k, self.v, self.codes):
            x[:, :, :L] = x[:, :, L:]
        return replace(self, filled=L, folded=self.folded + L)


def state_of(k_hat: Tensor, v: Tensor, codes: Tensor, S: int, L: int) -> VQState:
    """Build the state after tokens [b, K, n, D], [b, K, n, M], int64 [b, K, n], n ≥ 0."""
    b, kv_heads, n = codes.shape
    folded = max(0, -(-(n - 2 * L) // L) * L)
    v = v.detach()
    means, counts = block_tables(v[:, :, :folded].flatten(0, 1), codes[:, :, :folded].flatten(0, 1), S, 1)
    k, v, z = (_window(x.detach(), folded, 2 * L) for x in (k_hat, v, codes))
    return VQState(means.view(b, kv_heads, S, -1), counts.view(b, kv_heads, S), k, v, z, n - folded, folded)


def _window(x: Tensor, start: int, size: int) -> Tensor:
    """Copy tokens from `start` on into memory for `size` tokens."""
    kept = x.new_zeros(*x.shape[:2], size, *x.shape[3:])
    kept[:, :, : x.shape[2] - start] = x[:, :, start:]
    return kept


def attend_state(q: Tensor, codebook: Tensor, state: VQState, bias: Tensor | None = None) -> Tensor:
    """Attend for the queries of the newest n tokens: [b, H, n, D], codes [K, S, D], bias [b, H, n, filled] -> [b, H, n, M].

    The bias hides what a query may not see; without one, each sees all.
    """
    (b, H, n), kv_heads, window = q.shape[:3], len(codebook), slice(0, state.filled)
    # the heads of q that share one of k and v are as many queries of it
    q = q.reshape(b, kv_heads, H // kv_heads * n, -1)
    rule = Rule(1.0, bias=None if bias is None else bias.to(sums(q.dtype)).reshape(*q.shape[:3], -1))
    o, logsumexp = attend(q, state.k[:, :, window], state.v[:, :, window], rule)
    if state.folded:
        o, wide = o.to(sums(q.dtype)), state.means.dtype
        table = codebook.to(wide).expand(b, *codebook.shape)
        weights = Rule(1.0, bias=state.counts.log().unsqueeze(2).expand(-1, -1, q.shape[2], -1))
        # in the table's own dtype, since the table is larger than the query and codes to convert
        merge_(o, logsumexp, attend(q.to(wide), table, state.means, weights))
    return o.to(state.v.dtype).reshape(b, H, n, -1)
