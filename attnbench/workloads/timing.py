"""The time pass: adaptive samples of one cell, with the conditions they were taken under."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch

from attnbench.api import Tier, io_bytes
from attnbench.measure import devices, energy, host_conditions, nvml, roof
from attnbench.measure.clock import Clock, GraphClock
from attnbench.measure.loop import MIN_SAMPLES, Loop, Timing
from attnbench.measure.process_state import ProcessState, busy_cores, children, still_at_work
from attnbench.schema.cell import Cell, ClockMode, Precision, Workload
from attnbench.schema.errand import SETS_SHARE, Job, Roof
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import ATTENTION_SHARE, ENERGY, FIRST_CALL, SELECTION_SHARE, Failed, Measured, Series, Status
from attnbench.schema.problem import DType
from attnbench.schema.units import bytes_, seconds
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.holding import WrongError
from attnbench.workloads.prepare import Generation, prepare
from attnbench.workloads.proof import SHARE, Proof, Witness
from attnbench.workloads.proof_in_model import prove_generation, prove_whole_model
from attnbench.workloads.selection import selection
from attnbench.workloads.setting import Backward, Modelled, Setting, unique
from attnbench.workloads.tracing import kernels
from attnbench.workloads.whole_model import WholeModel

_MOST_SETS = 4
_COMPILES = {Tier.COMPILED, Tier.TRITON, Tier.CUDA}
_BY_THE_HOST = {Workload.DECODE_TOTAL, Workload.GENERATE, *(each for each in Workload if each.has_whole_model)}
"""Whole sequences and whole models, which the host makes step by step."""
_MARGIN = 0.5
"""The share of the least time that is still believed, since the roof is itself a measurement."""


def measure_time(job: Job, mark: Callable[[], object] = int) -> Measured | Failed:
    """Measure raw seconds per call, with proof that they are the method's own; `mark` is called at both ends of sampling.

    Returns Failed, with the samples, where they are not. Raises OverBudgetError, and whatever the method raises.
    """
    begin = perf_counter()
    # before the method is imported, which then finds all timers bound
    clock, before, known = clock_of(job.cell), state_for(job.cell), children()
    setting = prepare(job)
    setting.add_sets(input_sets(setting, job))
    witness = None if isinstance(setting, Modelled) else Witness(setting)
    changed = ""

    def look(result: object) -> None:
        nonlocal changed
        # compared after every sample (5 µs), so that a change that is undone in time is seen too
        changed = changed or before.changed(ProcessState.read())
        if witness is not None:
            witness(result)

    kernel = _FirstLook(setting)
    loop = Loop(
        clock,
        job.limits.seconds,
        job.limits.first_call,
        compiles=setting.method.tier in _COMPILES,
        look=look,
        # the proof needs one more call
        reserve=witness is not None,
    )
    busy = busy_cores()
    with watched(job.cell.device) as conditions, energy.metered(job.cell.device) as probe:
        kernel.then, loop.mark = conditions.begin, probe.around(mark)
        loop_begin = perf_counter()
        timing = loop.run(kernel.call, job.warmup)
        loop_seconds = perf_counter() - loop_begin
    consumed = probe.energy(timing.sampling_seconds, timing.calls, timing.timed)
    facts: Facts = {
        **clock.facts,
        "stop": timing.stop,
        "warmup_calls": timing.warmup_calls,
        "loop_seconds": loop_seconds,
        "sampling_seconds": timing.sampling_seconds,
        "batch": timing.batch,
        "threads": before.threads,
        "deterministic": before.deterministic,
        **({} if job.B is None else {"B": job.B}),
        **setting.facts,
        **kernel.facts,
        **conditions.facts,
        **consumed.facts,
    }
    over = perf_counter()
    try:
        too_much = busy(before.threads) if job.cell.device_kind == "cpu" else ""
        if words := changed or before.changed(ProcessState.read()) or too_much or still_at_work(known):
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
        elif isinstance(setting, WholeModel):
            facts |= prove_whole_model(setting, over - begin)
    except WrongError as error:
        reason = f"{error}; its median of {seconds(statistics.median(timing.samples))} is not ranked"
        return Failed(status=error.status, reason=reason, samples=_series(timing), facts=facts)
    few = ("few_samples",) if len(timing.samples) < MIN_SAMPLES else ()
    flags = (*few, *clock.flags, *conditions.flags(timing.samples), *consumed.flags)
    share, about_choice = selection(setting, clock, statistics.median(timing.samples), limit=SHARE * (over - begin))
    besides = {
        ATTENTION_SHARE: ("1", setting.attention_share() if isinstance(setting, WholeModel) else None),
        SELECTION_SHARE: ("1", share),
        ENERGY: ("J", consumed.joules_per_call),
    }
    more = {name: Series(unit=unit, values=(value,)) for name, (unit, value) in besides.items() if value is not None}
    facts |= about_choice | (kernels(setting) if job.replicate == 0 else {})
    return Measured(samples=_series(timing) | more, facts=facts, flags=flags)


def input_sets(setting: Setting, job: Job) -> int:
    """Return how many sets of inputs calls take in turns: as many as a small share of memory holds; 1 for a kept graph."""
    # a call that decodes a whole sequence takes many different tokens already
    if job.cell.clock.replays or isinstance(setting, Modelled | Backward | Sequence):
        return 1
    memory = job.limits.memory_bytes or devices.free_bytes(job.cell.device)
    size = sum(x.numel() * x.element_size() for x in unique(setting.inputs))
    return min(_MOST_SETS, 1 + int(SETS_SHARE * memory) // max(1, size))


def clock_of(cell: Cell) -> Clock:
    """Return the clock that the cell asks for; by default the host's for whole sequences, which the host makes step by step."""
    mode = cell.clock
    if mode is ClockMode.DEFAULT and cell.workload in _BY_THE_HOST:
        mode = ClockMode.WALL
    clock = devices.clock(cell.device, mode.value)
    if isinstance(clock, GraphClock) and cell.workload.decodes:
        # a step may sum up in place: a graph of several would add its token as often, and give no right output
        clock.most_unrolled = 1
    return clock


