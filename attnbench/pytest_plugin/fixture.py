"""What the fixture does: check, time and weigh one attention inside one of pytest-benchmark's benchmarks."""

import math
import time
from collections.abc import Iterator
from typing import NoReturn, cast

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from attnbench import registry
from attnbench.api import Attention, Problem, Scalar
from attnbench.measure import devices
from attnbench.measure.clock import Call, Clock, WallClock
from attnbench.measure.process_state import ProcessState
from attnbench.pytest_plugin.facts import facts, group, memory_facts, weigh
from attnbench.pytest_plugin.given import Built, named
from attnbench.pytest_plugin.marks import option
from attnbench.pytest_plugin.session import Session
from attnbench.pytest_plugin.timer import Timer
from attnbench.pytest_plugin.torch_state import as_it_was
from attnbench.pytest_plugin.warm_up import first_look, warm_up
from attnbench.schema.cell import Allocator, Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Outcome, Status
from attnbench.schema.seeds import draw_seed
from attnbench.workloads.check import check, check_cells
from attnbench.workloads.holding import WrongError
from attnbench.workloads.prepare import prepare
from attnbench.workloads.proof import Proof
from attnbench.workloads.setting import Setting
from attnbench.workloads.timing import clock_of, input_sets, state_for, watched
from attnbench.workloads.witness import Witness


class AttentionBenchmark:
    """Called once in a test: `attention_benchmark("linear.chunked", N=1024, causal=True, chunk=64)`."""

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
        **given: Scalar,
    ) -> object:
        """Time a method, as its name, its class, or an object that is already built; gives what one call of it gives.

        `given` are fields of the problem (B, H, N, D, M, kv_heads, dtype, causal, padding) and the method's own parameters.
        Skips, in the method's own words, what it refuses or lacks a package for; fails where it is not its own reference.
        Raises TypeError and ValueError on what cannot be meant, and whatever the method raises.
        """
        self.called = True
        problem, params = _problem_and_params(method, given)
        with named(method) as name:
            cell = Cell.model_validate(
                {
                    "method": name,
                    "problem": problem,
                    "workload": workload,
                    "params": params,
                    "device": devices.resolve(device),
                    # as this process has it: too late to choose
                    "allocator": Allocator.SYSTEM,
                    "matmul_precision": matmul_precision,
                    "clock": clock,
                }
            )
            _insist_on_what_can_be_timed(cell)
            return self._whatever_comes(cell)

    def _whatever_comes(self, cell: Cell) -> object:
        """Its result; an exception of the method is told, and goes on."""
        try:
            self._refuse(cell)
            with as_it_was(cell.device):
                self._check(cell)
                return self._measured(cell)
        except Exception as error:
            self.benchmark.has_error = True
            self._leave_out(cell, Status.ERROR, f"{type(error).__name__}: {error}")
            raise

    def _refuse(self, cell: Cell) -> None:
        if (refusal := _refusal(cell)) is not None:
            self._leave_out(cell, *refusal)
            pytest.skip(refusal[1])

    def _check(self, cell: Cell) -> None:
        """Against its own reference, once a session for each kind of cell."""
        for outcome in self._outcomes(cell):
            if isinstance(outcome, Failed):
                self._fail(cell, outcome.status, outcome.reason)

    def _outcomes(self, cell: Cell) -> Iterator[Outcome]:
        method = cast("type[Attention] | Built", registry.load(cell.method))
        if isinstance(method, Built):
            yield _checked(method.check_cell(cell))
            return
        # none where no length is short enough to be checked
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
        """Time with its proof, then memory: weighing would disturb. Where benchmarks are disabled, one call."""
        job = Job(cell=cell, seed=draw_seed(0, cell, 0))
        clock, before, begin = clock_of(cell), state_for(cell), time.perf_counter()
        setting = prepare(job)
        self.benchmark.group = self.benchmark.group or group(cell)
        self.benchmark.extra_info.update(facts(setting))
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
            proof = Proof(setting, clock, call, witness, list(self._samples()), over - begin, over, job.seed + 1)
            proof.make()
        except WrongError as error:
            self._fail(cell, error.status, str(error))
        self.benchmark.extra_info.update(proof.facts)
        flags = (*clock.flags, *conditions.flags(self._samples()))
        readings = weigh(setting)
        flags += tuple(r.flag for r in readings.values() if r.flag)
        self.benchmark.extra_info.update(memory_facts(cell, readings), flags=flags, conditions=conditions.facts)
        return result

    def _samples(self) -> list[float]:
        """The seconds of each round. Raises RuntimeError where they were read from another timer than ours."""
        taken = self.benchmark.stats
        if taken is None or taken.options["timer"] is not self.timer:
            raise RuntimeError("ask for attention_benchmark before benchmark, which has a timer that knows no device")
        samples: list[float] = taken.stats.data
        return samples

    def _timed(self, setting: Setting, clock: Clock) -> tuple[object, Call]:
        """What one call gave, and what was called."""
        self.timer.label = clock.label
        self.benchmark.extra_info.update(first_look(setting), clock=clock.label)
        warm_up(setting.call, clock, self._max_time / 3)
        if not isinstance(clock, WallClock):
            return self._by_device(setting, clock)
        self.timer.wait = clock.synchronize
        return self.benchmark(setting.call), setting.call

    def _by_device(self, setting: Setting, clock: Clock) -> tuple[object, Call]:
        """A round is one sample of the clock, whose seconds drive the timer; as many as fit into the time on the host."""
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


def _problem_and_params(
    method: str | type[Attention] | Attention, given: dict[str, Scalar]
) -> tuple[Problem, dict[str, Scalar]]:
    if isinstance(method, Attention):
        if given:
            raise TypeError(f"an attention that is already built has its problem and parameters: leave out {', '.join(given)}")
        return method.problem, {}
    shape = {name: value for name, value in given.items() if name in Problem.model_fields}
    return Problem(**shape), {name: value for name, value in given.items() if name not in shape}


def _insist_on_what_can_be_timed(cell: Cell) -> None:
    if cell.device_kind not in {"cpu", "cuda"}:
        raise ValueError(f"there is no clock for the device {cell.device!r}: cpu, cuda, cuda:1 or auto")
    if not cell.workload.is_timed:
        raise ValueError(f"{cell.workload.value} is not timed: attnbench run measures it")
    if cell.workload.has_model:
        raise ValueError(f"{cell.workload} needs a model around the attention: attnbench run has one")


def _refusal(cell: Cell) -> tuple[Status, str] | None:
    """Why this cell is not for here: no such device, a package that is missing, or the method's own reason."""
    if cell.device_kind == "cuda" and not torch.cuda.is_available():
        return Status.UNSUPPORTED, f"{cell.label}: there is no CUDA device here"
    try:
        method = registry.load(cell.method)
    except registry.MissingPackageError as error:
        return Status.MISSING, str(error)
    if absent := registry.missing(method):
        return Status.MISSING, registry.pip_line(cell.method, absent)
    reason = method.refusal(cell)
    return (Status.UNSUPPORTED, f"{cell.label}: {reason}") if reason else None


def _checked(small: Cell) -> Outcome:
    return check(Job(cell=small, phase=Pass.CHECK, seed=draw_seed(0, small, 0)))
