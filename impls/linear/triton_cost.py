"""What one call of the Triton kernels computes and allocates.

B batch, H heads, N tokens, D query/key width, M value width, L tokens of a chunk, S segments of T tokens.
"""

import torch

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .triton_tuning import Blocks, Cut, Launch, arithmetic, blocks, cut, padded, splits


def cost_by_segments(p: Problem, workload: Workload) -> Cost:
    """Count FLOPs with the padding of widths and of the last chunk, and bytes as allocated; not for decoding."""
    trains, heads = workload is Workload.FORWARD_BACKWARD, p.B * p.H
    chosen = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    parts = cut(heads * splits(p.M, chosen.attend), p.N)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=(3.0 if trains else 1.0) * 4.0 * heads * p.N * p.D * p.M,
        executed_flops=heads * _executed(p, chosen, parts, trains),
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=_peak(p, parts, trains),
    )


def _executed(p: Problem, of: Blocks, parts: Cut, trains: bool) -> float:
    """Count the FLOPs of one head; the backward computes its states, dq, dk and dv in a walk each."""
    forward = _summed(p, of.sums, parts) + _walked(p.N, of.attend, p.D, p.M)
    if not trains:
        return forward
    backward = _summed(p, of.sums, parts) + _walked(p.N, of.values, p.D, p.M)
    return forward + backward + _walked(p.N, of.queries, p.M, p.D) + _walked(p.N, of.keys, p.M, p.D)


def _walked(N: int, how: Launch, inner: int, width: int) -> float:
    """Count a walk: scores, their product with the rows, the state read and added to: 2 N (L inner + (L + 2 inner) width).

    Programs that share the columns of a result each compute the scores.
    """
    tokens, inner, columns = -(-N // how.chunk) * how.chunk, padded(inner), min(how.columns, padded(width))
    return 2.0 * tokens * splits(width, how) * (how.chunk * inner + (how.chunk + 2 * inner) * columns)


def _summed(p: Problem, how: Launch, parts: Cut) -> float:
    """Count what all segments but one add to the state: 2 (S - 1) T D M."""
    columns = splits(p.M, how) * min(how.columns, padded(p.M))
    return 2.0 * (parts.segments - 1) * parts.tokens * padded(p.D) * columns


def _peak(p: Problem, parts: Cut, trains: bool) -> float:
    """Count the bytes of output, denominators and states; in the backward also g·o, later states, and gradients."""
    heads, stored = p.B * p.H, p.dtype.bytes
    keys, numbers = heads * p.N * p.D * stored, 4.0 * heads * p.N
    states = 4.0 * heads * (parts.segments - 1) * p.D * (p.M + 1)
    # hiding keys copies k, and later its gradient, when only the gradients are left beside it
    hidden = keys if p.padding else 0.0
    forward = heads * p.N * p.M * stored + numbers + states + hidden
    if not trains:
        return forward
    return forward + 2 * keys + heads * p.N * p.M * stored + max(numbers + states, hidden)
