"""Least traffic to memory of an attention whose queries and keys are one tensor."""

from attnbench.api import Problem, Workload


def least_bytes(p: Problem, workload: Workload) -> float:
    """Read qk and v, write o; the backward reads qk, v and the gradient of o, and writes two gradients."""
    trains = workload is Workload.FORWARD_BACKWARD
    elements = (3 * p.D + 5 * p.M) if trains else (p.D + 2 * p.M)
    return float(p.B * p.H * p.N * p.dtype.bytes * elements)
