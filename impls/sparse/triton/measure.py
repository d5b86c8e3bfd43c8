"""Time other launches than those of triton/tuning.py on the current GPU, to fill its table.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import torch

from attnbench.api import Problem

from ...partial.launches import fastest
from ...partial.tiles import arithmetic
from ..patterns.pattern import Pattern
from .attention import TritonSparse
from .launch import plan
from .product import attend, pull_back
from .tables import described
from .tuning import Launch, blocks


def candidates() -> list[Launch]:
    """List launches that may be suitable."""
    return [Launch(*numbers) for numbers in product((32, 64, 128), (32, 64, 128), (4, 8), (1, 2, 3))]


def timed(p: Problem, pattern: Pattern, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    q, k, v = TritonSparse.inputs(p, torch.Generator("cuda").manual_seed(0))
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=q.dtype, device=q.device)

    def planned(launch: Launch) -> Callable[[], object]:
        how = plan((q, k, v), described(pattern), p.causal, replace(usual, **{kernel: launch}))
        return lambda: pull_back(how, [q, k, v], list(attend(how, q, k, v)), g)

    return fastest(launches, planned)
