"""FLOPs and bytes of attention with adaptive spans, by formula, with the initial spans.

Left out: the packed copies of k and v that some CPUs make of float16 and bfloat16. B batch, H heads, N tokens, n queries that
may see a key, R rows (samples of a head) at once, w keys within a span, D query/key width, M value width.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..partial.scratch import backward_scratch, forward_scratch
from .limits import positive
from .sliding_tiles import Tiles, lengths, tiles, turns
from .span_mask import ramp_distances, reach


def first_spans(H: int, span: float) -> list[float]:
    """Compute the initial z of each head: span (h + 1) / H. Raises ValueError on a bad span."""
    return [positive(span, "span") * (head + 1) / H for head in range(H)]


def nearest(sees_itself: object) -> int:
    """Compute the least distance at which a token sees a key, 0 or 1. Raises ValueError unless given true or false."""
    if not isinstance(sees_itself, bool):
        raise ValueError(f"sees_itself={sees_itself!r}: must be true or false")
    return 0 if sees_itself else 1


def cost(p: Problem, workload: Workload, span: float = 256, ramp: float = 32, sees_itself: bool = False) -> Cost:
    """Compute the cost of one call. Raises ValueError on bad parameters."""
    work = _Work(p, tuple(first_spans(p.H, span)), positive(ramp, "ramp"), nearest(sees_itself))
    peaks = {Workload.FORWARD: work.forward, Workload.FORWARD_BACKWARD: work.backward, Workload.DECODE: work.step}
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=work.exact_flops(workload),
        executed_flops=work.step_flops(workload) if workload.decodes else work.executed_flops(workload),
        traffic_bytes=io_bytes(p, workload) + work.ring_bytes_moved(workload),
        peak_bytes=float(peaks.get(workload, work.all_steps)()),
    )


@dataclass(frozen=True)
class _Work:
    """FLOPs and bytes of one call, over all heads."""

    p: Problem
    spans: tuple[float, ...]
    ramp: float
    nearest: int

    def exact_flops(self, workload: Workload) -> float:
        """Count two products over the pairs with m > 0, four more in the backward; for DECODE only those of the last query."""
        passes = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
        pairs = sum(_pairs(w, self._n, workload) for w in self._reaches())
        return passes * 2.0 * self.p.B * pairs * (self.p.D + self.p.M)

    def step_flops(self, workload: Workload) -> float:
        """Count the FLOPs of steps in which every head takes all keys of the ring, padded to one width."""
        pairs = self.p.H * _pairs(self._ring(), self.p.N, workload)
        return 2.0 * self.p.B * pairs * 2 * max(self.p.D, self.p.M)

    def executed_flops(self, workload: Workload) -> float:
        """Count two products over the pairs of all tiles; the backward adds five, and two over those of the ramp."""
        products = 2 * self._tile_pairs(0)
        if workload is Workload.FORWARD_BACKWARD:
            products += 5 * self._tile_pairs(1) + 2 * self._ramp_pairs()
        return 2.0 * self.p.B * products * max(self.p.D, self.p.M)

    def ring_bytes_moved(self, workload: Workload) -> float:
        """Count the bytes of keys and values in the ring that steps read."""
        if not workload.decodes:
            return 0.0
        pairs = self.p.H * _pairs(self._ring(), self.p.N, workload)
        return float(self.p.B * pairs * (self.p.D + self.p.M) * self.p.dtype.bytes)

    def forward(self) -> float:
        """Count the bytes of the output and its logsumexp, and of the turn that needs most."""
        return self._output() + self._most(self._sliding)

    def backward(self) -> float:
        """Count the bytes of the backward: also sums of the gradients and, at the end, their rounded copies."""
        p, rows = self.p, self.p.B * self.p.H * self.p.N
        gradients, e = rows * (2 * p.D + p.M), p.dtype.bytes
        rounded = gradients * e if e < self._wide else 0
        return self._output() + gradients * self._wide + max(rounded, self._most(self._sliding_back), self._most(self._ramp))

    def step(self) -> float:
        """Count the bytes of one step: a mask and its logarithm, the output with its logsumexp, and padding of widths."""
        p, kept = self.p, self._ring()
        rows, widest = p.B * p.H, max(p.D, p.M)
        filled = rows * (kept + (p.D < p.M)) * widest * p.dtype.bytes if p.D != p.M else 0
        mask = p.H * kept * (self._wide + 1)
        return float(rows * (widest * p.dtype.bytes + self._wide) + max(filled + p.H * kept * self._wide, mask * 2))

    def all_steps(self) -> float:
        """Count the bytes of decoding everything: the last step, the output before it, and the ring."""
        p = self.p
        ring = p.B * p.H * self._ring() * (p.D + p.M) * p.dtype.bytes
        return self.step() + p.B * p.H * max(p.D, p.M) * p.dtype.bytes + ring

    @property
    def _wide(self) -> int:
        return max(4, self.p.dtype.bytes)

    @property
    def _n(self) -> int:
        return self.p.N - self.nearest

    def _reaches(self) -> list[int]:
        return [reach(z, self.ramp, self.p.N, self.nearest) for z in self.spans]

    def _ring(self) -> int:
        """Count the keys that a step takes: those within the longest span, and the token's own."""
        return max(1, self.nearest + max(self._reaches()))

    def _tile_pairs(self, backward: int) -> int:
        """Count the pairs in the tiles of all heads, in one sample."""
        work = (tiles(self._n, w, lengths(w, fused=True)[backward], 1) for w in self._reaches() if w)
        return sum(map(_pairs_of, work))

    def _ramp_pairs(self) -> int:
        found = (ramp_distances(z, self.ramp, self.p.N, self.nearest) for z in self.spans)
        return sum(_pairs_of(tiles(self.p.N - first, w, lengths(w, fused=True)[0], 1)) for first, w in found if w)

    def _output(self) -> float:
        return float(self.p.B * self.p.H * self.p.N * (self.p.M * self.p.dtype.bytes + self._wide))

    def _most(self, turn: Callable[[float, int], float]) -> float:
        """Evaluate `turn` (span, rows -> bytes) for every turn, and return the largest."""
        return max(turn(self.spans[head], rows.stop - rows.start) for rows, head in turns(self.p.B, self.p.H, self.p.N))

    def _sliding(self, z: float, R: int) -> float:
        return self._window(self._n, reach(z, self.ramp, self.p.N, self.nearest), R)

    def _window(self, n: int, w: int, R: int) -> float:
        """Count the bytes of the table, and of what the largest tile holds."""
        if not w:
            return 0.0
        work = tiles(n, w, lengths(w, fused=True)[0], R)
        longest = max(tile.length for tile in work)
        return self._table(w, longest) + max(self._tile(tile, R) + self._bias(tile, w, longest) for tile in work)

    def _tile(self, tile: Tiles, R: int) -> float:
        """Count the bytes of a tile's output and its logsumexp, and of padding where widths differ."""
        widest = max(self.p.D, self.p.M) * self.p.dtype.bytes
        part = R * tile.count * tile.length * (widest + self._wide)
        return part + self._filled(tile, R, 0) + forward_scratch(self.p, tile.length, tile.width)

    def _sliding_back(self, z: float, R: int) -> float:
        """Count the bytes of the table, and of what the largest tile of the backward holds."""
        w = reach(z, self.ramp, self.p.N, self.nearest)
        if not w:
            return 0.0
        work = tiles(self._n, w, lengths(w, fused=True)[1], R)
        longest = max(tile.length for tile in work)
        return self._table(w, longest) + max(self._tile_back(tile, R) + self._bias(tile, w, longest) for tile in work)

    def _tile_back(self, tile: Tiles, R: int) -> float:
        """Count the bytes of three gradients and a copy of dL/do."""
        widest = max(self.p.D, self.p.M) * self.p.dtype.bytes
        part = R * tile.count * 2 * (tile.length + tile.width) * widest
        return part + self._filled(tile, R, 2) + backward_scratch(self.p, tile.length, tile.width)

    def _ramp(self, z: float, R: int) -> float:
        """Count the bytes of the gradient of z: an output, and what it is computed from."""
        first, count = ramp_distances(z, self.ramp, self.p.N, self.nearest)
        if not count:
            return 0.0
        rows = R * (self.p.N - first)
        return rows * (self.p.M * self.p.dtype.bytes + self._wide) + self._window(self.p.N - first, count, R)

    def _table(self, w: int, longest: int) -> int:
        return longest * (w - 1 + longest) * self._wide

    def _bias(self, tile: Tiles, w: int, longest: int) -> int:
        """Count the bytes of the kernel's copy of the table, whose rows must be dense."""
        whole = tile.length == longest and tile.width == w - 1 + longest
        return 0 if whole else tile.length * tile.width * self._wide

    def _filled(self, tile: Tiles, R: int, outputs: int) -> float:
        """Count the bytes of queries and keys, or of values and everything as wide as the output, padded to the wider width."""
        p = self.p
        if p.D == p.M:
            return 0.0
        queries = tile.length if p.D < p.M else outputs * tile.length
        return float(R * tile.count * (tile.width + queries) * max(p.D, p.M) * p.dtype.bytes)


def _pairs(w: int, n: int, workload: Workload) -> int:
    """Count the pairs of one head for the last of n queries or for all, where each sees up to w keys."""
    return w if workload is Workload.DECODE else w * (w + 1) // 2 + (n - w) * w


def _pairs_of(work: list[Tiles]) -> int:
    return sum(tile.count * tile.length * tile.width for tile in work)
