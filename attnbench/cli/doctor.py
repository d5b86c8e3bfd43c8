"""`attnbench doctor`: whether this machine can be measured on, and what would spoil the numbers."""

from dataclasses import dataclass
from typing import Any

from attnbench import registry
from attnbench.cli.collect import lane_of_command
from attnbench.executors.scout import Scouted, ScoutError, scout
from attnbench.measure import environment, nvml, telemetry
from attnbench.measure.host_conditions import HostCounters, facts
from attnbench.schema import units
from attnbench.schema.errand import Roof
from attnbench.schema.suite import Axes, Method, Suite
from attnbench.version import __version__
from attnbench.worker.isolate import Isolation


@dataclass(frozen=True)
class Finding:
    """One line of the examination; `ok` False is something to mend, None is for information."""

    name: str
    text: str
    ok: bool | None = None

    def line(self) -> str:
        """As printed."""
        mark = {True: "ok  ", False: "BAD ", None: "    "}[self.ok]
        return f"{mark} {self.name:<18} {self.text}"


def examine(*, wait: bool = True) -> None:
    """Print every finding, and keep the roof for `attnbench plan`."""
    for finding in [*packages(), *host(), *gpu(), *device(wait=wait)]:
        print(finding.line())


def disturbance() -> str:
    """One line on what would spoil numbers that are taken now, with advice; empty where nothing is known to."""
    bad = [f"{finding.name}: {finding.text}" for finding in [*host(), *gpu()] if finding.ok is False]
    return f"this machine is disturbed, and times will scatter: {'; '.join(bad)}. attnbench doctor says more" if bad else ""


def packages() -> list[Finding]:
    """Versions, and packages that get in each other's way."""
    known = environment.gather()
    found = [Finding("attnbench", __version__)]
    shown = ("python", "torch", "triton", "reformer-pytorch", "nvidia-ml-py", "system")
    found += [Finding(name, str(known[name])) for name in shown]
    if (double := environment.version("pynvml")) is not None:
        text = f"the package pynvml {double} is the deprecated double of nvidia-ml-py: pip uninstall pynvml"
        found.append(Finding("pynvml", text, ok=False))
    return [*found, Finding("methods", f"{len(registry.catalogue())} registered; attnbench methods lists them")]


def host() -> list[Finding]:
    """The processor and what disturbs it."""
    known, counters = environment.gather(), HostCounters.read()
    now = facts(counters, HostCounters.read())
    load = float(now["load_1min"] or 0)
    cores = int(known["cores"] or 1)
    found = [
        Finding("processor", f"{known['processor']}, {cores} cores, {known['memory_gib']} GiB"),
        Finding("load", f"{load:.2f} over the last minute", ok=load <= cores / 2),
    ]
    if now["governor"] is not None:
        governor = str(now["governor"])
        found.append(Finding("governor", governor, ok=governor == "performance"))
    if (throttled := now["cgroup_throttled"]) is not None:
        found.append(Finding("cpu quota", f"throttled {throttled} times just now", ok=not throttled))
    return found


def gpu(library: Any = None) -> list[Finding]:  # noqa: ANN401 - NVML has no types
    """NVML's view; without a GPU one line that says so."""
    try:
        with nvml.session(library) as bound:
            count = bound.nvmlDeviceGetCount()
            found = [Finding("NVML", f"driver {bound.nvmlSystemGetDriverVersion()}, {count} device(s)", ok=True)]
            for i in range(count):
                found += _one_gpu(bound, bound.nvmlDeviceGetHandleByIndex(i))
            return found
    except nvml.NvmlUnavailableError as error:
        return [Finding("NVML", f"{error}; memory by NVML will be n/a")]


def _one_gpu(bound: Any, handle: Any) -> list[Finding]:  # noqa: ANN401
    # this process looks, and computes nothing
    now = telemetry.state(bound, handle, present=False)
    flags = telemetry.flags([now])
    name = bound.nvmlDeviceGetName(handle)
    text = f"SM {now['sm_clock_mhz']} MHz, {now['power_w']} W, {now['temperature_c']} C, {', '.join(flags) or 'not throttled'}"
    return [Finding(str(name), text, ok=not {"throttled", "shared"} & set(flags))]


def device(*, wait: bool = True) -> list[Finding]:
    """The device that `auto` comes to, and its roof, measured now."""
    axes = Axes.model_validate({"N": 1, "dtype": ["float32", "bfloat16"]})
    suite = Suite(name="doctor", axes=axes, methods=(Method(name="softmax.sdpa"),))
    try:
        with Isolation() as worker:
            scouted = scout(suite, worker, lane=lane_of_command(wait=wait))
    except ScoutError as error:
        return [Finding("device", str(error), ok=False)]
    return [Finding("device", _words(scouted), ok=True), *_roof(scouted)]


def _words(scouted: Scouted) -> str:
    known = scouted.surroundings
    name, free = known.facts.get("gpu") or known.device, units.bytes_(known.memory_bytes)
    return f"{name}, {free} free, {known.facts['threads']} threads"


def _roof(scouted: Scouted) -> list[Finding]:
    def words(roof: Roof) -> str:
        return f"{roof.flops_per_second / 1e9:.0f} GFLOP/s product, {roof.bytes_per_second / 1e9:.0f} GB/s copy"

    return [Finding(f"roof {name}", words(roof)) for name, roof in scouted.surroundings.roof.items()]
