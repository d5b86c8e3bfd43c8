"""One call of the fixture: what it takes, gives, refuses and leaves behind; what is a round, and what is checked."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.utils import NameWrapper
from torch import Tensor

from attnbench import Problem, build, registry
from attnbench.api import Attention, Cost, Scalar, Workload
from attnbench.measure.clock import drop
from attnbench.pytest_plugin.fixture import AttentionBenchmark
from attnbench.pytest_plugin.session import SESSION, Session, Timer
from attnbench.schema.cell import Cell
from attnbench.workloads.check import check

Call = Callable[..., Any]
Make = Callable[[], AttentionBenchmark]
QUICK = pytest.mark.benchmark(max_time=0.02, min_rounds=3)
SMALL: dict[str, Any] = {"N": 128, "H": 2, "D": 16, "device": "cpu"}


@pytest.fixture
def session(request: pytest.FixtureRequest, plugins: Path) -> Iterator[Session]:
    """A session that remembers nothing yet, and the fixture attentions."""
    stash = request.config.stash
    before, stash[SESSION] = stash[SESSION], Session()
    yield stash[SESSION]
    stash[SESSION] = before


@pytest.fixture
def call(session: Session, attention_benchmark: AttentionBenchmark) -> Call:
    """The fixture, called on a small problem."""

    def _call(method: Any, **given: Any) -> Any:
        small = {"device": "cpu"} if isinstance(method, Attention) else SMALL
        return attention_benchmark(method, **{**small, **given})

    return _call


@pytest.fixture
def enabled(session: Session, request: pytest.FixtureRequest) -> Make:
    """Makes the fixture anew for each call, where benchmarks are enabled; a test marks itself as QUICK."""
    ours = request.config._benchmarksession  # type: ignore[attr-defined]

    def _make() -> AttentionBenchmark:
        timer = Timer(time.perf_counter)
        options = {**ours.options, "timer": NameWrapper(timer), "max_time": 0.02, "min_rounds": 3, "disabled": False}
        benchmark = BenchmarkFixture(request.node, add_stats=[].append, logger=ours.logger, warner=request.node.warn, **options)
        return AttentionBenchmark(benchmark, timer, request.node, session)

    return _make


class Mine(Attention):
    """A class that no entry point names: each value times a weight of its own position."""

    paper = "a fixture of the tests"

    def __init__(self, problem: Problem, factor: float = 1.0) -> None:
        super().__init__(problem)
        self.weights = torch.nn.Parameter(torch.full((problem.N,), factor))

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "it is not causal" if cell.problem.causal else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weights[:, None] * v + 0 * (q.sum() + k.sum())

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("n,bhnm->bhnm", self.weights, v) + 0 * (q.sum() + k.sum())


class Wrong(Mine):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v) * 1.01


BACKWARD, VERIFY = {"workload": "forward_backward", "M": 8}, {"workload": "verify", "causal": True}
OURS = build("linear.chunked", Problem(N=96, H=2, D=8, causal=True), chunk=32)
LONG = build("softmax.sdpa", Problem(N=16384, H=1, D=1, causal=True))


@pytest.mark.parametrize(
    ("method", "given", "shapes"),
    [
        pytest.param("plain:Plain", {"M": 8}, [(1, 2, 128, 8)], id="output"),
        pytest.param("plain:Plain", BACKWARD, [(1, 2, 128, width) for width in (8, 16, 16, 8)], id="output and gradients"),
        pytest.param("tokens:Cached", {"workload": "decode", "causal": True}, [(1, 2, 1, 16)], id="one token more"),
        pytest.param("tokens:Cached", VERIFY, [(1, 2, 8, 16)], id="eight tokens more"),
        pytest.param("tokens:Cached", {**VERIFY, "new_tokens": 4}, [(1, 2, 4, 16)], id="four tokens more"),
        # no entry point and no name in a module lead to it
        pytest.param(type("Local", (Mine,), {}), {}, [(1, 2, 128, 16)], id="class made anywhere"),
        pytest.param(OURS, {}, [(1, 2, 96, 8)], id="object of ours"),
        # too long to check, but for what defines its rows
        pytest.param(LONG, {}, [(1, 1, 16384, 1)], id="long object of ours"),
    ],
)
def test_it_gives_what_a_call_gives(call: Call, method: Any, given: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    found = call(method, **given)
    assert [tuple(x.shape) for x in (found if isinstance(found, tuple) else (found,))] == shapes


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [("plain:WithParameter", {"chunk": 7}, "plain:WithParameter"), (Mine, {"factor": 2.0}, f"{__name__}.Mine")],
)
def test_parameters_reach_the_method_which_may_be_a_class(
    call: Call, attention_benchmark: AttentionBenchmark, method: Any, params: dict[str, Any], name: str
) -> None:
    call(method, **params)
    info = attention_benchmark.benchmark.extra_info
    assert (info["method"], info["params"]) == (name, params)
    assert not any("Mine" in known for known in registry.catalogue())


@pytest.mark.parametrize(
    ("method", "given", "error", "words"),
    [
        ("plain:Plain", {"workload": "fidelity"}, ValueError, "fidelity is not timed"),
        ("plain:Plain", {"workload": "train"}, ValueError, "train needs a model around the attention"),
        ("plain:Plain", {"workload": "generate"}, ValueError, "generate needs a model around the attention"),
        ("plain:Plain", {"device": "mps"}, ValueError, "no clock for the device 'mps'"),
        ("plain:Plain", {"new_tokens": 4}, ValueError, "only the workload verify has new tokens, not forward"),
        ("tokens:Cached", {"workload": "verify", "new_tokens": 0}, ValueError, "greater than or equal to 1"),
        ("plain:Plain", {"N": 0}, ValueError, "greater than or equal to 1"),
        ("plain:Plain", {"workload": "sideways"}, ValueError, "Input should be 'forward'"),
        ("softmax.spda", {}, registry.UnknownMethodError, r"did you mean 'softmax\.sdpa'"),
        (dict, {}, registry.UnknownMethodError, r"builtins\.dict is not an attention"),
        (Mine(Problem(N=48)), {"N": 64, "factor": 2.0}, TypeError, "leave out N, factor"),
        # before it is tried
        (Mine(Problem(N=16384, H=1, D=1)), {}, ValueError, "N=16384 is too long to check"),
    ],
)
def test_nonsense_is_an_error(call: Call, method: Any, given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(method, **given)


def test_a_method_that_cannot_run_here_is_skipped_with_the_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for built, says in ((False, "is built without CUDA"), (True, "finds only cuda:0")):
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda built=built: built)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(pytest.skip.Exception, match=f"plain:Plain: torch .* {says}"):
            call("plain:Plain", device="cuda:1")
    with pytest.raises(pytest.skip.Exception, match="Mine: it is not causal"):
        call(Mine, causal=True)
    with pytest.raises(pytest.skip.Exception, match="a CPU has no 'cold' clock; use wall"):
        call("plain:Plain", clock="cold")
    with pytest.raises(pytest.skip.Exception, match="8 new tokens leave none before them"):
        call("tokens:Cached", workload="verify", N=4, causal=True)


@pytest.mark.parametrize(
    ("method", "given", "error", "words", "status"),
    [
        ("plain:WithParameter", {"chnk": 7}, TypeError, "chnk", "error"),
        (Wrong, {}, pytest.fail.Exception, r"Wrong is incorrect: .* off by", "incorrect"),
        (Wrong(Problem(N=48, H=2, D=4)), {}, pytest.fail.Exception, r"Wrong is incorrect: .* off by .* at N=48", "incorrect"),
    ],
    ids=["a parameter that it lacks", "a class", "an object"],
)
def test_what_fails_or_is_not_its_own_reference_is_left_out(
    call: Call, session: Session, method: Any, given: dict[str, Any], error: type[BaseException], words: str, status: str
) -> None:
    with pytest.raises(error, match=words):
        call(method, **given)
    assert [one["status"] for one in session.left_out] == [status]


@pytest.mark.parametrize("method", ["plain:Plain", "faulty:Raises"])
def test_torch_is_left_as_it_was(call: Call, method: str) -> None:
    torch.set_float32_matmul_precision("medium")
    torch.manual_seed(12345)
    before = torch.get_rng_state()
    try:
        with pytest.raises(ValueError, match="out of order") if method == "faulty:Raises" else nullcontext():
            call(method)
        assert torch.is_grad_enabled()
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_an_object_is_timed_with_its_own_problem_and_the_weights_that_it_has(call: Call) -> None:
    mine = Mine(Problem(N=48, H=2, D=4, dtype="float64"), factor=3.0)
    torch.nn.init.zeros_(mine.weights)
    output, *gradients = call(mine, workload="forward_backward")
    assert torch.equal(output, torch.zeros(1, 2, 48, 4, dtype=torch.float64))
    assert gradients[1].shape == (1, 2, 48, 4)
    # a copy was: this one has neither gradients nor another dtype
    assert mine.weights.grad is None
    assert mine.weights.dtype is torch.float32
    mine.compile()
    with pytest.raises(ValueError, match=r"give its name, with \+compile"):
        call(mine)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "forward non-causal float32 B=1 H=2 N=128 D=16 cpu"),
        ({"kv_heads": 1, "M": 8, "causal": True}, "forward causal float32 B=1 H=2 N=128 D=16 kv_heads=1 M=8 cpu"),
        ({"workload": "forward_backward", "dtype": "float64"}, "forward_backward non-causal float64 B=1 H=2 N=128 D=16 cpu"),
        ({"padding": 0.5, "B": 4}, "forward non-causal float32 B=4 H=2 N=128 D=16 padding=0.5 cpu"),
    ],
)
def test_a_group_says_all_but_the_method(
    call: Call, attention_benchmark: AttentionBenchmark, given: dict[str, Any], words: str
) -> None:
    call("softmax.sdpa", **given)
    assert attention_benchmark.benchmark.group == words


# clocks and checks


@QUICK
def test_each_kind_of_cell_is_checked_once_a_session(enabled: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def spy(job: Any) -> Any:
        checked.append(f"{job.cell.label} {job.cell.problem.dtype.value} {job.cell.problem.causal}")
        return check(job)

    monkeypatch.setattr("attnbench.pytest_plugin.fixture.check", spy)
    for given in ({}, {"N": 192}, {"dtype": "float64"}, {"causal": True}, {"chunk": 8}, {}):
        enabled()("plain:WithParameter", **{**SMALL, **given})
    # on a short sequence and on a long one
    assert checked[::2] == checked[1::2]
    assert checked[::2] == [
        "plain:WithParameter float32 False",
        "plain:WithParameter float64 False",
        "plain:WithParameter float32 True",
        "plain:WithParameter(chunk=8) float32 False",
    ]


@QUICK
def test_a_class_of_the_same_name_is_checked_anew(enabled: Make) -> None:
    right, wrong = (type("Same", (base,), {}) for base in (Mine, Wrong))
    enabled()(right, **SMALL)
    with pytest.raises(pytest.fail.Exception, match="incorrect"):
        enabled()(wrong, **SMALL)


@QUICK
@pytest.mark.parametrize(("min_sample", "batch"), [(0.0, 1), (0.009, 5)])
def test_rounds_are_the_device_s_seconds(enabled: Make, monkeypatch: pytest.MonkeyPatch, min_sample: float, batch: int) -> None:
    def sample(call: Callable[[], object], batch: int, look: Callable[[object], None] = drop) -> float:
        """Every call takes two milliseconds of the device, whatever the host needs."""
        batches.append(batch)
        look(call())
        return 0.002

    made, batches = enabled(), list[int]()
    device = {"label": "cold", "flags": ("gaps",), "unrolled": 1, "min_sample": min_sample}
    clock = mock.Mock(**device, prepare=lambda call: call, sample=sample)
    monkeypatch.setattr("attnbench.measure.devices.clock", lambda device, mode: clock)
    assert isinstance(made("plain:Plain", **SMALL), Tensor)
    taken = made.benchmark.stats
    assert taken is not None
    assert taken.stats.data == pytest.approx([0.002] * len(taken.stats.data))
    assert len(taken.stats.data) >= 3
    assert batch in batches[1:]
    assert (taken.as_dict()["options"]["timer"], made.benchmark.extra_info["clock"]) == ("cold", "cold")


def test_host_time_waits_for_the_device() -> None:
    device = mock.Mock()
    device.read.return_value = 1.0
    assert Timer(device.read, wait=device.wait)() == 1.0
    assert device.mock_calls == [mock.call.wait(), mock.call.read()]


@pytest.mark.benchmark(group="mine", timer=time.process_time)
def test_what_the_mark_says_stays(session: Session, attention_benchmark: AttentionBenchmark) -> None:
    attention_benchmark("plain:Plain", **SMALL)
    assert (attention_benchmark.benchmark.group, attention_benchmark.timer.host) == ("mine", time.process_time)


@QUICK
def test_a_benchmark_with_another_timer_is_refused(enabled: Make) -> None:
    made = enabled()
    made.timer = Timer(time.perf_counter)
    with pytest.raises(RuntimeError, match="ask for attention_benchmark before benchmark"):
        made("plain:Plain", **SMALL)
    assert made.benchmark.has_error


@QUICK
def test_a_call_is_timed_as_the_workload_has_it(enabled: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from plain import Plain

    seen = set()

    def forward(self: Plain, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.add((self.problem.N, torch.is_grad_enabled()))
        return Plain.forward(self, q, k, v)

    monkeypatch.setattr("plain.Marked.forward", forward, raising=False)
    enabled()("plain:Marked", **SMALL)
    enabled()("plain:Marked", **{**SMALL, "N": 192}, workload="forward_backward")
    assert {(128, False), (192, True)} <= seen
    assert not {(128, True), (192, False)} & seen
