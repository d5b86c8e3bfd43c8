"""The time pass: adaptive samples of one cell, with the conditions they were taken under."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from attnbench.api import Tier
from attnbench.measure import devices, host_conditions, nvml, telemetry
from attnbench.measure.clock import Clock, ColdClock
from attnbench.measure.loop import MIN_SAMPLES, Loop, Timing
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Job
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Measured, Series
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.generate import Generation
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Setting

Facts = dict[str, Scalar | None]
_COMPILES = {Tier.COMPILED, Tier.TRITON, Tier.CUDA}


def measure_time(job: Job) -> Measured:
    """Raw seconds per call. Raises OverBudgetError, and whatever the method raises."""
    setting = prepare(job)
    clock = clock_of(job.cell)
    kernel = _FirstLook(setting)
    kernel.glance()
    loop = Loop(clock, job.limits.seconds, job.limits.first_call, compiles=setting.method.tier in _COMPILES)
    with watched(job.cell.device) as conditions:
        begin = time.perf_counter()
        timing = loop.run(kernel.call, job.warmup)
        seconds = time.perf_counter() - begin
    facts: Facts = {
        "clock": clock.label,
        "stop": timing.stop,
        "warmup_calls": timing.warmup_calls,
        "loop_seconds": seconds,
        "batch": timing.batch,
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **({} if job.B is None else {"B": job.B}),
        **(setting.facts if isinstance(setting, Generation) else {}),
        **kernel.facts,
        **conditions.facts,
    }
    if isinstance(clock, ColdClock):
        facts["cold_ratio"] = round(clock.cold_ratio, 3)
    flags = (*_few(timing), *clock.flags, *conditions.flags(timing.samples))
    return Measured(samples=_series(timing), facts=facts, flags=flags)


def clock_of(cell: Cell) -> Clock:
    """The clock that the cell asks for; by default the host's for whole sequences, which a host makes step by step."""
    mode = cell.clock
    if mode is ClockMode.DEFAULT and cell.workload in {Workload.DECODE_TOTAL, Workload.GENERATE}:
        mode = ClockMode.WALL
    return devices.clock(cell.device, mode.value)


def _series(timing: Timing) -> dict[str, Series]:
    return {
        "time": Series(unit="s", values=tuple(timing.samples)),
        "warmup": Series(unit="s", values=tuple(timing.warmup)),
        "first_call": Series(unit="s", values=(timing.first_call,)),
    }


def _few(timing: Timing) -> tuple[str, ...]:
    return ("few_samples",) if len(timing.samples) < MIN_SAMPLES else ()


@dataclass
class _FirstLook:
    """Lets the method note, during its very first call, which kernel it reached."""

    setting: Setting
    facts: Facts = field(default_factory=dict)
    _seen: bool = False

    def glance(self) -> None:
        """Of a sequence, one token is enough: to look at all of them costs more than they do."""
        if isinstance(self.setting, Sequence | Generation):
            with self.setting.method.observe() as noted:
                self.setting.first_token()
            self.facts.update(noted)
            self._seen = True

    def call(self) -> object:
        if self._seen:
            return self.setting.call()
        self._seen = True
        with self.setting.method.observe() as noted:
            result = self.setting.call()
        self.facts.update(noted)
        return result


@dataclass
class Conditions:
    """What was going on around a measurement."""

    facts: Facts = field(default_factory=dict)
    gpu_flags: tuple[str, ...] = ()

    def flags(self, samples: list[float]) -> tuple[str, ...]:
        """All warnings about these samples."""
        return tuple(dict.fromkeys((*host_conditions.flags(self.facts, samples), *self.gpu_flags)))


@contextmanager
def watched(device: str) -> Iterator[Conditions]:
    """Conditions before and after; never during, which would disturb. Complete once closed."""
    conditions = Conditions()
    before = host_conditions.HostCounters.read()
    states = [_gpu_state(device)]
    yield conditions
    states.append(_gpu_state(device))
    conditions.facts |= host_conditions.facts(before, host_conditions.HostCounters.read())
    for when, state in zip(("before", "after"), states, strict=True):
        conditions.facts |= {f"{name}_{when}": value for name, value in state.items()}
    conditions.gpu_flags = telemetry.flags(states)


def _gpu_state(device: str) -> telemetry.Facts:
    if not device.startswith("cuda"):
        return {}
    try:
        with nvml.session() as library:
            return telemetry.state(library, nvml.handle(library, str(torch.cuda.get_device_properties(device).uuid)))
    except nvml.NvmlUnavailableError as error:
        return {"nvml": str(error)}
