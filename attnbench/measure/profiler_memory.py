"""torch's own CPU allocations over one call, by its profiler: exact, but without memory that is not torch's."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from attnbench.measure.host_memory import Reading

_SOURCE = "running sum of the memory events of torch's profiler"


def torch_profiler_peak(call: Callable[[], object]) -> Reading:
    """Measure the peak bytes beyond what was allocated before the call."""
    deltas, _ = _record(call)
    return Reading(max(accumulate(deltas, initial=0)), _SOURCE)


def saved_for_backward(forward: Callable[[], torch.Tensor]) -> Reading:
    """Measure the bytes alive after a forward under autograd, less the output: what is kept for the backward."""
    deltas, output = _record(forward)
    return Reading(max(0, sum(deltas) - output.untyped_storage().nbytes()), f"{_SOURCE}, after the forward, less the output")


def _record(call: Callable[[], Any]) -> tuple[list[int], Any]:
    """Return the signed sizes of all allocations and frees, in time order, and the call's result (alive until then)."""
    # torch.profiler.profile, which is built on this profiler, first imports modules for a second
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        result = call()
    assert profiler.kineto_results is not None
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return [event.nbytes() for event in events], result
