"""Memory grows with the length, not with its square, and stays below a small multiple of the inputs; so the costs say too."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load

causal_product: Any = import_module("attnbench_impls.linear.causal_product")

MAPS = ["elu_plus_one", "relu", "squared_relu", "cosine", "quadratic", "favor", "efficient"]
PAIRS = [
    (name, feature_map)
    for name in ("linear.full", "linear.chunked", "linear.recurrent")
    for feature_map in MAPS
    if (name, feature_map) != ("linear.chunked", "efficient")
]


# the others are as wide as one of these
REGULAR = {"elu_plus_one", "quadratic", "favor"}


def thinned(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """All cases, those of most feature maps only where there is time."""
    return [pytest.param(*case, marks=[] if case[1] in REGULAR else pytest.mark.slow) for case in cases]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Scratch of the libraries below torch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def method_of(name: str, feature_map: str, **shape: Any) -> Any:
    problem = Problem(**{"B": 1, "H": 1, "D": 32, "causal": name != "linear.full", **shape})
    return build(name, problem, feature_map=feature_map).to(getattr(torch, problem.dtype))


def training(method: Any) -> tuple[Callable[[], object], int]:
    """One forward and backward, and the bytes of q, k and v."""
    inputs = [x.requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(1))]
    p = method.problem
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=inputs[2].dtype)
    return lambda: torch.autograd.grad(method(*inputs), inputs, g), sum(x.numel() * x.element_size() for x in inputs)


def peak(call: Callable[[], object]) -> int:
    got = torch_profiler_peak(call).bytes
    assert got is not None
    return got


@pytest.mark.parametrize(("name", "feature_map"), thinned(PAIRS))
def test_training_takes_at_most_eight_times_the_inputs_and_grows_linearly(name: str, feature_map: str) -> None:
    # token by token is slow under a profiler; where it is cut makes no difference to what a token needs
    lengths = (512, 1024) if name == "linear.recurrent" else (4096, 16384)
    peaks = []
    for N in lengths:
        call, inputs = training(method_of(name, feature_map, N=N))
        peaks.append(peak(call) / inputs)
    assert peaks[1] <= 8
    assert peaks[1] <= 1.02 * peaks[0]
    if name != "linear.recurrent":
        assert peaks[0] <= 8


def test_a_long_sequence_and_a_wide_map_keep_few_states() -> None:
    cost = load("linear.chunked").cost
    for D in (32, 64):
        for N in (2**12, 2**14, 2**16):
            p = Problem(B=1, H=8, N=N, D=D, causal=True)
            most = cost(p, {"feature_map": "quadratic"}, Workload.FORWARD_BACKWARD).peak_bytes
            assert most <= 8 * 3 * 8 * N * D * 4


@pytest.mark.parametrize(("count", "every"), [(1, 1), (2, 2), (100, 10), (101, 11)])
def test_states_that_outgrow_the_output_are_kept_every_so_often(count: int, every: int) -> None:
    assert causal_product.spacing(count, state=10, output=count * 10) == 1
    assert causal_product.spacing(count, state=10, output=count * 10 - 1) == every


def test_states_between_kept_ones_are_found_again(inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    for feature_map in ("quadratic", "favor"):
        method = build(
            "linear.chunked", Problem(B=3, H=3, N=90, D=8, M=2, causal=True, dtype="float64"), feature_map=feature_map, chunk=7
        ).double()
        inputs, g = inputs_of(method), gradient_of(method)
        want = evaluate(method, "reference", inputs, g)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("attnbench_impls.linear.segments.ROWS", 1)
            torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("workload", [w for w in Workload if w.is_timed and not w.has_model])
@pytest.mark.parametrize(
    ("name", "feature_map", "shape"),
    thinned(
        [
            *((name, feature_map, {"N": 1024}) for name, feature_map in PAIRS if name != "linear.recurrent"),
            *(("linear.recurrent", feature_map, {"N": 128}) for feature_map in MAPS),
            *(("linear.naive_cumsum", feature_map, {"N": 128}) for feature_map in MAPS),
            ("linear.chunked", "elu_plus_one", {"N": 300, "B": 4, "M": 24}),
            ("linear.chunked", "elu_plus_one", {"N": 1024, "dtype": "bfloat16"}),
            ("linear.chunked", "elu_plus_one", {"N": 1024, "dtype": "float16"}),
            ("linear.full", "elu_plus_one", {"N": 1024, "dtype": "bfloat16"}),
            ("linear.full", "elu_plus_one", {"N": 512, "H": 8, "kv_heads": 2}),
            ("linear.recurrent", "elu_plus_one", {"N": 128, "dtype": "bfloat16"}),
            ("linear.naive_cumsum", "elu_plus_one", {"N": 128, "dtype": "float16"}),
        ]
    ),
    ids=str,
)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, feature_map: str, shape: dict[str, Any], workload: Workload
) -> None:
    if workload.decodes and name == "linear.full":
        return
    method = method_of(name, feature_map, **{"H": 4, **shape})
    call = calls(method)[workload]
    call()
    predicted = type(method).cost(method.problem, {"feature_map": feature_map}, workload).peak_bytes
    assert peak(call) == pytest.approx(predicted, rel=0.1)


def calls(method: Any) -> dict[Workload, Callable[[], object]]:
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
    N = method.problem.N

    def forward() -> object:
        with torch.no_grad():
            return method(*inputs)

    def step() -> object:
        with torch.no_grad():
            return method.step(*token, state=before)

    def sequence() -> object:
        # a few stand for all: each leaves the state as large as it was
        with torch.no_grad():
            o, state = method.prefill(*(x[:, :, :0] for x in inputs), capacity=N)
            for _ in range(3):
                o, state = method.step(*token, state=state)
            return o

    if not method.decodes:
        return {Workload.FORWARD: forward, Workload.FORWARD_BACKWARD: training(method)[0]}
    token = [x[:, :, -1:] for x in inputs]
    before = method.prefill(*(x[:, :, :-1] for x in inputs), capacity=N)[1]
    return {
        Workload.FORWARD: forward,
        Workload.FORWARD_BACKWARD: training(method)[0],
        Workload.DECODE: step,
        Workload.DECODE_TOTAL: sequence,
    }


class TestFlops:
    def cost(self, name: str, workload: Workload = Workload.FORWARD, **params: Any) -> Any:
        problem = Problem(B=2, H=4, N=1024, D=64, causal=name != "linear.full")
        return load(name).cost(problem, params, workload)

    def test_the_recurrence_executes_what_the_definition_needs_and_a_column(self) -> None:
        cost = self.cost("linear.recurrent")
        assert cost.exact_flops == 4 * 2 * 4 * 1024 * 64 * 64
        assert cost.executed_flops == 4 * 2 * 4 * 1024 * 64 * 72

    def test_random_features_cost_their_projection(self) -> None:
        tokens = 2 * 4 * 1024
        cost = self.cost("linear.full", feature_map="favor", features=100)
        assert cost.exact_flops == tokens * (4 * 100 * 64 + 4 * 64 * 100)
        # the projection itself has no gradient: one product back, not two
        cost = self.cost("linear.full", Workload.FORWARD_BACKWARD, feature_map="favor", features=100)
        assert cost.exact_flops == tokens * (3 * 4 * 100 * 64 + 2 * 4 * 64 * 100)

    def test_a_wider_map_costs_more(self) -> None:
        assert self.cost("linear.chunked", feature_map="quadratic").exact_flops == 4 * 2 * 4 * 1024 * (64 * 65 / 2) * 64

    def test_a_step_costs_the_same_wherever_it_stands(self) -> None:
        step = self.cost("linear.chunked", Workload.DECODE)
        state = 2 * 4 * (64 + 1) * 65 * 4
        assert step.exact_flops == 4 * 2 * 4 * 64 * 64
        assert step.traffic_bytes == 2 * 4 * 4 * 64 * 4 + 2 * state
        assert step.peak_bytes < state
        total = self.cost("linear.chunked", Workload.DECODE_TOTAL)
        assert total.exact_flops == 1024 * step.exact_flops
        assert total.peak_bytes == step.peak_bytes + state

    def test_none_executes_less_than_its_definition_needs(self) -> None:
        for name in ("linear.full", "linear.chunked", "linear.recurrent", "linear.naive_cumsum"):
            for workload in filter(lambda w: w.is_timed, Workload):
                if not (workload.decodes and name == "linear.full"):
                    cost = self.cost(name, workload)
                    assert cost.executed_flops >= cost.exact_flops
