"""torch's kernels for softmax attention: which of them ran, and what they take for a mask."""

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
    """What `observe` gives: under `backend` flash_cpu, flash, efficient, cudnn, math, …, once closed; no call, no key."""
    facts: dict[str, Scalar] = {}
    # a dispatch mode would import a second's worth of modules first; this profiler is at hand
    with torch.autograd.profiler.profile() as profiler:
        yield facts
    assert profiler.kineto_results is not None
    names = {event.name().removeprefix("aten::") for event in profiler.kineto_results.events()}
    if ran := [backend for name, backend in _BACKENDS.items() if name in names]:
        facts["backend"] = ran[-1]  # a fused one where both names are seen


def handed_over(mask: Tensor, q: Tensor) -> Tensor:
    """A bool mask as those kernels are to have it: an addend where cuDNN may take it, which hides by a finite number else.

    A query that sees nothing would then attend to all keys alike, and is to give 0.
    """
    return addend(mask, q.dtype) if q.is_cuda and q.dtype in {torch.bfloat16, torch.float16} else mask


def addend(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to scores: 0 where the mask is True, and -inf elsewhere."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)
