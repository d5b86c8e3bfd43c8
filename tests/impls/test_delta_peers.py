"""flash-linear-attention's delta family, by stand-ins: how it is called, what it refuses and costs."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Cell, Layout, Workload, nominal_flops

OURS = {"deltanet": 4, "gated_deltanet": 5, "kda": 5, "rwkv7": 6}
KERNELS = {
    "delta.deltanet_fla": ("delta_rule", "chunk_delta_rule", "q k v beta"),
    "delta.gated_deltanet_fla": ("gated_delta_rule", "chunk_gated_delta_rule", "q k v beta g"),
    "delta.kda_fla": ("kda", "chunk_kda", "q k v beta g"),
    "delta.rwkv7_fla": ("rwkv7", "chunk_rwkv7", "r k v w a b"),
}
NAIVE = {
    "delta.deltanet_fla_naive": ("delta_rule.naive", "delta_rule_chunkwise", "q k v beta"),
    "delta.gated_deltanet_fla_naive": ("gated_delta_rule.naive", "naive_chunk_gated_delta_rule", "q k v beta g"),
    "delta.kda_fla_naive": ("kda.naive", "naive_chunk_kda", "q k v beta g"),
    "delta.rwkv7_fla_naive": ("generalized_delta_rule.dplr.naive", "dplr_chunkwise", "q k v gk alpha beta"),
}
PEERS = {**KERNELS, **NAIVE}
Calls = list[dict[str, Any]]


def load(name: str) -> Any:
    """The class of a method, whatever its constructor takes."""
    return registry.load(name)


def ours(name: str) -> str:
    return name.partition("_fla")[0]


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of that name with these contents, and empty packages above it, until the test ends."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            module = ModuleType(path)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, path, module)
    for key, value in contents.items():
        monkeypatch.setattr(sys.modules[name], key, value, raising=False)


@pytest.fixture
def fla(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The package's functions in their own order of the dimensions; the list says with what they were called."""
    calls: Calls = []

    def function(name: str, names: str) -> Any:
        tokens_first, built_in = load(name).layout is Layout.BNHD, not name.endswith(("kda_fla_naive", "net_fla_naive"))

        def attend(**given: Any) -> tuple[Tensor, None]:
            calls.append(given)
            inputs = [x.transpose(1, 2) if tokens_first else x for x in (given[n] for n in names.split())]
            scale = given.get("scale", inputs[0].shape[-1] ** -0.5)
            assert built_in or "chunk_size" in given
            o = registry.build(ours(name), Problem(N=inputs[0].shape[2], D=8, causal=True), scale=scale).reference(*inputs)
            return o.transpose(1, 2) if tokens_first else o, None

        return attend

    for name, (module, operator, names) in PEERS.items():
        install(monkeypatch, f"fla.ops.{module}", **{operator: function(name, names)})
    return calls


@pytest.mark.parametrize("N", [1, 63, 64, 100])
@pytest.mark.parametrize("params", [{}, {"scale": 0.3}], ids=str)
@pytest.mark.parametrize("name", PEERS)
def test_it_is_called_for_what_the_reference_says(
    name: str, params: dict[str, Any], N: int, fla: Calls, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = load(name)(Problem(B=2, H=3, N=N, D=8, M=5, dtype="float64", causal=True), **params)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = evaluate(method, "forward", inputs, g), evaluate(method, "reference", inputs, g)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    same = registry.build(ours(name), method.problem, **params)
    torch.testing.assert_close(same(*inputs), got[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", PEERS)
def test_its_order_of_the_dimensions_costs_no_copy(name: str, fla: Calls, inputs_of: Any) -> None:
    method = load(name)(Problem(B=2, H=3, N=64, D=8, causal=True))
    inputs = inputs_of(method)
    method(*inputs)
    assert all(x.is_contiguous() for x in fla[0].values() if isinstance(x, Tensor))


@pytest.mark.parametrize("name", NAIVE)
def test_tokens_are_filled_up_to_whole_chunks(name: str, fla: Calls, inputs_of: Any) -> None:
    method = load(name)(Problem(B=1, H=2, N=70, D=8, causal=True), chunk=32)
    assert method(*inputs_of(method)).shape == (1, 2, 70, 8)
    assert fla[0]["chunk_size"] == 32
    assert fla[0]["k"].numel() == 2 * 96 * 8


def refusal(name: str, device: str = "cuda", precision: str = "highest", workload: str = "forward", **shape: Any) -> str:
    cell = {"method": name, "problem": Problem(**{"N": 64, "causal": True, **shape}), "device": device}
    return load(name).refusal(Cell.model_validate({**cell, "matmul_precision": precision, "workload": workload})) or ""


@pytest.mark.parametrize("name", KERNELS)
def test_what_the_kernels_cannot_do_is_said(name: str) -> None:
    assert "CUDA" in refusal(name, device="cpu", dtype="bfloat16")
    assert "causal" in refusal(name, causal=False, dtype="bfloat16")
    assert "kv_heads" in refusal(name, kv_heads=2, dtype="bfloat16")
    assert "256" in refusal(name, D=512, dtype="bfloat16")
    assert "float32" in refusal(name, dtype="float64")
    assert "float32" in refusal(name, dtype="float32") or "TF32" in refusal(name, dtype="float32")
    assert "decode" in refusal(name, workload="decode", dtype="bfloat16")
    assert not refusal(name, dtype="bfloat16")


@pytest.mark.parametrize("name", NAIVE)
def test_what_the_naive_functions_cannot_do_is_said(name: str) -> None:
    assert "causal" in refusal(name, "cpu", causal=False)
    assert "kv_heads" in refusal(name, "cpu", kv_heads=2)
    assert not refusal(name, "cpu")
    assert "float32" in refusal(name, "cpu", dtype="bfloat16")
    assert "decode" in refusal(name, "cpu", workload="decode")
    assert ("NaN" in refusal(name, "cpu", workload="forward_backward")) == ("kda" in name)


@pytest.mark.parametrize("name", ["delta.gated_deltanet_fla", "delta.kda_fla"])
def test_float32_runs_where_tf32_is_allowed(name: str) -> None:
    assert "TF32" in refusal(name)
    assert not refusal(name, precision="high")


@pytest.mark.parametrize("name", PEERS)
def test_a_package_that_is_not_there_is_named_with_its_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
    assert f"pip install '{load(name).requires[0]}'" in registry.pip_line(name, registry.missing(load(name)))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("name", PEERS)
def test_its_work_is_at_least_what_the_definition_needs_and_linear(name: str, workload: Workload) -> None:
    short, long = (Problem(B=2, N=N, causal=True) for N in (1024, 4096))
    cost, more = (load(name).cost(p, {}, workload) for p in (short, long))
    assert cost.nominal_flops == nominal_flops(short, workload)
    assert cost.executed_flops >= cost.exact_flops
    assert more.executed_flops == pytest.approx(4 * cost.executed_flops)
    assert more.peak_bytes == pytest.approx(4 * cost.peak_bytes)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.usefixtures("fla")
def test_a_bad_parameter_is_refused_by_name(name: str) -> None:
    refused = pytest.raises(ValueError, match=r"scale=.*must be")
    with refused:
        load(name)(Problem(N=8), scale=float("nan"))
    with refused:
        load(name).cost(Problem(N=8), {"scale": float("nan")}, Workload.FORWARD)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8), {"colour": 3}, Workload.FORWARD)
