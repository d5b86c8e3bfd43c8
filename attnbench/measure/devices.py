"""The one place that branches on the device."""

import os
import subprocess
from collections.abc import Callable

import psutil
import torch

from attnbench.measure import nvml
from attnbench.measure.clock import Clock, ColdClock, ColdGraphClock, GraphClock, WallClock
from attnbench.measure.environment import Facts
from attnbench.measure.host_conditions import left_by_limits


class NoDeviceError(RuntimeError):
    """The device that was asked for is not here; the message says what is."""


def resolve(device: str) -> str:
    """Return the device meant: `auto` is cuda:0 where torch finds a GPU, else cpu; `cuda` is cuda:0."""
    if device == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    return "cuda:0" if device == "cuda" else device


def require(device: str) -> None:
    """Raise NoDeviceError where torch cannot reach the device."""
    if not device.startswith("cuda"):
        return
    if not torch.backends.cuda.is_built():
        raise NoDeviceError(f"torch {torch.__version__} is built without CUDA; install a CUDA build of it, or use cpu")
    here = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if device not in here:
        raise NoDeviceError(f"torch {torch.__version__} finds " + (f"only {', '.join(here)}" if here else "no GPU; use cpu"))


def clock(device: str, mode: str) -> Clock:
    """Return the clock of a mode (default, cold, graph, graph_cold, wall). Raises ValueError where the device has none."""
    if not device.startswith("cuda"):
        if mode not in {"default", "wall"}:
            raise ValueError(f"a CPU has no {mode!r} clock; use wall")
        return WallClock()
    # events, streams and graphs are those of the current device
    torch.cuda.set_device(device)
    if mode == "wall":
        return WallClock(lambda: torch.cuda.synchronize(device))
    made: dict[str, Callable[[str], Clock]] = {"graph": GraphClock, "graph_cold": ColdGraphClock}
    return made.get(mode, ColdClock)(device)


def free_bytes(device: str) -> int:
    """Return the bytes that are free now, on the GPU or on the host."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    # what the kernel says is available, or what a container's limit leaves, whichever is least
    return max(0, min([int(psutil.virtual_memory().available), *left_by_limits()]))


def facts(device: str) -> Facts:
    """Return the facts about the device and about how torch uses it that a reader must know."""
    found: Facts = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "gpu": properties.name,
            "gpu_uuid": str(properties.uuid),
            "gpu_memory_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": getattr(properties, "L2_cache_size", None),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "ptxas": ptxas(10 * properties.major + properties.minor),
            # in torch's order
            "allocator_settings": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", os.environ.get("PYTORCH_ALLOC_CONF")),
        }
        try:
            with nvml.session() as library:
                found |= nvml.settings(library, nvml.handle(library, str(properties.uuid)))
        except nvml.NvmlUnavailableError as error:
            found["nvml"] = str(error)
    return found


def ptxas(arch: int) -> str | None:
    """Return the version of the assembler that Triton takes for GPUs of an arch (90 is Hopper's); None without one.

    Numbers can depend on it. Triton has two, either of which can be replaced; which one it takes differs by its version too.
    """
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        done = subprocess.run([get_ptxas(arch).path, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (ImportError, TypeError, RuntimeError, OSError, subprocess.SubprocessError):
        # TypeError: a Triton that is older than any that torch brings takes no arch
        return None
    return next((word.strip(",") for word in done.stdout.split() if word.startswith("V")), None)
