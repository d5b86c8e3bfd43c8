"""Peaks of torch's CUDA allocator over one call, which do not see the context and what bypasses the allocator."""

from collections.abc import Callable
from typing import Any

import torch

from attnbench.measure.host_memory import Reading


def allocator_peaks(call: Callable[[], object], device: str, cuda: Any = torch.cuda) -> dict[str, Reading]:  # noqa: ANN401 - the module, or a stub of it
    """Measure the peaks of what was allocated and of what was asked for, beyond what lived before, and of what is reserved.

    Blocks are rounded up, and so more is allocated than asked for. Where the allocator had to give back what it keeps and try
    again, torch_reserved_peak is flagged `allocation_retried`: the device was nearly full.
    """
    cuda.synchronize(device)
    cuda.reset_peak_memory_stats(device)
    before = cuda.memory_stats(device)
    call()
    cuda.synchronize(device)
    after, source = cuda.memory_stats(device), "torch.cuda.memory_stats"

    def beyond(name: str) -> Reading:
        if after["allocated_bytes.all.peak"] and not after[f"{name}.all.peak"]:
            return Reading(None, source, f"this allocator counts no {name}, as cudaMallocAsync")
        found = after[f"{name}.all.peak"] - before[f"{name}.all.current"]
        return Reading(found, f"{source}, {name}.all.peak after a reset, less {name}.all.current before")

    retried = after["num_alloc_retries"] > before["num_alloc_retries"]
    return {
        "torch_allocated_peak": beyond("allocated_bytes"),
        "torch_requested_peak": beyond("requested_bytes"),
        "torch_reserved_peak": Reading(
            after["reserved_bytes.all.peak"],
            f"{source}, reserved_bytes.all.peak, absolute",
            flag="allocation_retried" if retried else None,
        ),
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