def state_for(cell: Cell) -> ProcessState:
    """Return the state that this process must have while the cell is measured: the present one, with what the cell states."""
    return replace(ProcessState.read(), gradients=cell.workload.learns, matmul_precision=cell.matmul_precision.value)


def refuse_impossible(job: Job, samples: list[float]) -> None:
    """Raise WrongError where the median is below half of the time that the least products and the least traffic take.

    The FLOPs are the larger of those that the method states and those that torch counted in its check, the bytes those of
    inputs and output; both at the speed of the fastest product and the fastest copy, in cache or not. These speeds are measured
    again before anything is refused.
    """
    limits, median, cell = job.limits, statistics.median(samples), job.cell
    moved = io_bytes(job.sized.problem, cell.call.workload)
    if cell.workload is Workload.BACKWARD:
        moved -= io_bytes(job.sized.problem, Workload.FORWARD)
    if cell.workload.has_model or limits.roof is None or median >= _MARGIN * limits.roof.fastest(limits.flops, moved):
        return
    names = [cell.ceiling]
    if cell.problem.dtype.bytes == 2:
        # a CPU may be faster in float32 than in half precision
        names += [DType.FLOAT32.value, f"{DType.FLOAT32.value}, matmul {Precision.HIGH.value}"]
    again = [Roof(**dict(zip(Roof.model_fields, roof.measure(cell.device, name), strict=True))) for name in names]
    least = min(each.fastest(limits.flops, moved) for each in (limits.roof, *again))
    if median < _MARGIN * least:
        words = f"{limits.flops / 1e9:.3g} GFLOP and {bytes_(moved)} take {seconds(least)} at least"
        raise WrongError(words, Status.IMPOSSIBLE)


def _series(timing: Timing) -> dict[str, Series]:
    return {
        "time": Series(unit="s", values=tuple(timing.samples)),
        "warmup": Series(unit="s", values=tuple(timing.warmup)),
        FIRST_CALL: Series(unit="s", values=(timing.first_call,)),
    }


@dataclass
class _FirstLook:
    """Lets the method record, during its very first call, which kernel it reached; `then` is called once that is over."""

    setting: Setting
    facts: Facts = field(default_factory=dict)
    then: Callable[[], object] = int
    _seen: bool = False

    def __post_init__(self) -> None:
        # one token of a sequence beforehand: observing all of them would cost more than the calls
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
        self.then()
        return result


@dataclass
class Conditions:
    """The conditions around a measurement."""

    before: host_conditions.HostCounters
    facts: Facts = field(default_factory=dict)
    gpu_flags: tuple[str, ...] = ()

    def begin(self) -> None:
        """Count from now on: processes that compiled for the first call took nothing from the others."""
        self.before = host_conditions.HostCounters.read()

    def flags(self, samples: list[float]) -> tuple[str, ...]:
        """Return all warnings about these samples."""
        return tuple(dict.fromkeys((*host_conditions.flags(self.facts, samples), *self.gpu_flags)))


@contextmanager
def watched(device: str) -> Iterator[Conditions]:
    """Read the conditions before and after, but not during, which would disturb. They are complete once this is closed."""
    conditions = Conditions(host_conditions.HostCounters.read())
    states = [_gpu_state(device)]
    yield conditions
    states.append(_gpu_state(device))
    conditions.facts |= host_conditions.facts(conditions.before, host_conditions.HostCounters.read())
    for when, state in zip(("before", "after"), states, strict=True):
        conditions.facts |= {f"{name}_{when}": value for name, value in state.items()}
    conditions.gpu_flags = nvml.state_flags(states)


def _gpu_state(device: str) -> Facts:
    if not device.startswith("cuda"):
        return {}
    try:
        with nvml.session() as library:
            return nvml.device_state(library, nvml.handle(library, str(torch.cuda.get_device_properties(device).uuid)))
    except nvml.NvmlUnavailableError as error:
        return {"nvml": str(error)}
