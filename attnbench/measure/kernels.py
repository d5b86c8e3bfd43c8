"""The kernels that a call runs, by torch's profiler: CUDA kernels on a GPU, ATen operators on a CPU, each with its own time."""

import gc
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

_SHOWN = 5


@dataclass(frozen=True)
class Kernel:
    """One kernel or operator: how often it ran in a call, and the seconds in it and in nothing that it called."""

    name: str
    calls: int
    seconds: float


def kernels_of(call: Callable[[], object], device: str, trace: Path | None = None) -> list[Kernel]:
    """Profile one call, and return what it ran, the longest first; write the timeline as a Chrome trace where asked to."""
    on_gpu = device.startswith("cuda")
    # torch.profiler.profile, which is built on this profiler, first imports modules for a second
    # without Kineto it would tell the time of operators on a GPU, and not what they launch
    with torch.autograd.profiler.profile(use_device="cuda" if on_gpu else None, use_kineto=True) as profiler:
        call()
        if on_gpu:
            torch.cuda.synchronize(device)
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    found = []
    for each in profiler.key_averages():
        # a mark around kernels, as torch's optimisers have one, spans them and the gaps between them
        is_kernel = (each.device_type.name == "CUDA") == on_gpu and not (on_gpu and each.is_user_annotation)
        microseconds = each.self_device_time_total if on_gpu else each.self_cpu_time_total
        if is_kernel and microseconds > 0:
            found.append(Kernel(each.key, each.count, 1e-6 * microseconds))
    return sorted(found, key=lambda kernel: -kernel.seconds)


def tuned_launches() -> str:
    """Name the launch that each of Triton's autotuners has chosen in this process; empty where none has."""
    if (tuning := sys.modules.get("triton.runtime.autotuner")) is None:
        return ""
    # by its type, for isinstance asks what a weak reference stands for, which may be gone
    tuners = [each for each in gc.get_objects() if issubclass(type(each), tuning.Autotuner)]
    chosen = {each.base_fn.__name__: str(each.best_config) for each in tuners if getattr(each, "best_config", None) is not None}
    return "; ".join(f"{name} ({chosen[name]})" for name in sorted(chosen))


def in_words(kernels: Sequence[Kernel]) -> str:
    """Name the longest with their shares of the time in all: `aten::bmm 62 %, aten::_softmax 21 %, 9 others 17 %`.

    Of a kernel in C++ the name alone, under which its templates are added up: with their arguments it may fill a page.
    """
    seconds: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        name = kernel.name.removeprefix("void ").replace("(anonymous namespace)::", "")
        seconds[re.split("[<(]", name)[0].rstrip()] += kernel.seconds
    total, longest = sum(seconds.values()), sorted(seconds.items(), key=lambda pair: -pair[1])
    parts, rest = longest[:_SHOWN], longest[_SHOWN:]
    if rest:
        parts.append((f"{len(rest)} other{'s' if len(rest) > 1 else ''}", sum(pair[1] for pair in rest)))
    return ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in parts)
