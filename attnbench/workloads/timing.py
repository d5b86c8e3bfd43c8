"""The time pass: adaptive samples of one cell, with the conditions they were taken under."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch

from attnbench.api import Tier
from attnbench.measure import devices, host_conditions, nvml, telemetry
from attnbench.measure.clock import Clock, ColdClock
from attnbench.measure.loop import MIN_SAMPLES, Loop, Timing
from attnbench.measure.process_state import ProcessState, Vigil, Work, still_at_work
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import SETS_SHARE, Job
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.units import seconds
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.generate import Generation
from attnbench.workloads.holding import WrongError
from attnbench.workloads.impossible import refuse_impossible
from attnbench.workloads.modelled import Modelled
from attnbench.workloads.prepare import prepare
from attnbench.workloads.proof import Proof
from attnbench.workloads.proof_in_model import prove_generation
from attnbench.workloads.setting import Setting, unique
from attnbench.workloads.witness import Witness

Facts = dict[str, Scalar | None]
_MOST_SETS = 4
_COMPILES = {Tier.COMPILED, Tier.TRITON, Tier.CUDA}


def measure_time(job: Job, mark: Callable[[], object] = int) -> Measured | Failed:
    """Raw seconds per call, with proof that they are the method's own; `mark` is called where sampling begins and ends.

    Failed, with the samples, where they are not. Raises OverBudgetError, and whatever the method raises.
    """
    begin = perf_counter()
    # before the method is imported, so that it finds all timers bound
    clock, before = clock_of(job.cell), state_for(job.cell)
    setting = prepare(job)
    setting.add_sets(input_sets(setting, job))
    witness, vigil = None if isinstance(setting, Modelled) else Witness(setting), Vigil(before)

    def look(result: object) -> None:
        vigil.look()
        if witness is not None:
            witness(result)

    kernel = _FirstLook(setting)
    kernel.glance()
    loop = Loop(
        clock,
        job.limits.seconds,
        job.limits.first_call,
        compiles=setting.method.tier in _COMPILES,
        look=look,
        mark=mark,
        # for the proof
        reserve=witness is not None,
    )
    work = Work.begin()
    with watched(job.cell.device) as conditions:
        loop_begin = perf_counter()
        timing = loop.run(kernel.call, job.warmup)
        loop_seconds = perf_counter() - loop_begin
    facts: Facts = {
        "clock": clock.label,
        "stop": timing.stop,
        "warmup_calls": timing.warmup_calls,
        "loop_seconds": loop_seconds,
        "sampling_seconds": timing.sampling_seconds,
        "batch": timing.batch,
        "threads": before.threads,
        "deterministic": before.deterministic,
        **({} if job.B is None else {"B": job.B}),
        **(setting.facts if isinstance(setting, Generation) else {}),
        **kernel.facts,
        **conditions.facts,
    }
    if isinstance(clock, ColdClock):
        facts["cold_ratio"] = round(clock.cold_ratio, 3)
    over = perf_counter()
    try:
        if words := vigil.look() or (job.cell.device_kind == "cpu" and work.too_much(before.threads)):
            raise WrongError(words, Status.UNFAIR)
        if words := still_at_work():
            raise WrongError(words, Status.UNFAIR)
        if "late" in clock.flags:
            raise WrongError("the GPU went on computing after its call was over, on another stream", Status.UNFAIR)
        refuse_impossible(job, timing.samples)
        if witness is not None and loop.prepared is not None:
            proof = Proof(setting, clock, loop.prepared, witness, timing.samples, over - begin, over, job.seed + 1)
            proof.make()
            facts |= proof.facts
        elif isinstance(setting, Generation):
            facts |= prove_generation(setting, over - begin)
    except WrongError as error:
        reason = f"{error}; its median of {seconds(statistics.median(timing.samples))} is not ranked"
        return Failed(status=error.status, reason=reason, samples=_series(timing), facts=facts)
    flags = (*_few(timing), *clock.flags, *conditions.flags(timing.samples))
    return Measured(samples=_series(timing), facts=facts, flags=flags)


def input_sets(setting: Setting, job: Job) -> int:
    """How many sets of inputs calls take in turns: as many as a small share of memory holds; a graph is captured with one."""
    if job.cell.clock is ClockMode.GRAPH or isinstance(setting, Modelled):
        return 1
    memory = job.limits.memory_bytes or devices.free_bytes(job.cell.device)
    size = sum(x.numel() * x.element_size() for x in unique(list(setting.inputs)))
    return min(_MOST_SETS, 1 + int(SETS_SHARE * memory) // max(1, size))


def clock_of(cell: Cell) -> Clock:
    """The clock that the cell asks for; by default the host's for whole sequences, which a host makes step by step."""
    mode = cell.clock
    if mode is ClockMode.DEFAULT and cell.workload in {Workload.DECODE_TOTAL, Workload.GENERATE}:
        mode = ClockMode.WALL
    return devices.clock(cell.device, mode.value)


def state_for(cell: Cell) -> ProcessState:
    """What this process is to be like while the cell is measured: as it is now, with what the cell states."""
    learns = cell.workload in {Workload.FORWARD_BACKWARD, Workload.TRAIN}
    return replace(ProcessState.read(), gradients=learns, matmul_precision=cell.matmul_precision.value)


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
