"""What all attentions over shared queries and keys have in common: their inputs.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Problem, draw


class SharedQK(Attention):
    """Attention whose queries and keys are one tensor: called with (qk, qk, v), as many heads of one as of the other."""

    paper = "arXiv:2001.04451"

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw (qk, qk, v): queries and keys are the same object."""
        qk = draw(problem, problem.H, problem.D, generator, cls.layout)
        return qk, qk, draw(problem, problem.H, problem.M, generator, cls.layout)


def refuse_two_tensors(q: Tensor, k: Tensor) -> None:
    """Raise ValueError unless k is q."""
    if k is not q:
        raise ValueError("queries and keys of LSH attention are one tensor: call it with (qk, qk, v)")


def why_not_heads(problem: Problem) -> str | None:
    """Fewer heads of keys than of queries cannot be."""
    return "queries and keys are one tensor, so kv_heads must equal H" if problem.kv_heads != problem.H else None
