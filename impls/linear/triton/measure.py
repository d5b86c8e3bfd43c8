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

from .attention import TritonLinear
from .product import attend, plan, pull_back
from .tuning import Blocks, Launch, arithmetic, blocks, padded


def candidates(p: Problem) -> list[Launch]:
    """List launches that may suit these widths."""
    columns = [c for c in (16, 32, 64, 128) if c <= padded(max(p.D, p.M))]
    return [Launch(*numbers) for numbers in product((16, 32, 64), columns, (4, 8), (1, 2, 3))]


def timed(p: Problem, kernel: str, launches: Iterable[Launch]) -> list[tuple[float, Launch]]:
    """Time a forward and backward with each launch of that kernel, in seconds, best first; leave out what does not compile.

    `kernel` is a field of Blocks. Times are medians of warm calls by CUDA events.
    """
    usual = blocks(p.D, p.M, arithmetic(getattr(torch, p.dtype)))
    found = [(_seconds(p, replace(usual, **{kernel: launch})), launch) for launch in launches]
    return sorted((pair for pair in found if pair[0] is not None), key=lambda pair: pair[0] or 0.0)  # type: ignore[misc]


def _seconds(p: Problem, chosen: Blocks) -> float | None:
    try:
        return float(do_bench(_call(p, chosen), return_mode="median")) / 1e3
    except (CompilationError, OutOfResources, PTXASError):
        return None


def _call(p: Problem, chosen: Blocks) -> Callable[[], object]:
    q, k, v = TritonLinear.inputs(p, torch.Generator("cuda").manual_seed(0))
    g, how = torch.randn_like(v), plan(q, v, "elu_plus_one", chosen)
    return lambda: pull_back(how, [q, k, v], list(attend(how, q, k, v, 1e-6)), g)
