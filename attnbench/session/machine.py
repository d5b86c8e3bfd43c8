"""The machine: whether it can be measured on, and what would spoil the numbers."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from packaging.version import Version

from attnbench import registry
from attnbench.measure import environment, nvml
from attnbench.measure.host_conditions import HostCounters, facts
from attnbench.places.lane import Lane
from attnbench.places.station import LocalStation
from attnbench.schema import units
from attnbench.schema.errand import Surroundings
from attnbench.schema.noun import Facts
from attnbench.schema.suite import Axes, Method, Suite
from attnbench.session.reporter import Reporter
from attnbench.session.scout import ScoutError, scout
from attnbench.version import __version__

_RIGHT_ON_HOPPER = Version("13.3")
"""The ptxas that no longer reuses registers which a product still reads (release notes of CUDA 13.3)."""


@dataclass(frozen=True)
class Finding:
    """One line of an examination; `ok` False is something to mend, None is for information."""

    name: str
    text: str
    ok: bool | None = None


def disturbance(measured: Iterable[Surroundings]) -> str:
    """Say in one line what would spoil numbers that are taken on these devices now, with advice; nothing where all is well."""
    uuids = {str(each.facts.get("gpu_uuid")).removeprefix("GPU-") for each in measured}
    bad = [f"{finding.name}: {finding.text}" for finding in [*host(), *gpu(uuids)] if finding.ok is False]
    return f"this machine is disturbed, and times will scatter: {'; '.join(bad)}. attnbench doctor says more" if bad else ""


def doctor(*, wait: bool = True, reporter: Reporter | None = None) -> list[Finding]:
    """Look at this machine, and keep its roof for `plan`."""
    told = reporter or Reporter()
    lane = Lane(wait, told.say, told.command or "attnbench doctor")
    return [*packages(), *host(), *gpu(), *device(lane)]


def packages() -> list[Finding]:
    """Versions, and packages that get in each other's way."""
    known = environment.gather()
    shown = ("python", "torch", "triton", "reformer-pytorch", "nvidia-ml-py", "system")
    found = [Finding("attnbench", __version__), *(Finding(name, str(known[name])) for name in shown)]
    if (double := environment.version("pynvml")) is not None:
        text = f"the package pynvml {double} is the deprecated double of nvidia-ml-py: pip uninstall pynvml"
        found.append(Finding("pynvml", text, ok=False))
    return [*found, Finding("methods", f"{len(registry.catalogue())} registered; attnbench methods lists them")]


def host() -> list[Finding]:
    """Describe the processor and what disturbs it."""
    known, counters = environment.gather(), HostCounters.read()
    now = facts(counters, HostCounters.read())
    load = float(now["load_1min"] or 0)
    cores = int(known["cores"] or 1)
    found = [
        Finding("processor", f"{known['processor']}, {cores} cores, {known['memory_gib']} GiB"),
        Finding("load", f"{load:.2f} over the last minute", ok=load <= cores / 2),
    ]
    if (governor := now["governor"]) is not None:
        found.append(Finding("governor", str(governor), ok=governor == "performance"))
    if (throttled := now["cgroup_throttled"]) is not None:
        found.append(Finding("cpu quota", f"throttled {throttled} times just now", ok=not throttled))
    return found


def gpu(uuids: Collection[str] | None = None) -> list[Finding]:
    """Return what NVML says of each GPU, or of those with these UUIDs (without `GPU-`); without a GPU a line that says so."""
    try:
        with nvml.session() as bound:
            count = bound.nvmlDeviceGetCount()
            found = [Finding("NVML", f"driver {bound.nvmlSystemGetDriverVersion()}, {count} device(s)", ok=True)]
            for i in range(count):
                handle = bound.nvmlDeviceGetHandleByIndex(i)
                if uuids is not None and bound.nvmlDeviceGetUUID(handle).removeprefix("GPU-") not in uuids:
                    continue
                # this process looks, and computes nothing
                now = nvml.device_state(bound, handle, present=False)
                flags = nvml.state_flags([now])
                state = f"SM {now['sm_clock_mhz']} MHz, {now['power_w']} W, {now['temperature_c']} C"
                text = f"{state}, {', '.join(flags) or 'not throttled'}"
                ok = not {"throttled", "shared"} & set(flags)
                found.append(Finding(str(bound.nvmlDeviceGetName(handle)), text, ok=ok))
            return found
    except nvml.NvmlUnavailableError as error:
        return [Finding("NVML", f"{error}; memory by NVML will be n/a")]


def old_assembler(facts: Facts) -> str:
    """Say why Triton's kernels may be wrong on this GPU, and what to do; empty where nothing is known against them."""
    known, capability = facts.get("ptxas"), str(facts.get("compute_capability") or "")
    if known is None or not capability.startswith("9.") or Version(str(known).removeprefix("V")) >= _RIGHT_ON_HOPPER:
        return ""
    return (
        f"Triton's assembler here is ptxas {known}, which compiles some products of kernels wrongly for Hopper GPUs; "
        f"take {_RIGHT_ON_HOPPER} or newer: pip install nvidia-cuda-nvcc, and give its bin/ptxas as TRITON_PTXAS_PATH "
        "and TRITON_PTXAS_BLACKWELL_PATH"
    )


def device(lane: Lane) -> list[Finding]:
    """Find the device that `auto` stands for, and measure its roof, kept for predictions. Raises LaneTakenError."""
    axes = Axes.model_validate({"N": 1, "dtype": ["float32", "bfloat16"]})
    suite = Suite(name="doctor", axes=axes, methods=(Method(name="softmax.sdpa"),))
    try:
        with LocalStation(lane=lane) as station:
            known = scout(suite, station).surroundings
    except ScoutError as error:
        return [Finding("device", str(error), ok=False)]
    name, free = known.facts.get("gpu") or known.device, units.bytes_(known.memory_bytes)
    found = [Finding("device", f"{name}, {free} free, {known.facts['threads']} threads", ok=True)]
    for ceiling, roof in known.roof.items():
        text = f"{roof.flops_per_second / 1e9:.0f} GFLOP/s product, {roof.bytes_per_second / 1e9:.0f} GB/s copy"
        found.append(Finding(f"roof {ceiling}", text))
    if words := old_assembler(known.facts):
        found.append(Finding("ptxas", words, ok=False))
    return found
