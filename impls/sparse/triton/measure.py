"""Time other launches than those of triton/tuning.py on the current GPU, to fill its table.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import torch
from triton.compiler.errors import CompilationError  # type: ignore[import-untyped, unused-ignore]
from triton.runtime.errors import OutOfResources, PTXASError  # type: ignore[import-untyped, unused-ignore]
from triton.testing import do_bench  # type: ignore[import-untyped, unused-ignore]

from attnbench.api import Problem

from ..patterns.pattern import Pattern
from .attention import TritonSparse
from .launch import plan
from .product import attend, pull_back
from .tables import described
from .tuning import Blocks, Launch, arithmetic, blocks


def candidates() -> list[Launch]:
    """List launches that may be suitable."""
    return [Launch(*numbers) for numbers in product((32, 64, 128), (32, 64, 128), (4, 8), (1, 2, 3))]


def timed(p: Problem, pattern: Pattern, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks. Times are medians of warm calls by CUDA events.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    found = [(_seconds(p, pattern, replace(usual, **{kernel: launch})), launch) for launch in launches]
    return sorted((pair for pair in found if pair[0] is not None), key=lambda pair: pair[0] or 0.0)  # type: ignore[misc]


def _seconds(p: Problem, pattern: Pattern, chosen: Blocks) -> float | None:
    try:
        return float(do_bench(_call(p, pattern, chosen), return_mode="median")) / 1e3
    except (CompilationError, OutOfResources, PTXASError):
        return None


def _call(p: Problem, pattern: Pattern, chosen: Blocks) -> Callable[[], object]:
    q, k, v = TritonSparse.inputs(p, torch.Generator("cuda").manual_seed(0))
    how = plan((q, k, v), described(pattern), p.causal, chosen)
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=q.dtype, device=q.device)
    return lambda: pull_back(how, [q, k, v], list(attend(how, q, k, v)), g)
