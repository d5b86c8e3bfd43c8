"""The state of decoding, of constant size: a table of all old tokens by code, and the newest tokens themselves.

b batch, H heads, L tokens of a block, D query/key width, M value width, S codes. Lingle 2023, theorem 3.7, token by token.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from ..partial.softmax import Rule, attend, merge_, sums
from .eager.tables import block_tables


@dataclass(frozen=True)
class VQState:
    """All tokens so far: older ones in a table, and the newest ones directly.

    Of those in the table: `means` [b, H, S, M] of their values by code and `counts` [b, H, S], both float32 at least. Of the
    newest `filled` <= 2L, oldest first: `k` [b, H, 2L, D], quantised, `v` [b, H, 2L, M], `codes` int64 [b, H, 2L].
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
        """Append one token in the same memory: [b, H, 1, D], [b, H, 1, M], [b, H, 1]."""
        state = self._folded() if self.filled == self.k.shape[2] else self
        for kept, new in zip((state.k, state.v, state.codes), (k_hat, v, codes), strict=True):
            kept[:, :, state.filled] = new[:, :, 0].detach()
        return replace(state, filled=state.filled + 1)

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
    """Build the state after tokens [b, H, n, D], [b, H, n, M], int64 [b, H, n], n ≥ 0."""
    b, H, n = codes.shape
    folded = max(0, -(-(n - 2 * L) // L) * L)
    v = v.detach()
    means, counts = block_tables(v[:, :, :folded].flatten(0, 1), codes[:, :, :folded].flatten(0, 1), S, 1)
    k, v, z = (_window(x.detach(), folded, 2 * L) for x in (k_hat, v, codes))
    return VQState(means.view(b, H, S, -1), counts.view(b, H, S), k, v, z, n - folded, folded)


def _window(x: Tensor, start: int, size: int) -> Tensor:
    """Copy tokens from `start` on into memory for `size` tokens."""
    kept = x.new_zeros(*x.shape[:2], size, *x.shape[3:])
    kept[:, :, : x.shape[2] - start] = x[:, :, start:]
    return kept


def attend_state(q: Tensor, codebook: Tensor, state: VQState, bias: Tensor | None = None) -> Tensor:
    """Attend for the newest token's query: [b, H, 1, D], codes [H, S, D], bias [b, H, 1, filled] -> [b, H, 1, M]."""
    window = slice(0, state.filled)
    rule = Rule(1.0, bias=None if bias is None else bias.to(sums(q.dtype)))
    o, logsumexp = attend(q, state.k[:, :, window], state.v[:, :, window], rule)
    if not state.folded:
        return o
    o, wide = o.to(sums(q.dtype)), state.means.dtype
    table = codebook.to(wide).expand(len(q), *codebook.shape)
    weights = Rule(1.0, bias=state.counts.log().unsqueeze(2))
    # in the table's own dtype, since the table is larger than the query and codes to convert
    merge_(o, logsumexp, attend(q.to(wide), table, state.means, weights))
    return o.to(state.v.dtype)
