"""What one call of flash-linear-attention 0.6 computes and allocates, according to its source.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width. Counts are for each of the B H N rows.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

L = 64
_TILE = 64


def cost_by_chunks(p: Problem, workload: Workload) -> Cost:
    """Compute the chunked kernels' cost: whole L × L tiles within a chunk, and states between chunks.

    The backward computes the states again.
    """
    trains = workload is Workload.FORWARD_BACKWARD
    products, within = 4.0 * p.D * p.M, 2.0 * L * (p.D + p.M)
    if trains:
        products, within = products + 10.0 * p.D * p.M, within + 2.0 * L * (3 * p.D + 2 * p.M)
    return _cost(p, workload, products + within, _states(p, trains))


def cost_by_tokens(p: Problem, workload: Workload) -> Cost:
    """Compute the recurrent kernel's cost: one state in registers, added to and read; in the backward two, read three times."""
    trains = workload is Workload.FORWARD_BACKWARD
    return _cost(p, workload, (14.0 if trains else 4.0) * p.D * p.M, _partial_sums(p, trains))


def _cost(p: Problem, workload: Workload, products: float, scratch_bytes: float) -> Cost:
    trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=rows * (12.0 if trains else 4.0) * p.D * p.M,
        executed_flops=rows * products,
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=rows * (_around(p, trains) * p.dtype.bytes + scratch_bytes),
    )


def _around(p: Problem, trains: bool) -> float:
    """Count the elements of mapped q and k, the running sum of k and the output twice; in the backward also gradients."""
    kept = 3 * p.D + 2 * p.M
    return kept + (5 * p.D + 2 * p.M if trains else 2 * p.D)


def _states(p: Problem, trains: bool) -> float:
    """Count the bytes of a state for each chunk, in the inputs' dtype; in the backward two, in float32."""
    return p.D * p.M / L * (8 if trains else p.dtype.bytes)


def _partial_sums(p: Problem, trains: bool) -> float:
    """Count the bytes in float32 of an output for each tile of D; in the backward also gradients for each tile of M."""
    outputs, gradients = p.M * -(-p.D // _TILE), 2 * p.D * -(-p.M // _TILE)
    return 4.0 * (outputs + gradients if trains else outputs)
