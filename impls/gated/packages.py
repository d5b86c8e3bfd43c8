"""Base class of methods computed by flash-linear-attention: memory order [B, N, H, ·], and no decoding.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from inspect import signature
from typing import ClassVar

from attnbench.api import UP_TO_FLOAT32, Cost, Layout, Problem, Scalar, Workload, nominal_flops

from ..partial.on_paper import on_paper
from .cost import exact_flops, traffic_bytes
from .family import GatedFamily

_CHUNK = 64
"""Tokens of a chunk."""


class OfPackage(GatedFamily):
    """One of our methods (`method`) computed by the package."""

    layout = Layout.BNHD
    decodes = False
    grouped = False
    requires = ("fla-core>=0.6", "triton>=3.3")
    dtypes = UP_TO_FLOAT32
    method: ClassVar[type[GatedFamily]]
    states_again: ClassVar[bool]
    """Whether the backward computes the states between chunks again."""

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the tiles within chunks, which are computed whole, and the states between them, according to the source.

        Needs no package. Raises TypeError or ValueError on bad parameters.
        """
        signature(cls).bind(problem, **params)
        on_paper(cls.method, problem, params)
        p, exact = problem, exact_flops(problem, workload)
        products = 2.0 * (_CHUNK * (p.D + p.M) + 2 * p.D * p.M)
        if workload is Workload.FORWARD_BACKWARD:
            products = 3 * products + (2.0 * (_CHUNK * p.D + p.D * p.M) if cls.states_again else 0)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact,
            executed_flops=max(p.B * p.H * p.N * products, exact),
            traffic_bytes=traffic_bytes(p, cls.gates(p), workload),
        )
