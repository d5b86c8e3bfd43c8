"""The slots of sorted tokens, cut into chunks that form a ring over all rounds.

B rows (batch and heads folded) that are taken together, R rounds, N tokens, m slots of a chunk, c chunks of a round, w chunks
in the window of a query, L chunks of queries at once. A slot is one token in one round; the last c m - N of a round are empty.
So that every window is w m adjacent slots, each row of chunks has its last one also in front and, if queries look forward, its
first one also at the end: C chunks in all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Ring:
    """The shape of a ring: a query sees its own chunk, the one before and, if `after`, the next.

    Before the first chunk of a round comes the last of the round before, and before the very first the very last.
    """

    N: int
    rounds: int
    bucket_size: int
    after: bool = False

    @property
    def m(self) -> int:
        """Count the slots of a chunk: no more than there are tokens."""
        return min(self.bucket_size, self.N)

    @property
    def chunks(self) -> int:
        """Count the chunks of one round."""
        return -(-self.N // self.m)

    @property
    def empty(self) -> int:
        """Count the slots of one round that hold no token: the last ones."""
        return self.chunks * self.m - self.N

    @property
    def near(self) -> int:
        """Count the chunks in a window."""
        return 2 + self.after

    @property
    def C(self) -> int:
        """Count the chunks of a row, including those that it has twice."""
        return self.rounds * self.chunks + self.near - 1


@dataclass(frozen=True)
class Slots:
    """The slots of B rows, from the sorted positions [B, R, N]. Tokens are numbered across all rows, 0 to B N."""

    ring: Ring
    order: Tensor

    @cached_property
    def tokens(self) -> Tensor:
        """Number the token of each slot, int32 [B C, m]; an empty slot has the first token of its round."""
        B, N = len(self.order), self.ring.N
        first = torch.arange(0, B * N, N, dtype=torch.int32, device=self.order.device)
        return self.arranged(self.order + first.view(B, 1, 1))

    def arranged(self, x_BRN: Tensor) -> Tensor:
        """Arrange what is in sorted order by slot: [B C, m]; an empty slot gets what the first of its round has."""
        ring = self.ring
        if ring.empty:
            x_BRN = torch.cat((x_BRN, x_BRN[..., :1].expand(-1, -1, ring.empty)), 2)
        chunks_BCm = x_BRN.reshape(len(x_BRN), -1, ring.m)
        return torch.cat((chunks_BCm[:, -1:], chunks_BCm, chunks_BCm[:, : ring.near - 2]), 1).flatten(0, 1)

    @cached_property
    def places(self) -> Tensor:
        """Find the slot of each token in each round, int32 [B N, R]: the inverse of the order."""
        (B, R, N), ring, device = self.order.shape, self.ring, self.order.device
        row = torch.arange(B, dtype=torch.int32, device=device).view(B, 1, 1) * (ring.C * ring.m)
        turn = torch.arange(R, dtype=torch.int32, device=device).view(R, 1) * (ring.chunks * ring.m)
        slot_BRN = row + turn + torch.arange(ring.m, ring.m + N, dtype=torch.int32, device=device)
        places = torch.empty(B, N, R, dtype=torch.int32, device=device)
        places.mT.scatter_(2, self.order.long(), slot_BRN)
        return places.flatten(0, 1)

    def by_chunk(self, x: Tensor) -> Tensor:
        """Group chunks by row, a view: [B C, m, ...] -> [B, C, m, ...]."""
        return x.view(-1, self.ring.C, *x.shape[1:])

    def last_of_rounds(self, x: Tensor) -> Tensor:
        """Select the last chunk of each round, preceded by the copy in front of the row, a view: [B C, m] -> [B, R + 1, m]."""
        return self.by_chunk(x)[:, :: self.ring.chunks][:, : self.ring.rounds + 1]

    @cached_property
    def askers(self) -> Tensor:
        """Number the token whose query is at each slot, [B C, m]; B N for empty slots and for copies of chunks."""
        ring, askers = self.ring, self.tokens.clone()
        nobody, chunks = self.order.shape[0] * ring.N, self.by_chunk(askers)
        self.last_of_rounds(askers)[..., ring.m - ring.empty :] = nobody
        chunks[:, 0] = nobody
        chunks[:, 1 + ring.rounds * ring.chunks :] = nobody
        return askers

    def fold_ends_(self, x: Tensor) -> Tensor:
        """Add what the second of two equal chunks received to the first, [B C, m, D]."""
        ring, chunks = self.ring, self.by_chunk(x)
        chunks[:, ring.rounds * ring.chunks] += chunks[:, 0]
        if ring.after:
            chunks[:, 1] += chunks[:, -1]
        return x

    def add_up(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Sum over the rounds: [B C, m, M], weights [B N, R] -> [B N, M]."""
        return F.embedding_bag(self.places, x.flatten(0, 1), per_sample_weights=weights, mode="sum")

    def stretches(self, chunks: int) -> Iterator["Stretch"]:
        """Go through all chunks of queries, `chunks` at a time; copies between rows come along, without queries."""
        stop = len(self.order) * self.ring.C - (self.ring.near - 2)
        return (Stretch(self, t, min(stop, t + chunks)) for t in range(1, stop, chunks))


