"""Peaks of torch's CUDA allocator over one call, which do not see the context and what bypasses the allocator."""

from collections.abc import Callable
from typing import Any

import torch

from attnbench.measure.host_memory import Reading


def allocator_peaks(call: Callable[[], object], device: str, cuda: Any = torch.cuda) -> dict[str, Reading]:  # noqa: ANN401 - the module, or a stub of it
    """Measure torch_allocated_peak (beyond what was allocated before) and torch_reserved_peak (absolute)."""
    cuda.synchronize(device)
    cuda.reset_peak_memory_stats(device)
    before = cuda.memory_allocated(device)
    call()
    cuda.synchronize(device)
    allocated = "torch.cuda.max_memory_allocated after a reset, less memory_allocated before"
    return {
        "torch_allocated_peak": Reading(cuda.max_memory_allocated(device) - before, allocated),
        "torch_reserved_peak": Reading(cuda.max_memory_reserved(device), "torch.cuda.max_memory_reserved, absolute"),
    }


def saved_for_backward(forward: Callable[[], torch.Tensor], device: str, cuda: Any = torch.cuda) -> Reading:  # noqa: ANN401
    """Measure the bytes alive after a forward under autograd, less the output: what is kept for the backward."""
    cuda.synchronize(device)
    before = cuda.memory_allocated(device)
    output = forward()
    cuda.synchronize(device)
    after: int = cuda.memory_allocated(device)
    kept = after - before - output.untyped_storage().nbytes()
    return Reading(max(0, kept), "torch.cuda.memory_allocated after the forward, less before and less the output")
