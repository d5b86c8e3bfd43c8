"""Based: the Taylor map by every algorithm, its own method, and flash-linear-attention's."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build, registry
from attnbench.api import Attention, Cell, Workload, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak

maps: Any = import_module("attnbench_impls.linear.maps")
Based: Any = import_module("attnbench_impls.linear.based").BasedLinear
FlaBased: Any = import_module("attnbench_impls.linear.based_fla").FlaBased
FORMS = ["linear.full", "linear.chunked", "linear.recurrent", "linear.naive_cumsum"]
CAUSAL = FORMS[1:]


def method_of(name: str, **shape: Any) -> Attention:
    problem = Problem(**{"B": 2, "H": 2, "D": 6, "causal": name != "linear.full", "dtype": "float64", **shape})
    return build(name, problem, feature_map="taylor")


def by_the_series(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    s = q @ k.mT / q.shape[-1] ** 0.5
    weights = 1 + s + s * s / 2
    weights = weights.tril() if causal else weights
    o: Tensor = weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)
    return o


@pytest.mark.parametrize("N", [1, 2, 63, 64, 97])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_series_with_its_gradients(
    name: str, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = method_of(name, N=N, M=5)
    inputs, g = inputs_of(method), gradient_of(method)
    q, k, v = inputs
    o = by_the_series(q, k, v, causal=name != "linear.full")
    want = [o.detach(), *torch.autograd.grad(o, inputs, g)]
    for function in ("forward", "reference"):
        torch.testing.assert_close(evaluate(method, function, inputs, g), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", FORMS)
def test_hidden_keys_contribute_nothing(name: str, inputs_of: Any) -> None:
    method: Any = method_of(name, N=40)
    inputs, key_mask = inputs_of(method), torch.rand(2, 40) > 0.4
    want = method.reference(*inputs, key_mask=key_mask)
    torch.testing.assert_close(method(*inputs, key_mask=key_mask), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_future_changes_nothing_before_it(name: str, inputs_of: Any) -> None:
    method = method_of(name, N=97, dtype="float32")
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 70:] = 5 - 3 * x[:, :, 70:]
    assert torch.equal(method(q, k, v)[:, :, :70], o[:, :, :70])


@pytest.mark.parametrize("prompt", [0, 1, 23])
def test_token_by_token_is_the_parallel_form(prompt: int, inputs_of: Any) -> None:
    method: Any = Based(Problem(B=2, H=2, N=40, D=6, M=5, causal=True, dtype="float64"))
    inputs = [x.detach() for x in inputs_of(method)]
    o, state = method.prefill(*(x[:, :, :prompt] for x in inputs), capacity=40)
    outputs = [o]
    for t in range(prompt, 40):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, 2), method(*inputs), rtol=0, atol=1e-10)
    assert state.sums.shape == (4, 1 + 6 + 21, 6)


@pytest.mark.parametrize("D", [1, 5, 16])
def test_the_map_is_the_series_and_its_quick_forms_are_the_map(D: int) -> None:
    phi = maps.feature_map("taylor", D)
    q, k = (torch.randn(3, 11, D, dtype=torch.float64).mul_(2).requires_grad_() for _ in "qk")
    s = q @ k.mT / D**0.5
    torch.testing.assert_close(phi(q) @ phi(k).mT, 1 + s + s * s / 2, rtol=0, atol=1e-11)
    assert phi(q).shape == (3, 11, phi.width(D)) == (3, 11, 1 + D + D * (D + 1) // 2)
    value, g = phi.value(q), torch.randn(3, 11, phi.width(D), dtype=torch.float64)
    torch.testing.assert_close(value, phi(q), rtol=1e-14, atol=1e-14)
    (dq,) = torch.autograd.grad(phi(q), q, g)
    torch.testing.assert_close(phi.pull_back(q.detach(), value, g.clone()), dq, rtol=0, atol=1e-12)


def test_based_is_the_chunked_form_with_that_map(inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    shape: dict[str, Any] = {"B": 1, "H": 2, "N": 100, "D": 16, "causal": True}
    based, chunked = (
        Based(Problem(**shape), chunk=32),
        build("linear.chunked", Problem(**shape), chunk=32, feature_map="taylor"),
    )
    inputs, g = inputs_of(based), gradient_of(based)
    got, want = (evaluate(method, "forward", inputs, g) for method in (based, chunked))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert Based.paper == "arXiv:2402.18668"
    for workload in tuple(Workload)[:4]:
        same = type(chunked).cost(chunked.problem, {"chunk": 32, "feature_map": "taylor"}, workload)
        assert Based.cost(based.problem, {"chunk": 32}, workload) == same


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize(
    "shape", [{"N": 2048, "D": 16}, {"N": 512, "D": 32, "M": 64, "H": 9}, {"N": 1024, "D": 16, "dtype": "float16"}], ids=str
)
def test_the_predicted_peak_is_what_torch_allocates(
    shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = Based(Problem(**{"H": 4, "causal": True, **shape}))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = Based.cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_in_a_narrow_dtype_it_is_within_twice_the_error_of_the_definition(
    dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = Based(Problem(B=1, H=2, N=257, D=16, causal=True, dtype=dtype))
    inputs, g = inputs_of(method), gradient_of(method)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, eager = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    for o, e, r in zip(got, eager, evaluate(method, "reference", wide, g.double()), strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack


class TestThePackage:
    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """A stand-in that computes the series, [B, N, H, ·] as theirs."""
        seen: list[dict[str, Any]] = []

        def operator(name: str) -> Any:
            def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, use_norm: bool) -> Tensor:
                seen.append({"name": name, "q": q, "scale": scale, "use_norm": use_norm})
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
                return by_the_series(q, k, v).transpose(1, 2)

            return attend

        modules = {path: ModuleType(path) for path in ("fla", "fla.ops", "fla.ops.based")}
        for name in ("parallel_based", "fused_chunk_based"):
            setattr(modules["fla.ops.based"], name, operator(name))
        modules["fla.ops"].based = modules["fla.ops.based"]  # type: ignore[attr-defined]
        for path, module in modules.items():
            monkeypatch.setitem(sys.modules, path, module)
        return seen

    @pytest.mark.parametrize("form", ["parallel", "fused_chunk"])
    def test_gets_its_own_layout_and_our_scale(
        self, form: str, calls: list[dict[str, Any]], inputs_of: Any, gradient_of: Any, evaluate: Any
    ) -> None:
        method = FlaBased(Problem(B=2, H=3, N=37, D=16, M=5, causal=True, dtype="float64"), form=form)
        inputs, g = inputs_of(method), gradient_of(method)
        got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
        (call,) = calls
        assert call["name"] == f"{form}_based"
        assert call["q"].shape == (2, 37, 3, 16)
        assert call["q"].transpose(1, 2).is_contiguous()
        assert call["scale"] == 0.25
        assert call["use_norm"]

    @pytest.mark.parametrize(
        ("shape", "params", "device", "words"),
        [
            ({}, {}, "cpu", "run on CUDA devices"),
            ({"causal": False}, {}, "cuda", "linear.full(feature_map=taylor)"),
            ({"kv_heads": 1}, {}, "cuda", "kv_heads must equal H"),
            ({"D": 160}, {}, "cuda", "D up to 128, not D=160"),
            ({"D": 32}, {"form": "fused_chunk"}, "cuda", "D up to 16, not D=32"),
            ({"dtype": "float64"}, {}, "cuda", "add in float32"),
            ({"dtype": "float16"}, {}, "cuda", "pass 65504"),
        ],
    )
    def test_says_what_it_cannot_do(self, shape: dict[str, Any], params: dict[str, Any], device: str, words: str) -> None:
        problem = Problem(**{"N": 64, "D": 16, "causal": True, **shape})
        assert words in (FlaBased.why_not(Cell(method="linear.based_fla", problem=problem, params=params, device=device)) or "")

    @pytest.mark.parametrize(("D", "form"), [(16, "fused_chunk"), (128, "parallel"), (300, "colour")])
    def test_does_not_refuse_what_it_can_do(self, D: int, form: str) -> None:
        problem = Problem(N=64, D=D, causal=True, dtype="bfloat16")
        cell = Cell(method="linear.based_fla", problem=problem, params={"form": form}, device="cuda")
        assert FlaBased.why_not(cell) is None

    @pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
    def test_works_no_less_than_the_definition_needs(self, workload: Workload) -> None:
        short, long = (Problem(B=2, N=N, D=16, causal=True, dtype="bfloat16") for N in (1024, 4096))
        for form, growth in (("parallel", 16), ("fused_chunk", 4)):
            cost, more = (FlaBased.cost(p, {"form": form}, workload) for p in (short, long))
            assert cost.nominal_flops == nominal_flops(short, workload)
            assert more.executed_flops == pytest.approx(growth * cost.executed_flops, rel=0.15)
            assert 3.5 < more.peak_bytes / cost.peak_bytes <= 4.001
        assert cost.executed_flops >= cost.exact_flops

    def test_refuses_an_unknown_form(self) -> None:
        refused = pytest.raises(ValueError, match="form='x': must be one of parallel, fused_chunk")
        with refused:
            FlaBased(Problem(N=8, causal=True), form="x")
        with refused:
            FlaBased.cost(Problem(N=8, causal=True), {"form": "x"}, Workload.FORWARD)

    def test_is_named_with_its_pip_line_where_it_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
        assert "pip install 'fla-core>=0.6'" in registry.pip_line("linear.based_fla", registry.missing(FlaBased))

    @pytest.mark.peers
    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
    def test_by_its_own_plain_function_is_the_definition(self, inputs_of: Any) -> None:
        naive: Any = import_module("fla.ops.based.naive")
        method = Based(Problem(B=2, H=3, N=64, D=16, M=5, causal=True, dtype="float64"))
        inputs = [x.detach() for x in inputs_of(method)]
        torch.testing.assert_close(method(*inputs), naive.naive_parallel_based(*inputs), rtol=0, atol=1e-10)

    @pytest.mark.peers
    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
    @pytest.mark.parametrize("form", ["parallel", "fused_chunk"])
    def test_has_the_operator_with_these_arguments(self, form: str) -> None:
        method = FlaBased(Problem(N=64, D=16, causal=True), form=form)
        with pytest.raises((RuntimeError, ValueError), match=r"active drivers|cpu tensor"):
            # as far as a machine without a GPU goes: every argument is known, and only the driver is missing
            method(*(torch.randn(1, 8, 64, 16) for _ in "qkv"))

    @pytest.mark.cuda
    @pytest.mark.peers
    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
    @pytest.mark.parametrize("N", [1, 63, 257, 2048])
    @pytest.mark.parametrize(("form", "D"), [("parallel", 64), ("parallel", 16), ("fused_chunk", 16)])
    def test_computes_the_definition_on_a_gpu(
        self, form: str, D: int, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
    ) -> None:
        method = FlaBased(Problem(B=2, H=3, N=N, D=D, M=32, dtype="bfloat16", causal=True), form=form)
        inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
        g, method = gradient_of(method).cuda(), method.cuda()
        wide = [x.detach().double().requires_grad_() for x in inputs]
        got, eager = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
        exact = evaluate(method, "reference", wide, g.double())
        for o, e, r in zip(got, eager, exact, strict=True):
            slack = 4 * torch.finfo(torch.bfloat16).eps * float(r.abs().max())
            assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack
