"""The memory pass: every memory counter of one cell, with its source; and the fit pass: whether a batch can be run at all."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attnbench.measure import cuda_memory, devices, host_memory, nvml, profiler_memory
from attnbench.measure.host_memory import Reading
from attnbench.measure.loop import OverBudgetError
from attnbench.schema.errand import FIT_SHARE, Job
from attnbench.schema.outcome import STATE_SOURCE, Counter, Measured
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Modelled, Setting

Readings = dict[str, Reading]


def measure_memory(job: Job) -> Measured:
    """Measure the bytes of a whole call, an update or the largest step of a sequence. Raises whatever the method raises."""
    setting = prepare(job)
    if isinstance(setting, Modelled) and job.cell.workload.learns:
        # in its first step an optimiser allocates its own numbers
        setting.call()
    return memory_of(setting)


def fit(job: Job) -> Measured:
    """Call twice and time the second call, or a third one if that was too slow; of a generation, only the costliest step.

    Raises OverBudgetError, and what the method raises.
    """
    if job.cell.device_kind == "cuda":
        free, total = torch.cuda.mem_get_info(job.cell.device)
        torch.cuda.set_per_process_memory_fraction(FIT_SHARE * free / total, job.cell.device)
    setting = prepare(job)
    clock = devices.clock(job.cell.device, "wall")
    clock.sample(setting.trial, 1)
    seconds = setting.trials * clock.sample(setting.trial, 1)
    limit = job.limits.first_call
    if limit is not None and seconds > limit:
        # a single slow call may be the machine's fault
        seconds = min(seconds, setting.trials * clock.sample(setting.trial, 1))
        if seconds > limit:
            raise OverBudgetError(seconds, limit)
    return Measured(facts={"B": job.B, "seconds": seconds})


def memory_of(setting: Setting) -> Measured:
    """Read all counters, in calls of their own that are not timed."""
    readings = sizes(setting) | (on_cuda(setting) if setting.cell.device_kind == "cuda" else on_cpu(setting))
    flags = tuple(dict.fromkeys(r.flag for r in readings.values() if r.flag))
    memory = {name: Counter(bytes=r.bytes, source=r.source, reason=r.reason) for name, r in readings.items()}
    return Measured(memory=memory, flags=flags)


def sizes(setting: Setting) -> Readings:
    """Return the bytes of inputs, parameters, output and, where tokens are made one at a time, the state."""
    state = setting.state_bytes()
    module = setting.model if isinstance(setting, Modelled) else setting.method
    # shared-QK methods take one tensor twice
    inputs = {id(t): t for t in setting.inputs}.values()
    return {
        "input_bytes": Reading(_bytes(inputs), "sum of the inputs' storages"),
        "parameter_bytes": Reading(_bytes(module.parameters()), "sum of the parameters' storages"),
        "output_bytes": setting.output(),
        **({} if state is None else {"state_bytes": Reading(state, STATE_SOURCE)}),
    }


def on_cpu(setting: Setting) -> Readings:
    """Read the host's counters; those of a GPU do not apply, and say so.

    The first call is profiled, which sees only torch's own blocks. It is also the warm-up for the call whose pages count:
    libraries, thread pools and autograd's structures are not the method's memory.
    """
    none, call = "this cell ran on a CPU", setting.trial
    return {
        "torch_profiler_peak": profiler_memory.torch_profiler_peak(call),
        "host_rss_peak": host_memory.host_rss_peak(call),
        "saved_for_backward": _saved(setting, profiler_memory.saved_for_backward),
        "torch_allocated_peak": Reading(None, "torch's CUDA allocator", none),
        "torch_requested_peak": Reading(None, "torch's CUDA allocator", none),
        "torch_reserved_peak": Reading(None, "torch's CUDA allocator", none),
        **nvml.unavailable(none),
    }


def on_cuda(setting: Setting) -> Readings:
    """Read the allocator's peaks in one call, what is saved for the backward in a second, and NVML in a third."""
    none, call, device = "this cell ran on a GPU", setting.trial, setting.cell.device
    # a call before that: workspaces that libraries keep are not the method's memory
    call()
    readings = {
        **cuda_memory.allocator_peaks(call, device),
        "saved_for_backward": _saved(setting, lambda forward: cuda_memory.saved_for_backward(forward, device)),
    }
    try:
        with nvml.session() as library:
            handle = nvml.handle(library, str(torch.cuda.get_device_properties(device).uuid))
            # blocks that torch's allocator keeps from earlier calls would hide what this one takes
            torch.cuda.empty_cache()
            with nvml.sampled(library, handle) as found:
                call()
                torch.cuda.synchronize(device)
            readings |= found
    except nvml.NvmlUnavailableError as error:
        readings |= nvml.unavailable(str(error))
    return {
        **readings,
        "host_rss_peak": Reading(None, "VmHWM", none),
        "torch_profiler_peak": Reading(None, "torch.profiler", none),
    }


def _saved(setting: Setting, probe: Callable[[Callable[[], Tensor]], Reading]) -> Reading:
    if not setting.cell.workload.learns:
        return Reading(None, "torch's allocator after the forward", f"{setting.cell.workload} keeps nothing for a backward")
    return probe(setting.forward)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.untyped_storage().nbytes() for t in tensors)
