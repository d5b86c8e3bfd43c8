"""Least traffic to memory of an attention whose queries and keys are one tensor."""

from attnbench.api import Problem, Workload


def least_bytes(p: Problem, workload: Workload) -> float:
    """Count the bytes of reading qk and v and writing o; the backward reads qk, v and dL/do, and writes two gradients."""
    trains = workload is Workload.FORWARD_BACKWARD
    elements = (3 * p.D + 5 * p.M) if trains else (p.D + 2 * p.M)
    return float(p.B * p.H * p.N * p.dtype.bytes * elements)