@dataclass(frozen=True)
class Stretch:
    """L chunks of queries that are attended at once, with their windows of keys."""

    slots: Slots
    first: int
    stop: int

    @property
    def chunks(self) -> range:
        """List the places of its chunks in their rows, where 1 is the first of the first round."""
        return range(self.first, self.stop)

    def own(self, x: Tensor) -> Tensor:
        """Select the queries' slots, a view: [B C, m, ...] -> [L, m, ...]."""
        return x[self.first : self.stop]

    def around(self, x: Tensor) -> Tensor:
        """Select the windows' slots, an overlapping view: [B C, m, ...] -> [L, w m, ...]."""
        return self.windows(x[self._reach].flatten(0, 1))

    def gather(self, x: Tensor) -> Tensor:
        """Gather the queries' tokens: [B N, ...] -> [L, m, ...]."""
        return self._by_chunk(x.index_select(0, self._own(self.slots.tokens)))

    def gather_asked(self, x: Tensor) -> Tensor:
        """Gather the queries' tokens, and the last row where there is no query: [B N + 1, ...] -> [L, m, ...]."""
        return self._by_chunk(x.index_select(0, self._own(self.slots.askers)))

    def gather_reach(self, x: Tensor) -> Tensor:
        """Gather the tokens of all slots in windows, in a row: [B N, ...] -> [(L + w - 1) m, ...]."""
        return x.index_select(0, self._seen)

    def gather_around(self, x: Tensor) -> Tensor:
        """Gather the windows' tokens, overlapping: [B N, ...] -> [L, w m, ...]."""
        return self.windows(self.gather_reach(x))

    def own_of_reach(self, x: Tensor) -> Tensor:
        """Select the queries from what was gathered in a row, a view: [(L + w - 1) m, ...] -> [L, m, ...]."""
        m = self.slots.ring.m
        return self._by_chunk(x[m : m + len(self.chunks) * m])

    def windows(self, x: Tensor) -> Tensor:
        """View what was gathered in a row as overlapping windows: [(L + w - 1) m, ...] -> [L, w m, ...]."""
        ring, (width, *rest) = self.slots.ring, x.stride()
        return x.as_strided((len(self.chunks), ring.near * ring.m, *x.shape[1:]), (ring.m * width, width, *rest))

    def spread_(self, out: Tensor, p: Tensor, g: Tensor, scale: float = 1.0) -> None:
        """Add pᵀ g to the slots of the windows, [B C, m, M]; unless windows reach forward, the own slots are written."""
        m = p.shape[1]
        # without a chunk after, no earlier stretch has written the own slots
        self.own(out).baddbmm_(p[..., m : 2 * m].mT, g, beta=float(self.slots.ring.after), alpha=scale)
        out[self.first - 1 : self.stop - 1].baddbmm_(p[..., :m].mT, g, alpha=scale)
        if self.slots.ring.after:
            out[self.first + 1 : self.stop + 1].baddbmm_(p[..., 2 * m :].mT, g, alpha=scale)

    @property
    def _reach(self) -> slice:
        return slice(self.first - 1, self.stop + self.slots.ring.after)

    @cached_property
    def _seen(self) -> Tensor:
        return self.slots.tokens[self._reach].view(-1)

    def _own(self, slots: Tensor) -> Tensor:
        return self.own(slots).view(-1)

    def _by_chunk(self, x: Tensor) -> Tensor:
        return x.view(len(self.chunks), self.slots.ring.m, *x.shape[1:])
