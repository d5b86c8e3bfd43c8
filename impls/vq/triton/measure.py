"""Time other launches than those of triton/tuning.py on the current GPU, to fill its table.

B batch, H heads, N tokens, S codes, L tokens of a block, D query/key width, M value width.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import torch

from attnbench.api import Problem

from ...partial.launches import fastest
from ...partial.tiles import arithmetic
from ..options import VQOptions
from .attention import TritonVQ
from .product import attend, launcher, pull_back
from .tuning import Launch, blocks


def candidates() -> list[Launch]:
    """List launches that may be suitable."""
    return [Launch(*numbers) for numbers in product((32, 64, 128), (32, 64, 128), (4, 8), (1, 2, 3))]


def timed(p: Problem, options: VQOptions, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = TritonVQ.inputs(p, generator)
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=q.dtype, device="cuda")
    codes = torch.randint(options.codes, (p.B, p.kv_heads, p.N), generator=generator, device="cuda")
    codebook = torch.randn(p.kv_heads, options.codes, p.D, dtype=q.dtype, device="cuda")
    tensors = [q, k, v, codes, codebook]

    def planned(launch: Launch) -> Callable[[], object]:
        chosen = replace(usual, **{kernel: launch})
        how = launcher(q, v, options.codes, options.block, causal=p.causal, chosen=chosen)
        return lambda: pull_back(how, tensors, list(attend(how, tensors)), g, through_table=True)

    return fastest(launches, planned)
