"""FLOPs and bytes of our Reformer attention as computed in reformer_rows.py.

R rounds, N tokens, m slots of a chunk, C chunks of a row, L chunks of queries at once, S slots of a window, D query/key width,
M value width. A row is one head of one sample.
"""

import math
from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, nominal_flops

from .reformer_options import CORRECTED, ReformerOptions
from .reformer_ring import Ring
from .reformer_rows import AT_ONCE, ROWS
from .temperature import scale_of
from .traffic import least_bytes


def cost_of_reformer(problem: Problem, options: ReformerOptions, workload: Workload) -> Cost:
    """Count FLOPs and bytes; the peak is that on a CPU. Raises ValueError on another temperature.

    Exact FLOPs count all pairs in windows; which of them a causal call hides, and which are of other buckets, depends on the
    data.
    """
    scale_of(options.temperature, problem)
    s, trains = _Sizes(problem, options), workload is Workload.FORWARD_BACKWARD
    p, pairs, passes = problem, _pairs(s.ring), (3.0 if trains else 1.0)
    # scores and values; in the backward the scores again and four more
    products = (p.D + p.M) + (3 * p.D + 2 * p.M if trains else 0)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=_hashing(s) + passes * 2.0 * s.rows * options.rounds * pairs * (p.D + p.M),
        executed_flops=_hashing(s) + 2.0 * s.tiles * s.ring.m * s.S * products,
        traffic_bytes=least_bytes(p, workload),
        peak_bytes=_training_peak(s) if trains else _peak(s),
    )


def _hashing(s: "_Sizes") -> float:
    """Count half as many projections as each factor has buckets; hashing has no backward."""
    return float(s.rows * s.p.N * s.p.D * s.options.rounds * sum(s.options.factors(s.p.N)))


def _pairs(ring: Ring) -> int:
    """Count the (query, key) pairs in the windows of one round, whose last chunk is shorter."""
    m, last = ring.m, ring.m - ring.empty
    own = (ring.chunks - 1) * m * m + last * last
    beside = last * last if ring.chunks == 1 else (ring.chunks - 2) * m * m + 2 * m * last
    return own + (ring.near - 1) * beside


@dataclass(frozen=True)
class _Sizes:
    p: Problem
    options: ReformerOptions

    @property
    def ring(self) -> Ring:
        return Ring(self.p.N, self.options.rounds, self.options.bucket_size, self.options.look_forward)

    @property
    def rows(self) -> int:
        return self.p.B * self.p.H

    @property
    def together(self) -> int:
        """Count the rows that are walked together."""
        return min(self.rows, max(1, ROWS // (self.ring.C * self.ring.m)))

    @property
    def S(self) -> int:
        return self.ring.near * self.ring.m

    @property
    def L(self) -> int:
        return min(max(1, AT_ONCE // self.ring.m), self.together * self.ring.C - self.ring.near + 1)

    @property
    def tiles(self) -> int:
        """Count the chunks of queries that are attended, including those without a query."""
        return self.rows * self.ring.C - math.ceil(self.rows / self.together) * (self.ring.near - 1)

    @property
    def wide(self) -> int:
        """Return the bytes of a number as computed."""
        return max(4, self.p.dtype.bytes)

    @property
    def sorted(self) -> float:
        """Count the bytes of the order, and of the buckets where they are kept."""
        return 4.0 * self.rows * self.options.rounds * self.p.N * (2 - self.options.across_buckets)

    @property
    def tokens(self) -> int:
        return self.together * self.p.N

    @property
    def slots(self) -> int:
        return self.together * self.ring.C * self.ring.m


def _peak(s: _Sizes) -> float:
    """Count the bytes of output, a number for each token, the order, and a group of rows."""
    p = s.p
    output = s.rows * p.N * (p.M * p.dtype.bytes + s.wide)
    return output + s.sorted + _group(s, p.D + p.M) + s.slots * (p.M + 1) * s.wide + max(_stretch(s), _joining(s))


def _training_peak(s: _Sizes) -> float:
    """Count the bytes of output, a number for each token, order, gradients, and a group of rows in the backward."""
    p = s.p
    results = s.rows * p.N * ((2 * p.M + p.D) * p.dtype.bytes + s.wide)
    # weighted g by token; three gradients by slot, and the slots' queries
    held = s.tokens * (p.M + 2) * s.wide + s.slots * ((2 * p.D + p.M) * s.wide + 4)
    return results + s.sorted + _group(s, p.D + 3 * p.M) + held + max(_stretch_back(s), _adding(s))


def _group(s: _Sizes, width: int) -> float:
    """Count the bytes of the keys' norms, numbers of the slots, and half precision converted to float32."""
    cast = s.wide > s.p.dtype.bytes
    within = not s.options.across_buckets
    counted = s.options.rounds * (1 + within) if s.options.duplicates == CORRECTED else 0
    return float(s.tokens * (1 + cast * width + counted) * s.wide + s.slots * (4 + s.wide * (1 + within)))


def _stretch(s: _Sizes) -> float:
    """Count the bytes of a tile of scores with queries, keys and what hides them, or with values."""
    windows = (s.L + s.ring.near - 1) * s.ring.m
    return s.wide * (_tile(s) + max(windows * 2 * s.p.D + _hiding(s) * _tile(s), windows * s.p.M))


def _stretch_back(s: _Sizes) -> float:
    """Count the bytes of two tiles, queries and keys, and either what hides them, or g and values."""
    m, windows, M = s.ring.m, (s.L + s.ring.near - 1) * s.ring.m, s.p.M
    return s.wide * (2 * _tile(s) + windows * 2 * s.p.D + max(_hiding(s) * _tile(s), s.L * m * M + windows * M))


def _tile(s: _Sizes) -> int:
    return s.L * s.ring.m * s.S


def _hiding(s: _Sizes) -> int:
    """Count the tiles that computing a bias needs: differences, counts."""
    within = not s.options.across_buckets
    return 2 + within if s.options.duplicates == CORRECTED else int(within)


def _joining(s: _Sizes) -> float:
    """Count the bytes of the tile, the output of the rows by token, and places and sums of all rounds."""
    return float(s.wide * _tile(s) + s.tokens * (s.p.M * s.wide + s.options.rounds * (12 + s.wide)))


def _adding(s: _Sizes) -> float:
    """Count the bytes of the tiles, two gradients of the rows by token, a product of two, and places."""
    return float(2 * s.wide * _tile(s) + s.tokens * (3 * s.p.D * s.wide + s.options.rounds * 4))
