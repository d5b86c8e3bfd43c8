"""The package nystrom-attention itself, against the definition that it is said to compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]
NAME = "landmark.nystrom_attention"
PARAMS: list[dict[str, Any]] = [{"landmarks": 8}, {"landmarks": 4, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}]


def evaluated(method: Any, function: Any, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    o = function(*inputs)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


@pytest.mark.parametrize("shape", [{"N": 8}, {"N": 64}, {"N": 256, "M": 5}], ids=str)
@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_values_and_all_gradients_are_those_of_the_definition(
    params: dict[str, Any], shape: dict[str, Any], inputs_of: Any, gradient_of: Any
) -> None:
    method: Any = registry.build(NAME, Problem(B=2, H=3, D=8, dtype="float64", **shape), **params).double()
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluated(method, function, inputs, g) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_of_one_head_and_sample_it_is_ours(params: dict[str, Any], inputs_of: Any) -> None:
    problem = Problem(B=1, H=1, N=64, D=8, dtype="float64")
    theirs: Any = registry.build(NAME, problem, **params).double()
    ours: Any = registry.build("landmark.nystrom", problem, **params)
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.copy_(other.view_as(mine))
    inputs = inputs_of(ours)
    torch.testing.assert_close(theirs(*inputs), ours(*inputs), rtol=0, atol=1e-10)


def test_one_sample_moves_another(inputs_of: Any) -> None:
    method: Any = registry.build(NAME, Problem(B=2, H=1, N=64, D=8), landmarks=8)
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    q[1] *= 30
    k[1] *= 30
    assert not torch.allclose(method(q, k, v)[0], o[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("shape", [{"N": 1024}, {"N": 2048, "B": 2}, {"N": 2048, "H": 8, "D": 32}], ids=str)
@pytest.mark.parametrize("params", [{}, {"landmarks": 128, "iterations": 3}, {"convolution_kernel": 33}], ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    params: dict[str, Any], shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    method: Any = registry.build(NAME, Problem(**{"H": 4, "D": 64, **shape}), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return torch.autograd.grad(method(*inputs), [*inputs, *method.parameters()], g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)
