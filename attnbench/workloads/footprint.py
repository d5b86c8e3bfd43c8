"""The memory pass: every counter of one cell, each named and sourced; never timed."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attnbench.measure import cuda_memory, host_memory, nvml, profiler_memory
from attnbench.measure.reading import Reading
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Job
from attnbench.schema.outcome import STATE_SOURCE, Counter, Measured
from attnbench.workloads.generate import Generation
from attnbench.workloads.modelled import Modelled
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Setting

Readings = dict[str, Reading]
_BACKWARD = {Workload.FORWARD_BACKWARD, Workload.TRAIN}


def measure_memory(job: Job) -> Measured:
    """Bytes of one whole call, one update or the largest steps of a sequence. Raises whatever the method raises."""
    setting = prepare(job)
    readings = sizes(setting)
    readings |= on_cuda(setting) if job.cell.device_kind == "cuda" else on_cpu(setting)
    flags = tuple(dict.fromkeys(r.flag for r in readings.values() if r.flag))
    memory = {name: Counter(bytes=r.bytes, source=r.source, reason=r.reason) for name, r in readings.items()}
    return Measured(memory=memory, flags=flags)


def sizes(setting: Setting) -> Readings:
    """Inputs, parameters, output and, where tokens are made one at a time, the state, by shape."""
    state = setting.state_bytes()
    module = setting.model if isinstance(setting, Modelled) else setting.method
    # shared-QK methods take one tensor twice
    inputs = {id(t): t for t in setting.inputs}.values()
    return {
        "input_bytes": Reading(_bytes(inputs), "sum of the inputs' storages"),
        "parameter_bytes": Reading(_bytes(module.parameters()), "sum of the parameters' storages"),
        "output_bytes": _output(setting),
        **({} if state is None else {"state_bytes": Reading(state, STATE_SOURCE)}),
    }


def _output(setting: Setting) -> Reading:
    if isinstance(setting, Modelled):
        return Reading(setting.output_bytes(), setting.output_source)
    p = setting.cell.problem
    tokens = 1 if setting.cell.workload.decodes else p.N
    size = p.B * p.H * tokens * p.M * setting.inputs[-1].element_size()
    return Reading(size, "B H N M x element size; N = 1 in decoding")


def _call(setting: Setting) -> Callable[[], object]:
    """What is watched: of a sequence that a model makes its last token, with all that is kept until then made inside."""
    return setting.trial if isinstance(setting, Generation) else setting.call


def on_cpu(setting: Setting) -> Readings:
    """Host counters; those of a GPU are not applicable, and say so.

    The first call is profiled, which sees torch's own blocks only; so it warms up for the one whose pages count:
    libraries, thread pools and autograd's structures are not the method's memory.
    """
    none = "this cell ran on a CPU"
    return {
        "torch_profiler_peak": profiler_memory.torch_profiler_peak(_call(setting)),
        "host_rss_peak": host_memory.host_rss_peak(_call(setting)),
        "saved_for_backward": _saved(setting, profiler_memory.saved_for_backward),
        "torch_allocated_peak": Reading(None, "torch's CUDA allocator", none),
        "torch_reserved_peak": Reading(None, "torch's CUDA allocator", none),
        **nvml.unavailable(none),
    }


def on_cuda(setting: Setting) -> Readings:
    """The allocator's peaks in one call, what is saved in a second, NVML's in a third."""
    device = setting.cell.device
    none = "this cell ran on a GPU"
    _call(setting)()  # workspaces that libraries keep are not the method's memory
    return {
        **cuda_memory.allocator_peaks(_call(setting), device),
        "saved_for_backward": _saved(setting, lambda forward: cuda_memory.saved_for_backward(forward, device)),
        **_by_nvml(setting),
        "host_rss_peak": Reading(None, "VmHWM", none),
        "torch_profiler_peak": Reading(None, "torch.profiler", none),
    }


def _saved(setting: Setting, probe: Callable[[Callable[[], Tensor]], Reading]) -> Reading:
    if setting.cell.workload not in _BACKWARD:
        return Reading(None, "torch's allocator after the forward", f"{setting.cell.workload} keeps nothing for a backward")
    return probe(setting.forward)


def _by_nvml(setting: Setting) -> Readings:
    device = setting.cell.device
    try:
        with nvml.session() as library:
            handle = nvml.handle(library, str(torch.cuda.get_device_properties(device).uuid))
            # what torch's allocator keeps of the calls before would hide all that this one takes
            torch.cuda.empty_cache()
            with nvml.NvmlSampler(library, handle) as sampler:
                _call(setting)()
                torch.cuda.synchronize(device)
            return sampler.readings()
    except nvml.NvmlUnavailableError as error:
        return nvml.unavailable(str(error))


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.untyped_storage().nbytes() for t in tensors)
