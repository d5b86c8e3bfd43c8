"""FLOPs and bytes of gated linear attention by chunks, as computed in recurrence/linear.py.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width; G = 1 or D decays of a token.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..recurrence.scratch import Scratch


@dataclass(frozen=True)
class Extra:
    """What a method reads and computes beyond q, k and v, for each token and head."""

    gates: int = 0
    """Numbers of further inputs."""
    G: int = 1
    by_token: bool = True
    """Whether decays differ from token to token."""
    decay_gradients: float = 0
    """Bytes of the gradients of log decays."""
    made: float = 0
    """Bytes of tensors computed from the inputs before the recurrence."""
    making: float = 0
    """Bytes of temporary tensors while those are computed."""
    kept: float = 0
    """Further bytes that autograd keeps of that computation."""
    unmade: float = 0
    """Bytes that the backward of that computation adds to the recurrence's gradients."""


def cost_by_chunks(p: Problem, chunk: int, extra: Extra, workload: Workload) -> Cost:
    """Count FLOPs and bytes. The peak is that of a CPU; a GPU computes all rows and larger parts at once."""
    peaks = {Workload.FORWARD_BACKWARD: _training_peak, Workload.DECODE: _step_peak, Workload.DECODE_TOTAL: _sequence_peak}
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, workload),
        executed_flops=exact_flops(p, workload) if workload.decodes else _executed(p, chunk, workload),
        traffic_bytes=traffic_bytes(p, extra.gates, workload),
        peak_bytes=peaks.get(workload, _peak)(p, _scratch(p, chunk, extra), extra),
    )


def exact_flops(p: Problem, workload: Workload) -> float:
    """Count each token's k vᵀ and Sᵀ q; the backward has two products for each."""
    tokens = 1 if workload is Workload.DECODE else p.N
    return p.B * p.H * tokens * p.D * p.M * (12.0 if workload is Workload.FORWARD_BACKWARD else 4.0)


def traffic_bytes(p: Problem, gates: int, workload: Workload) -> float:
    """Count the bytes of q, k, v, o and gates, in training also of gradients, and in decoding of the state for each step."""
    tokens = 1 if workload is Workload.DECODE else p.N
    moved = io_bytes(p, workload) + p.B * p.H * tokens * gates * p.dtype.bytes * (3 if _trains(workload) else 1)
    return moved + (2 * tokens * _state_bytes(p) if workload.decodes else 0)


def _executed(p: Problem, chunk: int, workload: Workload) -> float:
    """Count L (D + M) multiplications within a chunk and 2 D M through the state per token; the backward repeats them.

    The backward adds products of its own.
    """
    N, tail = p.N, p.N % chunk
    pairs = (N - tail) * chunk + tail * tail
    work = pairs * (p.D + p.M) + N * 2.0 * p.D * p.M
    if _trains(workload):
        work += pairs * (3 * p.D + 2 * p.M) + N * 5.0 * p.D * p.M
    return 2.0 * p.B * p.H * work


def _trains(workload: Workload) -> bool:
    return workload is Workload.FORWARD_BACKWARD


def _state_bytes(p: Problem) -> float:
    return float(p.B * p.H * p.D * p.M * max(4, p.dtype.bytes))


def _scratch(p: Problem, chunk: int, extra: Extra) -> Scratch:
    return Scratch(p.B * p.H, p.N, p.D, p.M, chunk, p.dtype.bytes, extra.G, extra.by_token)


def _rows(p: Problem) -> int:
    return p.B * p.H * p.N


def _peak(p: Problem, scratch: Scratch, extra: Extra) -> float:
    """Count the bytes of the output, what is computed from the inputs, the states before and after, and a part's scratch."""
    attending = _rows(p) * p.M * p.dtype.bytes + 2 * scratch.states + scratch.forward
    return _rows(p) * extra.made + max(_rows(p) * extra.making, attending)


def _training_peak(p: Problem, scratch: Scratch, extra: Extra) -> float:
    """Count the bytes of output, gradients, what is computed and kept, and a part's scratch in the backward.

    A part's scratch includes the states at the start of each part.
    """
    results = _rows(p) * (p.dtype.bytes * (2 * p.D + 2 * p.M) + extra.decay_gradients + extra.kept)
    return results + max(_rows(p) * extra.made + scratch.kept + scratch.backward, _rows(p) * extra.unmade)


def _step_peak(p: Problem, scratch: Scratch, extra: Extra) -> float:
    """Count the bytes of one token's step: decays, or k and v where they are rounded, or the scaled q and the output."""
    rounded, gates = p.dtype.bytes < scratch.sum, extra.G if extra.by_token else 0
    numbers = max(gates * (1 + rounded), rounded * (p.D + p.M), p.D * (1 + rounded), p.D + p.M)
    return p.B * p.H * (extra.made + scratch.sum * numbers)


def _sequence_peak(p: Problem, scratch: Scratch, extra: Extra) -> float:
    """Count the bytes of decoding everything: two first states for an empty prefill, or one state and a step."""
    return scratch.states + max(scratch.states, _step_peak(p, scratch, extra) + p.B * p.H * p.M * p.dtype.bytes)
