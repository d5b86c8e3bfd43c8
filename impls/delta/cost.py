"""FLOPs and bytes of the chunked forms in delta_rule.py, dplr.py and segments.py.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..recurrence.parts import ROWS_TOGETHER, TOKENS


@dataclass(frozen=True)
class Room:
    """Numbers that a part holds at its peak beside output and gradients, fitted to measurements of torch's profiler.

    For ten shapes with D, M and L of 16 to 128 the fit is within 8 %.
    """

    key: float
    """Numbers per token, in units of D."""
    value: float
    """Numbers per token, in units of M."""
    pair: float
    """Numbers per token, in units of L."""
    state: float
    """Numbers per chunk, in units of D × M."""


@dataclass(frozen=True)
class Work:
    """Counts of products and numbers of one form of the recurrence."""

    reads: int
    """Products of D × M for each token: reads of the state and writes to it, which are all that the definition needs."""
    pairs: int
    """Products of L × L × D for each chunk."""
    sums: int
    """Products of L × L × M for each chunk."""
    wide: int
    """Inputs of width D beside q and k."""
    narrow: int
    """Inputs of one number for each token."""
    forward: Room
    backward: Room
    step: tuple[int, int] = (0, 0)
    """Numbers held while the state decays in a step, in units of D and of M."""

    def gates(self, p: Problem) -> int:
        """Count the numbers of a token in inputs other than q, k and v."""
        return self.wide * p.D + self.narrow


_FORWARD, _BACKWARD = Room(2, 5, 2, 1), Room(4, 4.5, 5, 4)
DELTA = Work(reads=3, pairs=2, sums=1, wide=0, narrow=1, forward=_FORWARD, backward=_BACKWARD)
_FORWARD, _BACKWARD = Room(3.5, 5, 2.5, 0.5), Room(5.5, 5.5, 9, 3.5)
GATED_DELTA = Work(reads=3, pairs=2, sums=1, wide=0, narrow=2, forward=_FORWARD, backward=_BACKWARD)
_FORWARD, _BACKWARD = Room(5.5, 4.5, 1.5, 0), Room(10, 5, 4, 4)
KDA = Work(reads=3, pairs=2, sums=1, wide=1, narrow=1, forward=_FORWARD, backward=_BACKWARD, step=(1, 0))
_FORWARD, _BACKWARD = Room(4.5, 3, 4.5, 2), Room(18.5, 2.5, 8, 2)
DPLR = Work(reads=4, pairs=4, sums=3, wide=3, narrow=0, forward=_FORWARD, backward=_BACKWARD, step=(1, 1))


def cost_by_chunks(p: Problem, work: Work, chunk: int, workload: Workload) -> Cost:
    """Count FLOPs and bytes. The peak is that of a CPU; a GPU computes all rows and longer parts at once."""
    if workload.decodes:
        return _cost_of_steps(p, work, workload)
    trains = workload is Workload.FORWARD_BACKWARD
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, work, workload),
        executed_flops=p.B * p.H * _executed(p, work, chunk, trains),
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload),
        peak_bytes=_training_peak(p, work, chunk) if trains else _peak(p, work, chunk),
    )


def exact_flops(p: Problem, work: Work, workload: Workload) -> float:
    """Count the products of D × M with vectors that the recurrence needs; the backward has two for each."""
    tokens = p.B * p.H * (1 if workload is Workload.DECODE else p.N)
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2 * work.reads * tokens * p.D * p.M


def gate_bytes(p: Problem, work: Work, workload: Workload) -> float:
    """Count the bytes of inputs beyond q, k and v: read once, in the backward again, and their gradients written."""
    tokens = p.B * p.H * (1 if workload is Workload.DECODE else p.N)
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * tokens * work.gates(p) * p.dtype.bytes


def _executed(p: Problem, work: Work, chunk: int, trains: bool) -> float:
    """Count the FLOPs of one row: the backward repeats the forward and has two products for each (1.5 in the system).

    The forward of the triangular system counts L (D + M) for each token.
    """
    tail = p.N % chunk
    squares = (p.N - tail) * chunk + tail * tail
    products = squares * 2.0 * (work.pairs * p.D + work.sums * p.M) + p.N * 2.0 * work.reads * p.D * p.M
    system = squares * float(p.D + p.M)
    return (4 * products + 5 * system) if trains else products + system


def _element(p: Problem) -> int:
    """Count the bytes of a number within chunks."""
    return max(4, p.dtype.bytes)


def _tokens_at_once(p: Problem, chunk: int) -> tuple[int, int]:
    """Count the rows of a group, and the tokens of its first part (recurrence/parts.py)."""
    rows = min(ROWS_TOGETHER, p.B * p.H)
    step = max(1, TOKENS * 128 // max(128, p.D, p.M) // (rows * chunk)) * chunk
    return rows, min(step, p.N - p.N % chunk or p.N)


def _room(p: Problem, room: Room, chunk: int, inputs: int) -> float:
    rows, tokens = _tokens_at_once(p, chunk)
    L = min(chunk, tokens)
    numbers = tokens * (room.key * p.D + room.value * p.M + room.pair * L) + tokens / L * room.state * p.D * p.M
    # shorter parts are copied to be dense and half precision is converted; otherwise inputs are used as they are
    copied = tokens * inputs if tokens < p.N or _element(p) != p.dtype.bytes else 0
    return _element(p) * rows * (numbers + copied)


def _peak(p: Problem, work: Work, chunk: int) -> float:
    """Count the bytes of the output, the last states, and the peak of a part."""
    rows, inputs = p.B * p.H, 2 * p.D + p.M + work.gates(p)
    return rows * (p.N * p.M * p.dtype.bytes + p.D * p.M * _element(p)) + _room(p, work.forward, chunk, inputs)


def _training_peak(p: Problem, work: Work, chunk: int) -> float:
    """Count the bytes of output, gradients, states between parts, and the peak of a part."""
    rows, (_, tokens), inputs = p.B * p.H, _tokens_at_once(p, chunk), 2 * p.D + p.M + work.gates(p)
    stored = p.N * (inputs + p.M) * p.dtype.bytes
    kept = (-(-(p.N - p.N % chunk) // tokens) + (p.N % chunk > 0)) * p.D * p.M * _element(p)
    return rows * (stored + kept) + _room(p, work.backward, chunk, inputs + p.M)


def _cost_of_steps(p: Problem, work: Work, workload: Workload) -> Cost:
    """Compute the cost of decoding, where a step reads and writes the state once. For DECODE the state is not in the peak."""
    steps, heads = (1 if workload is Workload.DECODE else p.N), p.B * p.H
    state, exact = heads * p.D * p.M * _element(p), exact_flops(p, work, workload)
    # what is read and the correction, or the decay; half precision is converted first
    numbers = max(2 * p.M, work.step[0] * p.D + work.step[1] * p.M)
    converted = 2 * p.D + p.M + work.gates(p) if _element(p) != p.dtype.bytes else 0
    of_a_step = heads * _element(p) * (numbers + converted)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=exact,
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload) + steps * 2.0 * state,
        peak_bytes=of_a_step + (0 if workload is Workload.DECODE else state),
    )
