"""Torch's kernels for softmax attention: which of them ran, and which form of mask they need."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from attnbench.api import Scalar

_BACKENDS = {
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_flash_attention_for_cpu": "flash_cpu",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "overrideable",
}


@contextmanager
def backend_that_ran() -> Iterator[dict[str, Scalar]]:
    """Record as `backend` which kernel ran inside: flash_cpu, flash, efficient, cudnn, math, …; nothing if none did."""
    facts: dict[str, Scalar] = {}
    # a dispatch mode would first import modules for a second; this profiler is already loaded
    with torch.autograd.profiler.profile() as profiler:
        yield facts
    assert profiler.kineto_results is not None
    names = {event.name().removeprefix("aten::") for event in profiler.kineto_results.events()}
    if ran := [backend for name, backend in _BACKENDS.items() if name in names]:
        facts["backend"] = ran[-1]  # a fused one where both names are seen


def handed_over(mask: Tensor, q: Tensor) -> Tensor:
    """Convert a bool mask for these kernels: to numbers to add where cuDNN may run, else leave it.

    cuDNN hides keys of a bool mask by a finite number, so a query that sees nothing would attend to all keys instead of giving
    0.
    """
    return addend(mask, q.dtype) if q.is_cuda and q.dtype in {torch.bfloat16, torch.float16} else mask


def addend(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute what is added to scores: 0 where the mask is True, -inf elsewhere."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)
