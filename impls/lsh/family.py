"""Base class of attentions over shared queries and keys.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Attention, Problem, Projection, Workload


class SharedQK(Attention):
    """Attention whose queries and keys are one tensor: called with (qk, qk, v), with as many heads of keys as of queries."""

    paper = "arXiv:2001.04451"

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name one tensor for queries and keys, and v."""
        return Projection("qk", problem.H, problem.D), Projection("v", problem.H, problem.M)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return (qk, qk, v), where queries and keys are the same object."""
        qk, v = super().admit(problem, *raw)
        return qk, qk, v


def refuse_two_tensors(q: Tensor, k: Tensor) -> None:
    """Raise ValueError unless k is q."""
    if k is not q:
        raise ValueError("queries and keys of LSH attention are one tensor: call it with (qk, qk, v)")


def least_bytes(p: Problem, workload: Workload) -> float:
    """Count the bytes of reading qk and v and writing o; the backward reads qk, v and dL/do, and writes two gradients."""
    trains = workload is Workload.FORWARD_BACKWARD
    elements = (3 * p.D + 5 * p.M) if trains else (p.D + 2 * p.M)
    return float(p.B * p.H * p.N * p.dtype.bytes * elements)
