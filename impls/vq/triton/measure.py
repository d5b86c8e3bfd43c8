"""Time other launches than those of triton/tuning.py on the current GPU, to fill its table.

B batch, H heads, N tokens, S codes, L tokens of a block, D query/key width, M value width.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import torch
from triton.compiler.errors import CompilationError  # type: ignore[import-untyped, unused-ignore]
from triton.runtime.errors import OutOfResources, PTXASError  # type: ignore[import-untyped, unused-ignore]
from triton.testing import do_bench  # type: ignore[import-untyped, unused-ignore]

from attnbench.api import Problem

from ..options import VQOptions
from .attention import TritonVQ
from .product import attend, launcher, pull_back
from .tuning import Blocks, Launch, arithmetic, blocks


def candidates() -> list[Launch]:
    """List launches that may be suitable."""
    return [Launch(*numbers) for numbers in product((32, 64, 128), (32, 64, 128), (4, 8), (1, 2, 3))]


def timed(p: Problem, options: VQOptions, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks. Times are medians of warm calls by CUDA events.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    found = [(_seconds(p, options, replace(usual, **{kernel: launch})), launch) for launch in launches]
    return sorted((pair for pair in found if pair[0] is not None), key=lambda pair: pair[0] or 0.0)  # type: ignore[misc]


def _seconds(p: Problem, options: VQOptions, chosen: Blocks) -> float | None:
    try:
        return float(do_bench(_call(p, options, chosen), return_mode="median")) / 1e3
    except (CompilationError, OutOfResources, PTXASError):
        return None


def _call(p: Problem, options: VQOptions, chosen: Blocks) -> Callable[[], object]:
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = TritonVQ.inputs(p, generator)
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=q.dtype, device="cuda")
    codes = torch.randint(options.codes, (p.B, p.kv_heads, p.N), generator=generator, device="cuda")
    codebook = torch.randn(p.kv_heads, options.codes, p.D, dtype=q.dtype, device="cuda")
    tensors = [q, k, v, codes, codebook]
    how = launcher(q, v, options.codes, options.block, causal=p.causal, chosen=chosen)
    return lambda: pull_back(how, tensors, list(attend(how, tensors)), g, through_table=True)
