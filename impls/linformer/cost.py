"""FLOPs and bytes of attention over projected keys.

B batch, H heads, K heads of k and v, N tokens, S projected keys, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops


def cost_of(p: Problem, workload: Workload, S: int, parameters: int, *, by_matrix: bool = False) -> Cost:
    """Compute the cost of one call; attention is fused, and its backward has five products for the forward's two.

    `parameters` counts the elements of all parameters. `by_matrix`: keys and values are each multiplied with S × N weights;
    otherwise there is no matrix product.
    """
    trains = workload is Workload.FORWARD_BACKWARD
    passes = 3.0 if trains else 1.0
    projecting = 2.0 * p.B * p.kv_heads * p.N * S * (p.D + p.M) if by_matrix else 0.0
    pairs = 2.0 * p.B * p.H * p.N * S
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=passes * (projecting + pairs * (p.D + p.M)),
        executed_flops=passes * projecting + (3.5 if trains else 1.0) * pairs * 2 * max(p.D, p.M),
        traffic_bytes=io_bytes(p, workload) + passes * parameters * p.dtype.bytes,
    )


def cost_of_package(p: Problem, workload: Workload, S: int, parameters: int) -> Cost:
    """Compute the cost of a package: two products with a projection and two of attention, and twice as many in the backward."""
    passes = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
    work = passes * 4.0 * p.B * p.H * p.N * S * (p.D + p.M)
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=work,
        executed_flops=work,
        traffic_bytes=io_bytes(p, workload) + passes * parameters * p.dtype.bytes,
    )
