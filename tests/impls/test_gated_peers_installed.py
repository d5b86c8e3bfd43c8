"""flash-linear-attention itself, against the definitions that it is said to compute."""

from typing import Any

import pytest
import torch

from attnbench import Problem, registry
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

pytestmark = [
    pytest.mark.peers,
    # of the package, at its import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]
KERNELS = [f"gated.{name}_fla" for name in ("retnet", "lightning", "mamba2", "gla", "hgrn2")]
NAIVE = [f"gated.{name}_fla_naive" for name in ("retnet", "lightning", "mamba2")]


def everything(method: Any, function: Any, inputs: Any, g: Any) -> list[torch.Tensor]:
    """The output, and the gradients of inputs and parameters."""
    o = function(*inputs)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


@pytest.mark.parametrize("N", [1, 63, 64, 257])
@pytest.mark.parametrize("name", NAIVE)
def test_the_plain_form_is_the_definition(name: str, N: int, inputs_of: Any, gradient_of: Any) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=N, D=8, M=5, causal=True))
    inputs, g = inputs_of(method), gradient_of(method)
    got = everything(method, method, inputs, g)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    method.double()
    want = everything(method, method.reference, wide, g.double())
    torch.testing.assert_close([x.double() for x in got], want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize(
    "shape", [{"N": 2048}, {"N": 1024, "B": 2, "D": 32, "M": 96}, {"N": 1024, "dtype": "bfloat16"}], ids=str
)
@pytest.mark.parametrize("name", NAIVE)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    problem = Problem(**{"B": 1, "H": 4, "D": 64, **shape}, causal=True)
    method: Any = registry.build(name, problem).to(getattr(torch, problem.dtype))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return everything(method, method, inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("name", KERNELS)
def test_the_package_has_the_operator_with_these_arguments(name: str, inputs_of: Any) -> None:
    method: Any = registry.load(name)(Problem(B=1, H=2, N=64, causal=True))
    with pytest.raises((RuntimeError, ValueError), match=r"active drivers|cpu tensor"):
        # as far as a machine without a GPU goes: every argument is known, and only the driver is missing
        method(*inputs_of(method))


@pytest.mark.cuda
@pytest.mark.parametrize("N", [1, 63, 64, 257, 2048])
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_compute_the_definition_on_a_gpu(name: str, N: int, inputs_of: Any, gradient_of: Any) -> None:
    problem = Problem(B=2, H=3, N=N, D=64, M=32, dtype="bfloat16", causal=True)
    if reason := registry.load(name).why_not(
        Cell(method=name, problem=problem, workload=Workload.FORWARD_BACKWARD, device="cuda")
    ):
        pytest.skip(reason)
    method: Any = registry.load(name)(problem).to(torch.bfloat16)
    method.cuda()
    inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
    g = gradient_of(method).cuda()
    got, eager = (everything(method, function, inputs, g) for function in (method, method.reference))
    wide = [x.detach().double().requires_grad_() for x in inputs]
    method.double()
    exact = everything(method, method.reference, wide, g.double())
    for o, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(torch.bfloat16).eps * float(r.abs().max()) + 2e-6
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack
