"""flash-linear-attention by stand-ins that compute its definitions: how it is called, what is refused and what it costs."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Cell, Layout, Tier, Workload, nominal_flops

KERNELS = {
    "gated.retnet_fla": "chunk_retention",
    "gated.lightning_fla": "chunk_simple_gla",
    "gated.mamba2_fla": "chunk_simple_gla",
    "gated.gla_fla": "chunk_gla",
    "gated.hgrn2_fla": "chunk_gla",
}
NAIVE = ["gated.retnet_fla_naive", "gated.lightning_fla_naive", "gated.mamba2_fla_naive"]
SHAPE: dict[str, Any] = {"B": 2, "H": 3, "N": 37, "D": 8, "M": 5, "dtype": "float64", "causal": True}


def load(name: str) -> Any:
    """The class of a method, whatever its constructor takes."""
    return registry.load(name)


def recurrence(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """All [B, N, H, ·]; the state decays by rows or as a whole."""
    state, outputs = q.new_zeros(*q.shape[:1], q.shape[2], q.shape[3], v.shape[3]), []
    for t in range(q.shape[1]):
        state = log_decay[:, t].exp().unsqueeze(-1) * state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        outputs.append((state * q[:, t].unsqueeze(-1)).sum(-2) * scale)
    return torch.stack(outputs, 1)


@pytest.fixture
def fla(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Its operators, that note how they are called."""
    calls: list[dict[str, Any]] = []

    def operator(name: str) -> Any:
        def attend(
            q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None, scale: float = 99.0
        ) -> tuple[Tensor, None]:
            calls.append({"name": name, "q": q, "k": k, "v": v, "g": g, "g_gamma": g_gamma, "scale": scale})
            B, N, H, _ = q.shape
            if name == "chunk_retention":
                g_gamma = torch.log(1 - 2.0 ** (-5.0 - torch.arange(H, dtype=torch.float64)))
            if g_gamma is not None:
                g = g_gamma.view(1, 1, H).expand(B, N, H)
            assert g is not None
            return recurrence(q, k, v, g if g.dim() == 4 else g.unsqueeze(-1), scale), None

        return attend

    rooms = {
        "fla.ops.retention": ["chunk_retention"],
        "fla.ops.simple_gla": ["chunk_simple_gla"],
        "fla.ops.simple_gla.naive": ["naive_chunk_simple_gla"],
        "fla.ops.gla": ["chunk_gla"],
    }
    for path in ("fla", "fla.ops", *rooms):
        module = ModuleType(path)
        module.__path__ = []
        for name in rooms.get(path, []):
            setattr(module, name, operator(name))
        monkeypatch.setitem(sys.modules, path, module)
    return calls


@pytest.mark.parametrize("name", [*KERNELS, *NAIVE])
def test_the_package_computes_the_method_from_what_it_is_given(
    name: str, fla: list[dict[str, Any]], inputs_of: Any, gradient_of: Any
) -> None:
    method = load(name)(Problem(**SHAPE)).double()
    inputs, g = inputs_of(method), gradient_of(method)
    leaves = [*inputs, *method.parameters()]
    got, want = method(*inputs), method.reference(*inputs)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    torch.testing.assert_close(torch.autograd.grad(got, leaves, g), torch.autograd.grad(want, leaves, g), rtol=0, atol=1e-10)
    (call,) = fla
    assert call["name"] == KERNELS.get(name, "naive_chunk_simple_gla")
    assert call["scale"] == method.scale
    assert call["q"].shape == (2, 37, 3, 8)
    assert call["v"].shape == (2, 37, 3, 5)
    assert all(call[x].is_contiguous() for x in "qkv")
    assert method.layout is Layout.BNHD


def test_fixed_decays_are_given_once_for_each_head(fla: list[dict[str, Any]], inputs_of: Any) -> None:
    method = load("gated.lightning_fla")(Problem(**SHAPE), slopes="fla", layer=1, layers=2)
    method(*inputs_of(method))
    torch.testing.assert_close(fla[0]["g_gamma"], -8 / 3 * 0.5 * torch.arange(3, dtype=torch.float64))


@pytest.mark.usefixtures("fla")
@pytest.mark.parametrize("name", [*KERNELS, *NAIVE])
def test_what_they_are_is_said(name: str) -> None:
    method = load(name)
    assert method.tier is (Tier.TRITON if name in KERNELS else Tier.LIBRARY)
    assert method.paper == load(name.removesuffix("_naive").removesuffix("_fla")).paper
    assert not method.decodes


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        *((name, {"causal": False}, "no form without a mask") for name in (*KERNELS, *NAIVE)),
        *((name, {"kv_heads": 2}, "kv_heads must equal H") for name in (*KERNELS, *NAIVE)),
        *((name, {"dtype": "float64"}, "computes in float32") for name in (*KERNELS, *NAIVE)),
        *((name, {"device": "cpu"}, "run on CUDA devices") for name in KERNELS),
        *((name, {"dtype": "float32"}, "set matmul_precision: high") for name in KERNELS),
        ("gated.gla_fla", {"D": 63}, "even widths"),
    ],
)
def test_each_limit_is_said_in_words(name: str, changes: dict[str, Any], words: str) -> None:
    shape = {"N": 64, "causal": True, "dtype": "bfloat16", **changes}
    device = shape.pop("device", "cuda" if name in KERNELS else "cpu")
    assert words in (load(name).why_not(Cell(method=name, problem=Problem(**shape), device=device)) or "")


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", "highest"), ("float16", "highest"), ("float32", "high")])
def test_what_the_kernels_can_do_is_not_refused(name: str, dtype: str, precision: str) -> None:
    problem = Problem.model_validate({"N": 64, "causal": True, "dtype": dtype})
    cell = {"method": name, "problem": problem, "matmul_precision": precision, "device": "cuda"}
    assert load(name).why_not(Cell.model_validate(cell)) is None


@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_plain_torch_runs_on_any_device(name: str, device: str) -> None:
    assert load(name).why_not(Cell(method=name, problem=Problem(N=64, causal=True), device=device)) is None


@pytest.mark.parametrize("name", [*KERNELS, *NAIVE])
def test_a_package_that_is_not_there_is_named_with_its_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
    assert "pip install 'fla-core>=0.6'" in registry.pip_line(name, registry.missing(load(name)))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("name", [*KERNELS, *NAIVE])
def test_their_work_is_at_least_what_the_definition_needs_and_linear(name: str, workload: Workload) -> None:
    short, long = (Problem(B=2, N=N, causal=True) for N in (1024, 4096))
    cost, more = (load(name).cost(p, {}, workload) for p in (short, long))
    assert cost.nominal_flops == nominal_flops(short, workload)
    assert cost.executed_flops >= cost.exact_flops
    assert more.executed_flops == pytest.approx(4 * cost.executed_flops)
    assert 3.5 < more.peak_bytes / cost.peak_bytes <= 4.001


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("gated.lightning_fla", {"slopes": "steep"}, "slopes='steep'"),
        ("gated.lightning_fla_naive", {"layer": 1}, "layer=1"),
        ("gated.hgrn2_fla", {"lower_bound": -0.5}, "lower_bound=-0.5"),
    ],
)
@pytest.mark.usefixtures("fla")
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any], words: str) -> None:
    problem = Problem(N=8, causal=True)
    with pytest.raises(ValueError, match=words):
        load(name)(problem, **params)
    with pytest.raises(ValueError, match=words):
        load(name).cost(problem, params, Workload.FORWARD)


@pytest.mark.usefixtures("fla")
@pytest.mark.parametrize("name", [*KERNELS, *NAIVE])
def test_the_packages_chunk_is_no_parameter(name: str) -> None:
    with pytest.raises(TypeError, match="chunk"):
        load(name)(Problem(N=8, causal=True), chunk=32)
    with pytest.raises(TypeError, match="chunk"):
        load(name).cost(Problem(N=8, causal=True), {"chunk": 32}, Workload.FORWARD)
