"""The Linformers of others themselves, against the definitions that they are said to compute."""

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
PEERS: list[tuple[str, dict[str, Any]]] = [
    ("linformer.lucidrains", {}),
    *(("linformer.tatp22", {"sharing": sharing}) for sharing in ("none", "headwise", "key_value", "layerwise")),
]


def evaluated(method: Any, function: Any, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    o = function(*inputs)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


@pytest.mark.parametrize("N", [1, 2, 63, 257])
@pytest.mark.parametrize(("name", "params"), PEERS, ids=str)
def test_values_and_all_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, inputs_of: Any, gradient_of: Any
) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=N, D=8, dtype="float64"), k=16, **params).double()
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluated(method, function, inputs, g) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def test_values_may_have_another_width_in_tatp22(inputs_of: Any, gradient_of: Any) -> None:
    method: Any = registry.build("linformer.tatp22", Problem(B=2, H=3, N=40, D=8, M=5, dtype="float64"), k=16).double()
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluated(method, function, inputs, g) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def test_lucidrains_is_ours_with_one_matrix_for_all_heads(inputs_of: Any) -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    ours: Any = registry.build("linformer.linformer", problem, k=16, sharing="headwise")
    theirs: Any = registry.build("linformer.lucidrains", problem, k=16).double()
    with torch.no_grad():
        ours.E.copy_(theirs.attention.proj_k.mT)
        ours.F.copy_(theirs.attention.proj_v.mT)
    inputs = inputs_of(ours)
    torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


def test_tatp22_is_ours_but_for_its_biases(inputs_of: Any) -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    for sharing in ("none", "headwise", "key_value", "layerwise"):
        ours: Any = registry.build("linformer.linformer", problem, k=16, sharing=sharing)
        theirs: Any = registry.build("linformer.tatp22", problem, k=16, sharing=sharing).double()
        assert sum(x.numel() for x in theirs.parameters()) == sum(x.numel() for x in ours.parameters()) * 65 // 64
        with torch.no_grad():
            for h, head in enumerate(theirs.heads):
                ours.E[h % len(ours.E)].copy_(head.E.weight)
                head.E.bias.zero_()
                head.F.bias.zero_()
                if ours.F is not None:
                    ours.F[h % len(ours.F)].copy_(head.F.weight)
        inputs = inputs_of(ours)
        torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "params"), PEERS[:3], ids=str)
def test_nothing_but_projections_along_tokens_is_learned(name: str, params: dict[str, Any]) -> None:
    method: Any = registry.build(name, Problem(H=2, N=64, D=8), k=16, **params)
    assert {tuple(sorted(x.shape)) for x in method.parameters()} <= {(16, 64), (16,)}
    assert not any(module.p for module in method.modules() if isinstance(module, torch.nn.Dropout))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("shape", [{"N": 1024}, {"N": 2048, "B": 2}, {"N": 2048, "H": 8, "D": 32}], ids=str)
@pytest.mark.parametrize(("name", "params"), PEERS, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    params = {"k": 128, **params}
    method: Any = registry.build(name, Problem(**{"H": 4, "D": 64, **shape}), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return torch.autograd.grad(method(*inputs), [*inputs, *method.parameters()], g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)
