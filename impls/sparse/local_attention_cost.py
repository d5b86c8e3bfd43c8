"""FLOPs and bytes of local-attention 1.11, tensor by tensor.

B batch, H heads, N tokens, W tokens of a bucket, S keys that a bucket computes, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Self

from attnbench.api import Problem, Workload


@dataclass(frozen=True)
class Buckets:
    """What a call computes: `tokens` are N padded to whole buckets; each has `keys`, hidden or not."""

    tokens: int
    keys: int

    @classmethod
    def of(cls, p: Problem, window: int) -> Self:
        """Count the own bucket and the one before, if two-sided also the one after."""
        return cls(-(-p.N // window) * window, (2 if p.causal else 3) * window)


def executed_flops(p: Problem, window: int, workload: Workload) -> float:
    """Count two products over all pairs of the buckets; four more in the backward, which keeps the scores."""
    x = Buckets.of(p, window)
    passes = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
    return passes * 2.0 * p.B * p.H * x.tokens * x.keys * (p.D + p.M)


def peak_bytes(p: Problem, window: int, workload: Workload) -> float:
    """Count the bytes of scores, weights and gathered values; in the backward weights and two gradients of them, if more."""
    x = Buckets.of(p, window)
    token = p.B * p.H * p.dtype.bytes
    scores, output, mask = token * x.tokens * x.keys, token * x.tokens * p.M, x.tokens * x.keys
    keys, values = (token * x.tokens * x.keys // window * width for width in (p.D, p.M))
    # q and q scaled; k and v, and copies of them with empty buckets around
    inputs = token * (2 * x.tokens * p.D + (2 * x.tokens + x.keys - window) * (p.D + p.M))
    forward = inputs + 2 * scores + values + output
    if workload is not Workload.FORWARD_BACKWARD:
        return float(forward)
    backward = token * x.tokens * p.D + keys + values + 3 * scores + output
    return float(max(forward + keys, backward) + mask)
