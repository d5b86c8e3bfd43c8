"""FLOPs and bytes of the chunked forms in delta_rule.py, dplr.py and recurrence/walk.py.

B batch, H heads, K heads of k and v, N tokens, L tokens of a chunk, D query/key width, M value width.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


@dataclass(frozen=True)
class Work:
    """Counts of products and inputs of one form of the recurrence."""

    reads: int
    """Products of D × M for each token: reads of the state and writes to it, which are all that the definition needs.

    One of them is the read of each head of q, the others are of each head of k and v.
    """
    pairs: int
    """Products of L × L × D for each chunk."""
    sums: int
    """Products of L × L × M for each chunk."""
    wide: int
    """Inputs of width D beside q and k."""
    narrow: int
    """Inputs of one number for each token."""
    values: int = 0
    """Inputs of width M beside v."""
    writes: int = 1
    """Writes of each token, which are rows of the triangular system."""
    asked: int = 1
    """How many of `pairs`, and of `sums`, are of each head of q; the others are of each head of k and v."""

    def products(self, p: Problem) -> int:
        """Count the products of D × M for a token of all heads."""
        return p.H + (self.reads - 1) * p.kv_heads

    def gates(self, p: Problem) -> int:
        """Count the numbers of a token in inputs other than q, k and v."""
        return self.wide * p.D + self.values * p.M + self.narrow


DELTA = Work(reads=3, pairs=2, sums=1, wide=0, narrow=1)
GATED_DELTA = Work(reads=3, pairs=2, sums=1, wide=0, narrow=2)
KDA = Work(reads=3, pairs=2, sums=1, wide=1, narrow=1)
DPLR = Work(reads=4, pairs=4, sums=3, wide=3, narrow=0, asked=2)
GATED_DELTA_2 = Work(reads=3, pairs=2, sums=1, wide=2, narrow=0, values=1)


def product_of(steps: int, decays: int) -> Work:
    """Count the products of a delta rule that writes `steps` times a token, with so many decays of a token."""
    extra = steps - 1
    return Work(
        reads=2 * steps + 1,
        pairs=steps * (steps + 1),
        sums=steps,
        wide=extra,
        narrow=steps + decays,
        values=extra,
        writes=steps,
        asked=steps,
    )


def cost_by_chunks(p: Problem, work: Work, chunk: int, workload: Workload) -> Cost:
    """Count FLOPs and bytes; a step of decoding reads and writes the state once."""
    exact, moved = exact_flops(p, work, workload), io_bytes(p, workload) + gate_bytes(p, work, workload)
    if workload.decodes:
        steps, state = (1 if workload is Workload.DECODE else p.N), p.B * p.kv_heads * p.D * p.M * max(4, p.dtype.bytes)
        executed, moved = exact, moved + steps * 2.0 * state
    else:
        executed = p.B * _executed(p, work, chunk, workload is Workload.FORWARD_BACKWARD)
    return Cost(nominal_flops=nominal_flops(p, workload), exact_flops=exact, executed_flops=executed, traffic_bytes=moved)


def cost_of_package(p: Problem, work: Work, workload: Workload, L: int, *, tokens: int, inverse: float, training: int) -> Cost:
    """Compute the cost of a function of flash-linear-attention 0.6, which computes whole L × L tiles, from its source.

    A token takes pairs, the inverse of the triangular system (`inverse` L² FLOPs), W and U through it, sums over pairs, and the
    products of the state. `tokens` are those of a head, training takes `training` times as many products as a forward.
    """
    products = 2.0 * L * (work.pairs * p.D + work.sums * p.M + p.D + p.M) + inverse * L * L + 2.0 * work.reads * p.D * p.M
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact_flops(p, work, workload),
        executed_flops=p.B * p.H * tokens * products * (training if workload is Workload.FORWARD_BACKWARD else 1),
        traffic_bytes=io_bytes(p, workload) + gate_bytes(p, work, workload),
    )


def exact_flops(p: Problem, work: Work, workload: Workload) -> float:
    """Count the products of D × M with vectors that the recurrence needs; the backward has two for each."""
    tokens = p.B * (1 if workload is Workload.DECODE else p.N)
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2 * work.products(p) * tokens * p.D * p.M


def gate_bytes(p: Problem, work: Work, workload: Workload) -> float:
    """Count the bytes of inputs beyond q, k and v: read once, in the backward again, and their gradients written."""
    tokens = p.B * p.kv_heads * (1 if workload is Workload.DECODE else p.N)
    return (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0) * tokens * work.gates(p) * p.dtype.bytes


def _executed(p: Problem, work: Work, chunk: int, trains: bool) -> float:
    """Count the FLOPs of one sample: the backward repeats the forward and has two products for each.

    The inverse of a triangular system of L rows is 2/3 L³, and is made once more by the backward.
    """
    tail = p.N % chunk
    squares, cubes = (p.N - tail) * chunk + tail * tail, (p.N - tail) * chunk * chunk + tail * tail * tail
    pairs, sums = (work.asked * p.H + (each - work.asked) * p.kv_heads for each in (work.pairs, work.sums))
    products = squares * 2.0 * (pairs * p.D + sums * p.M) + p.N * 2.0 * work.products(p) * p.D * p.M
    products += squares * p.kv_heads * work.writes**2 * 2.0 * (p.D + p.M)
    inverse = cubes * p.kv_heads * work.writes**3 * 2 / 3
    return 4 * products + 2 * inverse if trains else products + inverse
