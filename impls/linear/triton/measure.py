"""Time other launches than those of triton/tuning.py on the current GPU, to fill its table.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import torch

from attnbench.api import Problem

from ...partial.heads import of_each_head
from ...partial.launches import fastest
from ...partial.tiles import padded
from .attention import TritonLinear
from .product import attend, plan, pull_back
from .tuning import Launch, arithmetic, blocks


def candidates(p: Problem) -> list[Launch]:
    """List launches that may suit these widths."""
    columns = [c for c in (16, 32, 64, 128) if c <= padded(max(p.D, p.M))]
    return [Launch(*numbers) for numbers in product((16, 32, 64), columns, (4, 8), (1, 2, 3))]


def timed(p: Problem, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    q, k, v = TritonLinear.inputs(p, torch.Generator("cuda").manual_seed(0))
    g = torch.randn(p.B, p.H, p.N, p.M, device=v.device, dtype=v.dtype)
    k, v = of_each_head(q, k, v)

    def planned(launch: Launch) -> Callable[[], object]:
        how = plan(q, v, "elu_plus_one", replace(usual, **{kernel: launch}))
        return lambda: pull_back(how, [q, k, v], list(attend(how, q, k, v, 1e-6)), g)

    return fastest(launches, planned)
