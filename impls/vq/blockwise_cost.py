"""The cost of Transformer-VQ by blocks, with the letters of work.py."""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .options import VQOptions
from .work import Work, decoded


def cost_by_blocks(problem: Problem, options: VQOptions, workload: Workload) -> Cost:
    """Count FLOPs and bytes."""
    work = Work(problem, options, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=work.exact,
        executed_flops=work.executed,
        traffic_bytes=_traffic_bytes(problem, options, workload),
    )


def _traffic_bytes(p: Problem, o: VQOptions, workload: Workload) -> float:
    """Count the bytes that any attention moves, and the codebook.

    Steps read the window, the table if any, and the codebook, once for the batch, and write their token and its code.
    """
    codebook = p.H * o.codes * p.D * 4.0
    if not workload.decodes:
        return io_bytes(p, workload) + codebook
    steps, windows, tables, _ = decoded(p.N, o.block, whole=workload is Workload.DECODE_TOTAL)
    token, table = (p.D + p.M) * p.dtype.bytes, o.codes * (p.M + 1) * max(4, p.dtype.bytes)
    moved = windows * token + steps * (token + 8) + tables * table
    return io_bytes(p, workload) + p.B * p.H * moved + steps * codebook
