"""torch's own CPU allocations over one call, by its profiler: exact, blind to memory that is not torch's."""

from collections.abc import Callable
from typing import Any

import torch

from attnbench.measure.reading import Reading

_SOURCE = "running sum of the memory events of torch's profiler"


def torch_profiler_peak(call: Callable[[], object]) -> Reading:
    """Peak bytes beyond what lived before the call."""
    deltas, _ = _record(call)
    live = peak = 0
    for delta in deltas:
        live += delta
        peak = max(peak, live)
    return Reading(peak, _SOURCE)


def saved_for_backward(forward: Callable[[], torch.Tensor]) -> Reading:
    """Bytes alive after a forward under autograd, less the output: what is kept for the backward."""
    deltas, output = _record(forward)
    return Reading(max(0, sum(deltas) - output.untyped_storage().nbytes()), f"{_SOURCE}, after the forward, less the output")


def _record(call: Callable[[], Any]) -> tuple[list[int], Any]:
    """Signed sizes of all allocations and frees, in time order, and what the call returned (alive until then)."""
    # the plain profiler below torch.profiler.profile, which imports a second's worth of modules first
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        result = call()
    assert profiler.kineto_results is not None
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return [event.nbytes() for event in events], result
