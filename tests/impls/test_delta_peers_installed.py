"""flash-linear-attention's delta family itself, against the definitions that it is said to compute."""

from typing import Any

import pytest
import torch

from attnbench import Problem, registry
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

pytestmark = [
    pytest.mark.peers,
    # of the package and what it imports
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]
KERNELS = ["delta.deltanet_fla", "delta.gated_deltanet_fla", "delta.kda_fla", "delta.rwkv7_fla"]
NAIVE = [f"{name}_naive" for name in KERNELS]
FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD


@pytest.mark.parametrize("N", [1, 63, 64, 257])
@pytest.mark.parametrize("name", NAIVE)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=N, D=8, M=5, causal=True))
    inputs, g = inputs_of(method), gradient_of(method)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    want = evaluate(method, "reference", wide, g.double())
    got = [method(*inputs)] if "kda" in name else evaluate(method, "forward", inputs, g)
    for x, y in zip(got, want, strict=False):
        torch.testing.assert_close(x.double(), y, rtol=0, atol=1e-4 * max(1.0, float(y.abs().max())))


def test_the_naive_kda_has_no_gradient_where_a_chunk_loses_much(inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method: Any = registry.build("delta.kda_fla_naive", Problem(N=64, D=8, causal=True))
    *inputs, log_decay = inputs_of(method)
    strong = torch.full_like(log_decay, -3.0).requires_grad_()
    o, *gradients = evaluate(method, "forward", [*inputs, strong], gradient_of(method))
    torch.testing.assert_close(o, method.reference(*inputs, strong), rtol=0, atol=1e-5)
    assert any(x.isnan().any() for x in gradients)


@pytest.mark.parametrize("shape", [{"N": 1024, "D": 64}, {"N": 512, "D": 32, "M": 64}], ids=str)
@pytest.mark.parametrize(("name", "workload"), [(n, FORWARD) for n in NAIVE] + [(n, BOTH) for n in NAIVE if "kda" not in n])
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = registry.build(name, Problem(**{"H": 2, "causal": True, **shape}))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("name", KERNELS)
def test_the_package_has_the_operator_with_these_arguments(name: str, inputs_of: Any) -> None:
    method: Any = registry.build(name, Problem(N=64, causal=True, dtype="bfloat16"))
    with pytest.raises((RuntimeError, ValueError), match=r"active drivers|cpu tensor"):
        # as far as a machine without a GPU goes: every argument is known, and only the driver is missing
        method(*inputs_of(method))


@pytest.mark.cuda
@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_compute_the_definition_on_a_gpu(
    name: str, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    problem = Problem(B=2, H=3, N=N, D=64, dtype="bfloat16", causal=True)
    if reason := registry.load(name).why_not(
        Cell(method=name, problem=problem, workload=Workload.FORWARD_BACKWARD, device="cuda")
    ):
        pytest.skip(reason)
    method: Any = registry.build(name, problem)
    inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
    g = gradient_of(method).cuda()
    wide = [x.detach().double().requires_grad_() for x in inputs]
    exact = evaluate(method, "reference", wide, g.double())
    for o, r in zip(evaluate(method, "forward", inputs, g), exact, strict=True):
        assert float((o - r).norm()) <= 2e-2 * float(r.norm()) + 1e-6
