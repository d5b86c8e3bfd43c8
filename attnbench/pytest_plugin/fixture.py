"""The fixture's work: check and time one attention, and measure its memory, inside of one pytest-benchmark benchmark."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn, cast

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from attnbench import registry
from attnbench.api import Attention, Problem, Scalar
from attnbench.measure import devices
from attnbench.measure.clock import Call, Clock, WallClock
from attnbench.measure.loop import steady
from attnbench.measure.process_state import ProcessState
from attnbench.pytest_plugin.given import Built, named
from attnbench.pytest_plugin.session import Session, Timer, option
from attnbench.schema.cell import NEW_TOKENS, Allocator, Cell, Workload, draw_seed
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Outcome, Status
from attnbench.version import __version__
from attnbench.workloads.check import check, check_cells
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.describe import version, why_not
from attnbench.workloads.footprint import memory_of
from attnbench.workloads.holding import WrongError
from attnbench.workloads.prepare import prepare
from attnbench.workloads.proof import Proof, Witness
from attnbench.workloads.setting import Setting
from attnbench.workloads.timing import clock_of, input_sets, state_for, watched

_MAIN_COUNTER = {"cpu": "host_rss_peak", "cuda": "torch_allocated_peak"}


class AttentionBenchmark:
    """The fixture, which a test calls once, as `attention_benchmark("linear.chunked", N=1024, causal=True, chunk=64)`."""

    def __init__(self, benchmark: BenchmarkFixture, timer: Timer, item: pytest.Item, session: Session) -> None:
        self.benchmark, self.timer, self.item, self.session = benchmark, timer, item, session
        self.called = False

    def __call__(
        self,
        method: str | type[Attention] | Attention,
        *,
        workload: str = "forward",
        device: str = "auto",
        clock: str = "default",
        matmul_precision: str = "highest",
        new_tokens: int | None = None,
        **given: Scalar,
    ) -> object:
        """Time a method, given by its name, its class, or an object that is already built; return the result of one call.

        `given` are fields of the problem (B, H, N, D, M, kv_heads, dtype, causal, padding) and the method's own parameters;
        `new_tokens` those that the workload verify attends at once, 8 unless told.
        The test is skipped, in the method's own words, where the method refuses or lacks a package, and fails where the
        method is not equal to its own reference. Raises TypeError and ValueError for bad arguments, and whatever the method
        raises.
        """
        self.called = True
        shape = {name: value for name, value in given.items() if name in Problem.model_fields}
        params = {name: value for name, value in given.items() if name not in shape}
        if not isinstance(method, Attention):
            problem = Problem(**shape)
        elif given:
            raise TypeError(f"an attention that is already built has its problem and parameters: leave out {', '.join(given)}")
        else:
            problem = method.problem
        if new_tokens is not None and workload != Workload.VERIFY:
            raise ValueError(f"new_tokens={new_tokens}: only the workload verify has new tokens, not {workload}")
        verified = {"new_tokens": NEW_TOKENS if new_tokens is None else new_tokens} if workload == Workload.VERIFY else {}
        with named(method) as name:
            cell = Cell.model_validate(
                {
                    "method": name,
                    "problem": problem,
                    "workload": workload,
                    "params": params,
                    "device": devices.resolve(device),
                    # this process is running already, so it is too late to choose
                    "allocator": Allocator.SYSTEM,
                    "matmul_precision": matmul_precision,
                    "clock": clock,
                    **verified,
                }
            )
            _insist_on_what_can_be_timed(cell)
            try:
                if (refusal := _refusal(cell)) is not None:
                    self._leave_out(cell, *refusal)
                    pytest.skip(refusal[1])
                with as_it_was(cell.device):
                    for outcome in self._checks(cell):
                        if isinstance(outcome, Failed):
                            self._fail(cell, outcome.status, outcome.reason)
                    return self._measured(cell)
            except Exception as error:
                self.benchmark.has_error = True
                self._leave_out(cell, Status.ERROR, f"{type(error).__name__}: {error}")
                raise

    def _checks(self, cell: Cell) -> Iterator[Outcome]:
        """Check the method against its own reference, once a session for each kind of cell."""
        method = cast("type[Attention] | Built", registry.load(cell.method))
        if isinstance(method, Built):
            yield _checked(method.check_cell(cell))
            return
        # there is no such cell where no length is short enough to be checked
        for small in check_cells(method, cell):
            key = (method, small.key)
            if key not in self.session.checks:
                self.session.checks[key] = _checked(small)
            yield self.session.checks[key]

    def _fail(self, cell: Cell, status: Status, reason: str) -> NoReturn:
        self.benchmark.has_error = True
        self._leave_out(cell, status, reason)
        pytest.fail(f"{cell.label} is {status}: {reason}", pytrace=False)

    def _measured(self, cell: Cell) -> object:
        """Time the method and prove the time, then measure memory, which would disturb; or call once if timing is disabled."""
        job = Job(cell=cell, seed=draw_seed(0, cell, 0))
        clock, before, begin = clock_of(cell), state_for(cell), time.perf_counter()
        setting = prepare(job)
        self.benchmark.group = self.benchmark.group or _group(cell)
        self.benchmark.extra_info.update(
            status="ok",
            method=cell.method,
            params=cell.params,
            tier=setting.method.tier.value,
            source=version(cell.method, type(setting.method)),
            workload=cell.workload.value,
            shape=cell.problem.model_dump(mode="json"),
            device=cell.device,
            matmul_precision=cell.matmul_precision.value,
            allocator=cell.allocator.value,
            attnbench=__version__,
            **({"new_tokens": cell.new_tokens} if cell.workload is Workload.VERIFY else {}),
            **devices.facts(cell.device),
        )
        if not self.benchmark.enabled:
            return self.benchmark(setting.call)
        setting.add_sets(input_sets(setting, job))
        witness = Witness(setting)
        with watched(cell.device) as conditions:
            result, call = self._timed(setting, clock)
        over = time.perf_counter()
        try:
            if words := before.changed(ProcessState.read()):
                raise WrongError(words, Status.UNFAIR)
            if "late" in clock.flags:
                raise WrongError("the GPU went on computing after its call was over, on another stream", Status.UNFAIR)
            proof = Proof(setting, clock, call, witness, list(self._samples()), over - begin, over, job.seed + 1)
            proof.make()
        except WrongError as error:
            self._fail(cell, error.status, str(error))
        flags, read = (*clock.flags, *conditions.flags(self._samples())), memory_of(setting)
        # the device's main counter has a name of its own; it is None where that was not read
        main = _MAIN_COUNTER[cell.device_kind]
        self.benchmark.extra_info.update(
            proof.facts,
            peak_bytes=read.memory[main].bytes,
            peak_counter=main,
            memory={name: counter.model_dump(exclude_none=True) for name, counter in read.memory.items()},
            flags=(*flags, *read.flags),
            conditions=conditions.facts,
        )
        return result

    def _samples(self) -> list[float]:
        """Return the seconds of each round. Raises RuntimeError where they were read from another timer than ours."""
        taken = self.benchmark.stats
        if taken is None or taken.options["timer"] is not self.timer:
            raise RuntimeError("ask for attention_benchmark before benchmark, which has a timer that knows no device")
        samples: list[float] = taken.stats.data
        return samples

    def _timed(self, setting: Setting, clock: Clock) -> tuple[object, Call]:
        """Return the result of one call, and what was called."""
        self.timer.label = clock.label
        # the method notes in its first call which kernel it reached; one token of a sequence is enough for that
        look = setting.first_token if isinstance(setting, Sequence) else setting.call
        with setting.method.observe() as noted:
            look()
        self.benchmark.extra_info.update(noted, clock=clock.label)
        # pytest-benchmark chooses the number of its rounds by the first call that it sees, which must not be a slow one
        end, values = time.perf_counter() + self._max_time / 3, list[float]()
        while not steady(values) and time.perf_counter() < end:
            values.append(clock.sample(setting.call, 1))
        if not isinstance(clock, WallClock):
            return self._by_device(setting, clock)
        self.timer.wait = clock.synchronize
        return self.benchmark(setting.call), setting.call

    def _by_device(self, setting: Setting, clock: Clock) -> tuple[object, Call]:
        """Take one sample of the clock in each round, which sets the timer; as many rounds as fit into the time."""
        call = clock.prepare(setting.call)
        batch = max(1, math.ceil(clock.min_sample / max(clock.sample(call, 1), 1e-9)))
        self.timer.device_seconds = seconds = 0.0

        def sample() -> None:
            nonlocal seconds
            seconds += clock.sample(call, batch)
            self.timer.device_seconds = seconds

        begin = time.perf_counter()
        sample()
        rounds = math.ceil(self._max_time / (time.perf_counter() - begin))
        self.benchmark.pedantic(sample, rounds=max(rounds, int(option(self.item, "min_rounds"))))
        return call(), call

    @property
    def _max_time(self) -> float:
        return float(option(self.item, "max_time"))

    def _leave_out(self, cell: Cell, status: Status, reason: str) -> None:
        self.session.left_out.append(
            {"fullname": self.item.nodeid, "method": cell.label, "status": status.value, "reason": reason}
        )


@contextmanager
def as_it_was(device: str) -> Iterator[None]:
    """Restore what a workload sets for its whole process: gradients, matmul precision, random state, GPU and stream."""
    gradients, precision = torch.is_grad_enabled(), torch.get_float32_matmul_precision()
    gpu = torch.device(device) if device.startswith("cuda") else None
    # some clocks leave the default stream; with a stream its device is restored too
    here = nullcontext() if gpu is None else torch.cuda.stream(torch.cuda.current_stream(gpu))
    with torch.random.fork_rng(devices=[] if gpu is None else [gpu.index]), here:
        try:
            yield
        finally:
            torch.set_grad_enabled(gradients)
            torch.set_float32_matmul_precision(precision)


def _group(cell: Cell) -> str:
    """Return all but the method, as `forward causal float32 B=1 H=8 N=512 D=64 cpu`, so that a table compares methods."""
    p = cell.problem
    sizes = {"B": p.B, "H": p.H, "N": p.N, "D": p.D}
    sizes |= {"kv_heads": p.kv_heads} if p.kv_heads != p.H else {}
    sizes |= {"M": p.M} if p.M != p.D else {}
    padding = [f"padding={p.padding:g}"] if p.padding else []
    sizes |= {"new_tokens": cell.new_tokens} if cell.workload is Workload.VERIFY else {}
    shape = [f"{name}={size}" for name, size in sizes.items()]
    return " ".join([cell.workload, p.mask, p.dtype, *shape, *padding, cell.device])


def _insist_on_what_can_be_timed(cell: Cell) -> None:
    if cell.device_kind not in {"cpu", "cuda"}:
        raise ValueError(f"there is no clock for the device {cell.device!r}: cpu, cuda, cuda:1 or auto")
    if not cell.workload.is_timed:
        raise ValueError(f"{cell.workload.value} is not timed: attnbench run measures it")
    if cell.workload.has_model:
        raise ValueError(f"{cell.workload} needs a model around the attention: attnbench run has one")


def _refusal(cell: Cell) -> tuple[Status, str] | None:
    """Say why this cell cannot run here: no such device, a missing package, its workload, or the method's own reason."""
    try:
        devices.require(cell.device)
    except devices.NoDeviceError as error:
        return Status.UNSUPPORTED, f"{cell.label}: {error}"
    try:
        method = registry.load(cell.method)
    except registry.MissingPackageError as error:
        return Status.MISSING, str(error)
    if absent := registry.missing(method):
        return Status.MISSING, registry.pip_line(cell.method, absent)
    reason = why_not(cell) or next(filter(None, map(method.refusal, cell.calls)), None)
    return (Status.UNSUPPORTED, f"{cell.label}: {reason}") if reason else None


def _checked(small: Cell) -> Outcome:
    return check(Job(cell=small, phase=Pass.CHECK, seed=draw_seed(0, small, 0)))
