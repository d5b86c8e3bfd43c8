"""torch's own CPU allocations over one call, by its profiler: exact, blind to memory that is not torch's."""

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from attnbench.measure.reading import Reading

_SOURCE = "running sum of torch.profiler's memory events"


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
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    kineto = profiler.profiler.kineto_results  # type: ignore[union-attr]
    events = [event for event in kineto.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return [event.nbytes() for event in events], result
