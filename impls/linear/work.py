"""Parts of the costs of all linear attentions: FLOPs of the definition, and the cost of decoding.

B batch, H heads, K heads of k and v, N tokens, D query/key width, C width of φ, M value width.
"""

from dataclasses import dataclass

import torch

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .exponential import Exponential
from .family import LinearFamily
from .feature_map import Room
from .segments import HEADS, accumulator, whole_segments, width


@dataclass(frozen=True)
class Sizes:
    """The numbers that costs are computed from: widths, counts, and bytes of an element as computed, summed and stored."""

    p: Problem
    method: LinearFamily

    @property
    def C(self) -> int:
        """Return the width of φ."""
        return self.method.phi.width(self.p.D)

    @property
    def wide(self) -> int:
        """Return W, the value width with its column of ones, padded."""
        return width(self.p.M)

    @property
    def scales(self) -> int:
        """Count the log scales of a head."""
        phi = self.method.phi
        return phi.scales(self.C) if isinstance(phi, Exponential) else 0

    @property
    def room(self) -> Room:
        """Return the elements that the map's computations allocate."""
        return self.method.phi.room(self.p.D)

    @property
    def back(self) -> float:
        """Count the elements per token in a pull-back, with those that are rounded at the end."""
        D = self.p.D * self.cast
        return max(self.room.back, D) + D

    @property
    def element(self) -> int:
        """Return the bytes of a number as computed."""
        return self.method.phi.arithmetic(self.dtype).itemsize

    @property
    def sum(self) -> int:
        """Return the bytes of a number in a state."""
        return accumulator(self.dtype).itemsize

    @property
    def apart(self) -> int:
        """Return the bytes of a number in a state to which tokens are added one by one."""
        return self.method.phi.sums(self.dtype).itemsize

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype as stored."""
        dtype: torch.dtype = getattr(torch, self.p.dtype)
        return dtype

    @property
    def cast(self) -> bool:
        """Say whether inputs are converted before the computation."""
        return self.method.phi.arithmetic(self.dtype) is not self.dtype

    @property
    def heads(self) -> int:
        """Count samples times heads of k and v."""
        return self.p.B * self.p.kv_heads

    @property
    def queries(self) -> int:
        """Count the queries of all samples and heads."""
        return self.p.B * self.p.H * self.p.N

    @property
    def keys(self) -> int:
        """Count the keys of all samples and heads."""
        return self.heads * self.p.N

    @property
    def group(self) -> int:
        """Count the samples and heads that are walked together."""
        return min(HEADS, self.heads)

    def shape(self, heads: int, tokens: int) -> torch.Tensor:
        """Make a tensor without data for queries or keys of `heads` samples and heads."""
        return torch.empty(heads, tokens, self.p.D, device="meta")

    def rows(self, heads: int, tokens: int, times: int = 1) -> int:
        """Count the rows of a segment of one chunk, with `times` times φ in it."""
        return heads * whole_segments(self.shape(heads, tokens), times * self.C)[0].stop


def exact_flops(s: Sizes, workload: Workload) -> float:
    """Count what the definition needs: φ, φ(k) vᵀ and φ(q) S; two for each in the backward, but none for a projection."""
    forward, backward = s.method.phi.flops(s.p.D)
    tokens = s.queries + s.keys
    if workload is Workload.DECODE:
        tokens = s.p.B * (s.p.H + s.p.kv_heads)
    trains = workload is Workload.FORWARD_BACKWARD
    return tokens * ((3.0 if trains else 1.0) * 2.0 * s.C * s.p.M + forward + trains * backward)


def decoding_cost(s: Sizes, workload: Workload) -> Cost:
    """Compute the cost of decoding: a step writes and reads the sums once, [B K, C, M + 1].

    The peak of a step excludes the state, which exists before; that of a whole sequence includes it.
    """
    p, steps = s.p, (1 if workload is Workload.DECODE else s.p.N)
    wide, exact = p.M + 1, exact_flops(s, workload)
    state = s.heads * (s.C * wide + wide + s.scales) * s.apart
    queries = p.B * p.H
    features = s.heads * s.C
    converted = p.D * (s.apart != p.dtype.bytes)
    at_features, at_read = queries * (s.room.query + converted), queries * (wide + max(s.C, wide))
    step = s.apart * max(s.heads * (s.room.key + converted), features + max(at_features, at_read))
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=exact + steps * 2.0 * s.C * (s.heads + queries),
        traffic_bytes=io_bytes(p, workload) + steps * 2.0 * state,
        peak_bytes=step + (0 if workload is Workload.DECODE else state),
    )
