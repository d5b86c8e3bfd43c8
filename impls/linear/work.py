"""Parts of the costs of all linear attentions: FLOPs of the definition, and the cost of decoding.

B batch, H heads, K heads of k and v, N tokens, D query/key width, C width of φ, M value width, W value width with its column of
ones, padded.
"""

from dataclasses import dataclass

import torch

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .eager.segments import width
from .family import LinearFamily
from .maps.exponential import Exponential


@dataclass(frozen=True)
class Sizes:
    """The numbers that costs are computed from: widths and counts."""

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
    def queries(self) -> int:
        """Count the queries of all samples and heads."""
        return self.p.B * self.p.H * self.p.N

    @property
    def keys(self) -> int:
        """Count the keys of all samples and heads."""
        return self.p.B * self.p.kv_heads * self.p.N


def linear_cost(s: Sizes, workload: Workload, executed: float) -> Cost:
    """Compute the cost of a whole sequence from its executed FLOPs."""
    return Cost(
        nominal_flops=nominal_flops(s.p, workload),
        exact_flops=exact_flops(s, workload),
        executed_flops=executed,
        traffic_bytes=io_bytes(s.p, workload),
    )


def exact_flops(s: Sizes, workload: Workload) -> float:
    """Count what the definition needs: φ, φ(k) vᵀ and φ(q) S; two for each in the backward, but none for a projection."""
    forward, backward = s.method.phi.flops(s.p.D)
    tokens = s.queries + s.keys
    if workload is Workload.DECODE:
        tokens = s.p.B * (s.p.H + s.p.kv_heads)
    trains = workload is Workload.FORWARD_BACKWARD
    return tokens * ((3.0 if trains else 1.0) * 2.0 * s.C * s.p.M + forward + trains * backward)


def decoding_cost(s: Sizes, workload: Workload) -> Cost:
    """Compute the cost of decoding: a step writes and reads the sums once, [B K, C, M + 1]."""
    p, phi, steps = s.p, s.method.phi, (1 if workload is Workload.DECODE else s.p.N)
    heads, exact = p.B * p.kv_heads, exact_flops(s, workload)
    log_scales = phi.scales(s.C) if isinstance(phi, Exponential) else 0
    state = heads * ((s.C + 1) * (p.M + 1) + log_scales) * phi.sums(getattr(torch, p.dtype)).itemsize
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=exact + steps * 2.0 * s.C * (heads + p.B * p.H),
        traffic_bytes=io_bytes(p, workload) + steps * 2.0 * state,
    )
