"""The cost of Transformer-VQ by blocks, with the letters of work.py."""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from . import decoding_cost
from .footprint import Footprint
from .options import VQOptions
from .work import Work


def cost_by_blocks(problem: Problem, options: VQOptions, workload: Workload) -> Cost:
    """Count FLOPs and bytes; the peak is that of a CPU.

    A GPU takes more rows together and keeps the scores of a few blocks.
    """
    work = Work(problem, options, workload)
    return Cost(
        nominal_flops=nominal_flops(problem, workload),
        exact_flops=work.exact,
        executed_flops=work.executed,
        traffic_bytes=traffic_bytes(problem, options, workload),
        peak_bytes=peak_bytes(problem, options, workload),
    )


def cost_of_gated(problem: Problem, options: VQOptions, workload: Workload) -> Cost:
    """Compute the cost with a gate: it is read, and silu(v), silu(g) and the ungated output are held.

    The backward also holds a gradient of each.
    """
    p, cost, trains = problem, cost_by_blocks(problem, options, workload), workload is Workload.FORWARD_BACKWARD
    tokens = p.B * p.H * (1 if workload is Workload.DECODE else p.N)
    values = tokens * p.M * p.dtype.bytes
    # a step of a whole sequence holds one token's
    beside = p.B * p.H * p.M * p.dtype.bytes if workload.decodes else values
    return cost.model_copy(
        update={
            "traffic_bytes": cost.traffic_bytes + values * (3 if trains else 1),
            "peak_bytes": cost.peak_bytes + beside * (4 if trains else 1),
        }
    )


def traffic_bytes(p: Problem, o: VQOptions, workload: Workload) -> float:
    """Count the bytes that any attention moves, and the codebook; when decoding, the state of each step."""
    if workload.decodes:
        return decoding_cost.traffic_bytes(p, o, workload)
    return io_bytes(p, workload) + p.H * o.codes * p.D * 4.0


def peak_bytes(p: Problem, o: VQOptions, workload: Workload) -> float:
    """Count the bytes at the peak on a CPU."""
    if workload.decodes:
        return decoding_cost.peak_bytes(p, o, workload)
    room = Footprint(p, o)
    return room.forward_backward() if workload is Workload.FORWARD_BACKWARD else room.forward()
