"""What one call of Based's operators in flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, N tokens, D query/key width, M value width. Counts are for each of the B H heads, or of the B H N rows.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

_TILE = {Workload.FORWARD: 128, Workload.FORWARD_BACKWARD: 64}
"""Queries of a tile of the quadratic form; the backward's tiles are smaller."""
_CHUNK = 16
_COLUMNS = 32  # values of one program


def cost_by_pairs(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of `parallel_based`: all pairs of a query's tile and those before.

    The backward has four products of width D and three of M.
    """
    pairs = _pairs(p.N, _TILE[Workload.FORWARD]) * (p.D + p.M)
    if workload is Workload.FORWARD_BACKWARD:
        pairs += _pairs(p.N, _TILE[workload]) * (4 * p.D + 3 * p.M)
    return _cost(p, workload, 2.0 * p.B * p.H * pairs, copies=1)


def cost_by_chunks(p: Problem, workload: Workload) -> Cost:
    """Compute the cost of `fused_chunk_based`: a state of D + D² rows, read and written.

    The backward has two states, with five products.
    """
    trains, state = workload is Workload.FORWARD_BACKWARD, (p.D + p.D * p.D) * p.M
    products = (2 + 5 * trains) * state + _CHUNK * (p.D + p.M + trains * (4 * p.D + 3 * p.M))
    return _cost(p, workload, 2.0 * p.B * p.H * p.N * products, copies=-(-p.M // _COLUMNS))


def _pairs(N: int, tile: int) -> float:
    tiles = -(-N // tile)
    return tile * tile * tiles * (tiles + 1) / 2


def _cost(p: Problem, workload: Workload, executed: float, copies: int) -> Cost:
    trains, rows, C = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N, 1 + p.D + p.D * (p.D + 1) // 2
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=rows * (12.0 if trains else 4.0) * C * p.M,
        executed_flops=executed,
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=float(rows * (_around(p, trains) + copies * trains * 2 * p.D * p.dtype.bytes)),
    )


def _around(p: Problem, trains: bool) -> float:
    """Count the bytes of the output in float32, twice while it is summed; in training what autograd keeps, and gradients."""
    e = p.dtype.bytes
    return (4 * p.M + 3 * p.D + 2 * p.M) * e if trains else 2 * 4 * (p.M + 1)
