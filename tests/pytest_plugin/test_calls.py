"""One call of the fixture: what it takes, what it gives, what it refuses, and what it leaves behind."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from attnbench import Problem, build, registry
from attnbench.api import Attention, Cost, Scalar, Workload
from attnbench.pytest_plugin.fixture import AttentionBenchmark
from attnbench.pytest_plugin.session import Session
from attnbench.schema.cell import Cell

Call = Callable[..., Any]


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

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.weights[:, None] * v + 0 * (q.sum() + k.sum())

    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.einsum("n,bhnm->bhnm", self.weights, v) + 0 * (q.sum() + k.sum())


class Wrong(Mine):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return super().forward(q, k, v) * 1.01


@pytest.mark.parametrize(
    ("method", "given", "shapes"),
    [
        ("plain:Plain", {"M": 8}, [(1, 2, 128, 8)]),
        ("plain:Plain", {"workload": "forward_backward", "M": 8}, [(1, 2, 128, width) for width in (8, 16, 16, 8)]),
        ("tokens:Cached", {"workload": "decode", "causal": True}, [(1, 2, 1, 16)]),
        # no entry point and no name in a module lead to it
        (type("Local", (Mine,), {}), {}, [(1, 2, 128, 16)]),
    ],
    ids=["the output", "the output and the gradients", "one token more", "of a class that is made anywhere"],
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
        ("plain:Plain", {"N": 0}, ValueError, "greater than or equal to 1"),
        ("plain:Plain", {"workload": "sideways"}, ValueError, "Input should be 'forward'"),
        ("plain:Plain", {"clock": "cold"}, ValueError, "a CPU has no 'cold' clock"),
        ("softmax.spda", {}, registry.UnknownMethodError, r"did you mean 'softmax\.sdpa'"),
        (dict, {}, registry.UnknownMethodError, r"builtins\.dict is not an attention"),
        (Mine(Problem(N=48)), {"N": 64, "factor": 2.0}, TypeError, "leave out N, factor"),
        # before it is tried
        (Mine(Problem(N=16384, H=1, D=1)), {}, ValueError, "N=16384 is too long to check"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    call: Call, method: Any, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(method, **given)


def test_a_method_that_cannot_run_here_is_skipped_with_the_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(pytest.skip.Exception, match="plain:Plain: there is no CUDA device here"):
        call("plain:Plain", device="cuda")
    with pytest.raises(pytest.skip.Exception, match="Mine: it is not causal"):
        call(Mine, causal=True)


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


def test_an_object_is_timed_with_its_own_problem_and_parameters(call: Call) -> None:
    mine = Mine(Problem(N=48, H=2, D=4, dtype="float64"), factor=3.0)
    assert call(mine, workload="forward_backward")[2].shape == (1, 2, 48, 4)
    # a copy was: this one has neither gradients nor another dtype
    assert mine.weights.grad is None
    assert mine.weights.dtype is torch.float32


def test_an_object_keeps_the_weights_that_it_has(call: Call) -> None:
    mine = Mine(Problem(N=48, H=2, D=4))
    torch.nn.init.zeros_(mine.weights)
    assert torch.equal(call(mine), torch.zeros(1, 2, 48, 4))


def test_one_of_ours_that_is_built_is_timed_as_it_is(call: Call, attention_benchmark: AttentionBenchmark) -> None:
    assert call(build("linear.chunked", Problem(N=96, H=2, D=8, causal=True), chunk=32)).shape == (1, 2, 96, 8)
    assert attention_benchmark.benchmark.extra_info["shape"]["N"] == 96


def test_an_object_that_defines_its_rows_is_checked_at_any_length(call: Call) -> None:
    assert call(build("softmax.sdpa", Problem(N=16384, H=1, D=1, causal=True))).shape == (1, 1, 16384, 1)


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
