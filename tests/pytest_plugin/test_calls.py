"""One call of the fixture: what it takes, what it gives, what it refuses, and what it leaves behind."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnbench import Problem, build, registry
from attnbench.api import Attention, Cost, Scalar, Workload
from attnbench.pytest_plugin.fixture import AttentionBenchmark
from attnbench.pytest_plugin.session import Session
from attnbench.schema.cell import Cell

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("method", "given", "shapes"),
    [
        ("plain:Plain", {"M": 8}, [(1, 2, 128, 8)]),
        ("plain:Plain", {"workload": "forward_backward", "M": 8}, [(1, 2, 128, width) for width in (8, 16, 16, 8)]),
        ("tokens:Cached", {"workload": "decode", "causal": True}, [(1, 2, 1, 16)]),
    ],
    ids=["the output", "the output and the gradients", "one token more"],
)
def test_it_gives_what_a_call_gives(call: Call, method: str, given: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    found = call(method, **given)
    assert [tuple(x.shape) for x in (found if isinstance(found, tuple) else (found,))] == shapes


def test_parameters_reach_the_method(call: Call, attention_benchmark: AttentionBenchmark) -> None:
    call("plain:WithParameter", chunk=7)
    assert attention_benchmark.benchmark.extra_info["params"] == {"chunk": 7}


def test_a_parameter_that_the_method_lacks_fails(call: Call, session: Session) -> None:
    with pytest.raises(TypeError, match="chnk"):
        call("plain:WithParameter", chnk=7)
    assert [one["status"] for one in session.left_out] == ["error"]


def test_an_unknown_method_fails_and_says_what_was_meant(call: Call) -> None:
    with pytest.raises(registry.UnknownMethodError, match=r"did you mean 'softmax\.sdpa'"):
        call("softmax.spda")


def test_no_gpu_is_a_reason_to_skip(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(pytest.skip.Exception, match="plain:Plain: there is no CUDA device here"):
        call("plain:Plain", device="cuda")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workload": "fidelity"}, "fidelity is not timed"),
        ({"workload": "train"}, "train needs a model around the attention"),
        ({"workload": "generate"}, "generate needs a model around the attention"),
        ({"device": "mps"}, "no clock for the device 'mps'"),
        ({"N": 0}, "greater than or equal to 1"),
        ({"workload": "sideways"}, "Input should be 'forward'"),
        ({"clock": "cold"}, "a CPU has no 'cold' clock"),
    ],
)
def test_what_cannot_be_meant_is_an_error(call: Call, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call("plain:Plain", **given)


@pytest.mark.parametrize("method", ["plain:Plain", "faulty:Raises"])
def test_torch_is_left_as_it_was(call: Call, method: str) -> None:
    torch.set_float32_matmul_precision("medium")
    torch.manual_seed(12345)
    before = torch.get_rng_state()
    try:
        if method == "faulty:Raises":
            with pytest.raises(ValueError, match="out of order"):
                call(method)
        else:
            call(method)
        assert torch.is_grad_enabled()
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_float32_matmul_precision("highest")


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


def test_a_class_is_a_method_too(call: Call, attention_benchmark: AttentionBenchmark) -> None:
    call(Mine, factor=2.0)
    info = attention_benchmark.benchmark.extra_info
    assert info["method"].endswith("test_calls.Mine")
    assert info["params"] == {"factor": 2.0}
    assert not any("Mine" in name for name in registry.catalogue())


def test_a_class_refuses_in_its_own_words(call: Call) -> None:
    with pytest.raises(pytest.skip.Exception, match="Mine: it is not causal"):
        call(Mine, causal=True)


def test_a_class_that_is_defined_inside_a_function_will_do(call: Call) -> None:
    class Local(Mine):
        pass

    assert call(Local).shape == (1, 2, 128, 16)


def test_a_class_that_is_not_its_own_reference_fails(call: Call, session: Session) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"Wrong is incorrect: .* off by"):
        call(Wrong)
    assert [one["status"] for one in session.left_out] == ["incorrect"]


def test_what_is_no_attention_is_an_error(call: Call) -> None:
    with pytest.raises(registry.UnknownMethodError, match=r"builtins\.dict is not an attention"):
        call(dict)


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


def test_an_object_that_is_not_its_own_reference_fails(call: Call) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"Wrong is incorrect: .* off by .* at N=48"):
        call(Wrong(Problem(N=48, H=2, D=4)))


def test_an_object_has_its_problem_and_parameters_already(call: Call) -> None:
    with pytest.raises(TypeError, match="leave out N, factor"):
        call(Mine(Problem(N=48)), N=64, factor=2.0)


def test_an_object_too_long_for_its_dense_reference_is_refused_before_it_is_tried(call: Call) -> None:
    with pytest.raises(ValueError, match="N=16384 is too long to check"):
        call(Mine(Problem(N=16384, H=1, D=1)))


def test_an_object_that_defines_its_rows_is_checked_at_any_length(call: Call) -> None:
    assert call(build("softmax.sdpa", Problem(N=16384, H=1, D=1, causal=True))).shape == (1, 1, 16384, 1)


def test_one_of_ours_that_is_built_is_timed_as_it_is(call: Call, attention_benchmark: AttentionBenchmark) -> None:
    assert call(build("linear.chunked", Problem(N=96, H=2, D=8, causal=True), chunk=32)).shape == (1, 2, 96, 8)
    assert attention_benchmark.benchmark.extra_info["shape"]["N"] == 96


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
