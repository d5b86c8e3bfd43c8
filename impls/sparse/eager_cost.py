"""FLOPs of the rectangles' tiles, masked pairs included, and the bytes that a call holds at its peak.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width, W the wider of the two, R rows (samples and
heads) of a walk, Y tiles, Q queries and S keys of a tile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attnbench.api import Problem, Workload

from ..partial.scratch import queries_at_once
from .plan import Plan, Walk
from .rectangles import Rectangle, Stairs
from .rows import walks


def executed_flops(p: Problem, plan: Plan, workload: Workload) -> float:
    """Count two products over the pairs of all tiles; the backward adds five: S and dP again, dq, dk, dv."""
    both = workload is Workload.FORWARD_BACKWARD
    products = 2 * _pairs(plan.forward) + (5 * _pairs(plan.backward) if both else 0)
    return 2.0 * p.B * products * max(p.D, p.M)


def _pairs(way: tuple[Walk, ...]) -> int:
    return sum(len(walk.heads) * sum(map(executed_pairs, walk.rectangles)) for walk in way)


def executed_pairs(r: Rectangle) -> int:
    """Count the pairs of one row: all of a tile; of a causal one each block of queries up to its last key."""
    length, S = r.queries.length, r.keys.length
    if not r.causal:
        return r.queries.count * length * S
    block = queries_at_once(length)
    return r.queries.count * sum(min(block, length - a) * min(a + block, S) for a in range(0, length, block))


def peak_bytes(p: Problem, plan: Plan, workload: Workload) -> float:
    """Count the bytes that live throughout, and the larger of the walk that needs most and the rounded results."""
    if workload is Workload.FORWARD_BACKWARD:
        return _backward(p, plan.backward)
    sizes = _Sizes(p)
    output = p.B * p.H * p.N * p.M
    rounded = output * p.dtype.bytes if sizes.rounds else 0
    most = sizes.most(plan.forward, sizes.forward)
    return output * sizes.sum + sizes.logsumexp + max(rounded, most)


def _backward(p: Problem, way: tuple[Walk, ...]) -> float:
    """Count the bytes of a backward: the output, its logsumexp, the sums of all gradients, and the largest walk."""
    sizes = _Sizes(p)
    gradients = p.B * p.N * (p.H * p.D + p.kv_heads * (p.D + p.M))
    rounded = gradients * p.dtype.bytes if sizes.rounds else 0
    most = sizes.most(way, sizes.backward)
    kept = p.B * p.H * p.N * p.M * p.dtype.bytes + sizes.logsumexp
    return kept + gradients * sizes.sum + max(rounded, most)


@dataclass(frozen=True)
class _Sizes:
    """Sizes in bytes: of a number in a sum, and of what a walk holds."""

    p: Problem

    @property
    def sum(self) -> int:
        """Return the bytes of a number of the output and the gradients while parts are added."""
        return max(4, self.p.dtype.bytes)

    @property
    def rounds(self) -> bool:
        """Say whether those are wider than the dtype asked for."""
        return self.sum > self.p.dtype.bytes

    @property
    def logsumexp(self) -> int:
        """Count the bytes of the logsumexp of all queries."""
        return self.p.B * self.p.H * self.p.N * self.sum

    def most(self, way: tuple[Walk, ...], part: Callable[[Walk, Rectangle, int], float]) -> float:
        """Find the most bytes that any rectangle needs, with its walk's summary and all masks built so far."""
        most, known = 0.0, set[Stairs]()
        for walk in way:
            turns = [len(rows) for rows, _ in walks(self.p.B, self.p.H, self.p.kv_heads, walk.heads, walk.rows)]
            # from the second turn on all masks exist
            for r in walk.rectangles * min(2, len(turns)):
                made = 0 if r.stairs is None or r.stairs in known else r.stairs.queries * r.stairs.keys
                known |= {r.stairs} if r.stairs else set()
                masks = self.sum * sum(s.queries * s.keys for s in known)
                # while a mask is built: positions as int32, and a mask of those beyond a limit
                most = max(most, masks + max(5 * made, part(walk, r, max(turns))))
        return most

    def forward(self, walk: Walk, r: Rectangle, R: int) -> float:
        """Count the bytes of the summary, a part's output and logsumexp, and what merges them or pads widths."""
        p, queries = self.p, R * r.queries.count * r.queries.length
        merge = 0 if r.fresh else queries * (3 * self.sum + (p.M * self.sum if self.rounds else 0))
        within = self._filled(r, R, 0) + self._scratch(r)
        part = queries * (max(p.D, p.M) * p.dtype.bytes + self.sum)
        return self._summary(walk, R, 1) + part + max(within, merge)

    def backward(self, walk: Walk, r: Rectangle, R: int) -> float:
        """Count the bytes of the summary and its gradient, a part's three gradients, and a copy of dL/do."""
        p, queries, keys = self.p, *(R * x.count * x.length for x in (r.queries, r.keys))
        copied = 0 if p.M >= p.D and self._is_dense(walk, r, R) else queries
        part = (queries + copied + 2 * keys) * max(p.D, p.M) * p.dtype.bytes + self._filled(r, R, 2)
        return self._summary(walk, R, 1 + self.sum / p.dtype.bytes) + part + self._slopes(r)

    def _scratch(self, r: Rectangle) -> int:
        """Count the bytes of one thread of the kernel: scores, and the output of its block."""
        block = queries_at_once(r.queries.length)
        return block * (min(512, r.keys.length) + 2 + max(self.p.D, self.p.M)) * self.sum

    def _slopes(self, r: Rectangle) -> int:
        """Count the bytes of one thread of the kernel: probabilities and gradients of scores, twice where they are rounded."""
        square = queries_at_once(r.queries.length) * min(512, r.keys.length)
        return 2 * square * (self.sum + (self.p.dtype.bytes if self.rounds else 0))

    def _is_dense(self, walk: Walk, r: Rectangle, R: int) -> bool:
        """Say whether the kernel, which needs tiles inside tokens, finds dL/do like that: residues that make up the whole."""
        tiles = r.queries
        inside = tiles.stride == 1 if tiles.count == 1 else tiles.apart == 1 and tiles.stride == tiles.count
        neighbours = len(walk.heads) == self.p.H == self.p.kv_heads
        return inside and (R == 1 or (neighbours and tiles.count * tiles.length == self.p.N))

    def _filled(self, r: Rectangle, R: int, outputs: int) -> float:
        """Count the bytes of queries and k, or of v and everything as wide as the output, padded to the wider width."""
        p = self.p
        queries, keys = (R * x.count * x.length for x in (r.queries, r.keys))
        filled = 0 if p.D == p.M else queries + keys if p.D < p.M else keys + outputs * queries
        return filled * max(p.D, p.M) * p.dtype.bytes

    def _summary(self, walk: Walk, R: int, times: float) -> float:
        """Count the bytes of `times` copies of the cells of k and v, and of their indices."""
        cells = R * walk.summary.count if walk.summary else 0
        return cells * ((self.p.D + self.p.M) * self.p.dtype.bytes * times + 8)
