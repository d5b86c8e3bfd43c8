"""The packages of others themselves, against the definitions that they are said to compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

pytestmark = [
    pytest.mark.peers,
    # of the packages: distutils and torch.jit at their imports, flash-attn that is not there
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]
FLA = ["linear.fla_chunk", "linear.fla_fused_chunk", "linear.fla_recurrent"]
SHAPES: list[dict[str, Any]] = [
    {"N": 2048},
    {"N": 1024, "B": 2},
    {"N": 1024, "B": 2, "D": 32, "M": 96},
    {"N": 2048, "D": 96, "M": 32},
]


def difference(method: Any, inputs: Any, g: Tensor, evaluate: Any) -> list[float]:
    """max|o - r| of the output and each gradient, r by the reference in float64."""
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got = evaluate(method, "forward", inputs, g)
    want = evaluate(method.double(), "reference", wide, g.double())
    return [float((a.double() - b).abs().max()) for a, b in zip(got, want, strict=True)]


@pytest.mark.parametrize("N", [1, 63, 64, 257])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("linear.fast_transformers", {}),
        ("linear.fast_transformers", {"eps": 0.5}),
        ("linear.performer_pytorch", {"features": 19}),
    ],
    ids=str,
)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=N, D=8, M=5, dtype="float64"), **params).double()
    assert max(difference(method, inputs_of(method), gradient_of(method), evaluate)) < 1e-10


@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
def test_the_causal_kernel_is_the_definition_in_float32(N: int, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method: Any = registry.build("linear.fast_transformers", Problem(B=2, H=3, N=N, D=8, M=5, causal=True))
    assert max(difference(method, inputs_of(method), gradient_of(method), evaluate)) < 3e-6


def test_the_causal_kernel_does_not_see_the_future(inputs_of: Any) -> None:
    method: Any = registry.build("linear.fast_transformers", Problem(B=1, H=2, N=150, D=8, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 63:] = 3 - x[:, :, 63:]
    assert torch.equal(method(q, k, v)[:, :, :63], o[:, :, :63])


@pytest.mark.parametrize("causal", [False, True])
def test_hidden_keys_do_not_exist(causal: bool, inputs_of: Any) -> None:
    method: Any = registry.build("linear.fast_transformers", Problem(B=2, H=3, N=70, D=8, causal=causal))
    inputs, key_mask = inputs_of(method), torch.rand(2, 70) < 0.6
    want = method.reference(*inputs, key_mask=key_mask)
    torch.testing.assert_close(method(*inputs, key_mask=key_mask), want, rtol=0, atol=1e-5)


def test_its_recurrence_goes_on_where_the_parallel_form_ends(inputs_of: Any) -> None:
    method: Any = registry.build("linear.fast_transformers", Problem(B=2, H=3, N=40, D=8, M=5, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    first, state = method.prefill(q[:, :, :25], k[:, :, :25], v[:, :, :25], capacity=40)
    outputs = [first]
    for t in range(25, 40):
        o, state = method.step(q[:, :, t : t + 1], k[:, :, t : t + 1], v[:, :, t : t + 1], state=state)
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, dim=2), method(q, k, v), rtol=0, atol=1e-5)


def test_performer_draws_its_projection_once(inputs_of: Any) -> None:
    method: Any = registry.build("linear.performer_pytorch", Problem(B=1, H=2, N=64, D=8), features=16)
    inputs = inputs_of(method)
    assert torch.equal(method(*inputs), method(*inputs))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "params", "causal"),
    [
        ("linear.fast_transformers", {}, False),
        ("linear.fast_transformers", {}, True),
        ("linear.performer_pytorch", {}, False),
        ("linear.performer_pytorch", {"features": 16}, False),
    ],
    ids=str,
)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str,
    params: dict[str, Any],
    causal: bool,
    shape: dict[str, Any],
    workload: Workload,
    inputs_of: Any,
    gradient_of: Any,
    evaluate: Any,
) -> None:
    method: Any = registry.build(name, Problem(**{"H": 4, "D": 64, **shape}, causal=causal), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.05)


def test_a_step_allocates_what_its_cost_says(inputs_of: Any) -> None:
    method: Any = registry.build("linear.fast_transformers", Problem(B=2, H=4, N=4, D=64, M=32, causal=True))
    token = [x.detach()[:, :, :1] for x in inputs_of(method)]
    _, state = method.prefill(*token, capacity=4)
    predicted = type(method).cost(method.problem, {}, Workload.DECODE).peak_bytes
    assert torch_profiler_peak(lambda: method.step(*token, state=state)).bytes == pytest.approx(predicted, rel=0.05)


@pytest.mark.parametrize("name", FLA)
def test_fla_has_the_operator_with_these_arguments(name: str) -> None:
    method = registry.load(name)(Problem(N=64, causal=True))
    with pytest.raises((RuntimeError, ValueError), match=r"active drivers|cpu tensor"):
        # as far as a machine without a GPU goes: every argument is known, and only the driver is missing
        method(*(torch.randn(1, 8, 64, 64) for _ in "qkv"))


@pytest.mark.cuda
@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu", "squared_relu"])
@pytest.mark.parametrize("name", FLA)
def test_fla_computes_the_definition_on_a_gpu(
    name: str, feature_map: str, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    of: Any = registry.load(name)
    method = of(Problem(B=2, H=3, N=N, D=64, M=32, dtype="bfloat16", causal=True), feature_map=feature_map)
    inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
    g = gradient_of(method).cuda()
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, eager = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    exact = evaluate(method, "reference", wide, g.double())
    for o, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(torch.bfloat16).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack
