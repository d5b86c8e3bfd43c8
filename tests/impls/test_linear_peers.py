"""The packages of others, by stand-ins that compute their definitions: how they are called, what they refuse and cost."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench import Problem, registry
from attnbench.api import Cell, DType, Workload, nominal_flops

FLA = {
    "linear.fla_chunk": "chunk_linear_attn",
    "linear.fla_fused_chunk": "fused_chunk_linear_attn",
    "linear.fla_recurrent": "fused_recurrent_linear_attn",
}
PEERS = ["linear.fast_transformers", "linear.performer_pytorch", *FLA]
SHAPE: dict[str, Any] = {"B": 2, "H": 3, "N": 37, "D": 8, "M": 5, "dtype": "float64"}
Calls = list[dict[str, Any]]


def load(name: str) -> Any:
    """The class of a method, whatever its constructor takes."""
    return registry.load(name)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of that name with these contents, and empty packages above it, until the test ends."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules or i == len(parts):
            module = ModuleType(path)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, path, module)
            if i > 1:
                monkeypatch.setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], module, raising=False)
    for key, value in contents.items():
        setattr(sys.modules[name], key, value)


@pytest.fixture
def fla(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """flash-linear-attention's operators, [B, N, H, ·] as theirs; the list says with what they were called."""
    calls: Calls = []

    def operator(name: str) -> Any:
        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float = 0.0, normalize: bool = False) -> tuple[Tensor, Any]:
            calls.append({"name": name, "q": q.detach(), "k": k.detach(), "v": v.detach(), "scale": scale})
            kv = torch.einsum("bthk,bthv->bthkv", k, v).cumsum(1)
            o = torch.einsum("bthk,bthkv->bthv", q * scale, kv)
            return o / ((q * scale * k.cumsum(1)).sum(-1, keepdim=True) + 1e-10) if normalize else o, None

        return attend

    install(monkeypatch, "fla.ops.linear_attn", **{name: operator(name) for name in FLA.values()})
    return calls


@pytest.fixture
def fast_transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """pytorch-fast-transformers' modules, [B, N, H, ·] as theirs, and a recurrence that adds in place."""
    calls: Calls = []

    class Mask:
        def __init__(self, *shape: Any, device: Any = None) -> None:
            self.float_matrix = shape[0].float() if isinstance(shape[0], Tensor) else torch.ones(shape)

    class Linear(nn.Module):
        causal = False

        def __init__(self, width: int, eps: float) -> None:
            super().__init__()
            self.width, self.eps = width, eps

        def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Any, _: None, keys: Any) -> Tensor:
            calls.append({"module": type(self).__name__, "q": q.detach(), "pairs": pairs, "keys": keys})
            q, k = nn.functional.elu(q) + 1, (nn.functional.elu(k) + 1) * keys.float_matrix[:, :, None, None]
            weights = torch.einsum("nlhd,nshd->nhls", q, k)
            weights = weights.tril() if self.causal else weights
            return torch.einsum("nhls,nshm,nhl->nlhm", weights, v, 1 / (weights.sum(-1) + self.eps))

    class CausalLinear(Linear):
        causal = True

    class Recurrent(Linear):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, state: Any) -> Any:  # type: ignore[override]
            q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
            state[0].add_(k[..., None] * v[..., None, :])
            state[1].add_(k)
            denominator = (q * state[1]).sum(-1, keepdim=True) + self.eps
            return (q[..., None] * state[0]).sum(-2) / denominator, state

    install(monkeypatch, "fast_transformers.attention", LinearAttention=Linear, CausalLinearAttention=CausalLinear)
    install(monkeypatch, "fast_transformers.recurrent.attention", RecurrentLinearAttention=Recurrent)
    install(monkeypatch, "fast_transformers.masking", FullMask=Mask, TriangularCausalMask=Mask)
    install(monkeypatch, "fast_transformers.causal_product")
    masks = vars(sys.modules[load("linear.fast_transformers").__module__])["_masks"]
    masks.cache_clear()
    yield calls
    masks.cache_clear()


@pytest.fixture
def performer(monkeypatch: pytest.MonkeyPatch) -> None:
    """performer-pytorch's attention, softmax in its place: only its projection is looked at."""

    class FastAttention(nn.Module):
        projection_matrix: Tensor

        def __init__(self, dim_heads: int, nb_features: int, causal: bool) -> None:
            super().__init__()
            assert not causal
            self.register_buffer("projection_matrix", torch.randn(nb_features, dim_heads))

        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v)

    install(monkeypatch, "performer_pytorch", FastAttention=FastAttention)


def agree(method: Any, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    inputs, g = inputs_of(method), gradient_of(method)
    for a, b in zip(evaluate(method, "forward", inputs, g), evaluate(method, "reference", inputs, g), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu", "squared_relu"])
@pytest.mark.parametrize("name", FLA)
def test_fla_gets_features_in_its_own_layout_unscaled(
    name: str, feature_map: str, fla: Calls, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = load(name)(Problem(**SHAPE, causal=True), feature_map=feature_map)
    agree(method, inputs_of, gradient_of, evaluate)
    (call,) = fla
    assert call["scale"] == 1.0
    assert call["name"] == FLA[name]
    assert call["q"].shape == (2, 37, 3, 8)
    assert call["v"].shape == (2, 37, 3, 5)
    assert all(call[x].is_contiguous() for x in "qkv")
    assert all((call[x] >= 0).all() for x in "qk")


@pytest.mark.parametrize("causal", [False, True])
def test_fast_transformers_gets_its_own_layout_eps_and_all_keys(
    causal: bool, fast_transformers: Calls, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = load("linear.fast_transformers")(Problem(**SHAPE, causal=causal), eps=0.5)
    agree(method, inputs_of, gradient_of, evaluate)
    (call,) = fast_transformers
    assert call["module"] == ("CausalLinear" if causal else "Linear")
    assert call["q"].shape == (2, 37, 3, 8)
    assert call["q"].is_contiguous()
    assert call["keys"].float_matrix.equal(torch.ones(2, 37))


def test_fast_transformers_keeps_its_masks_between_calls(fast_transformers: Calls, inputs_of: Any) -> None:
    method = load("linear.fast_transformers")(Problem(**SHAPE))
    for _ in range(2):
        method(*inputs_of(method))
    first, second = fast_transformers
    assert first["keys"] is second["keys"]
    assert first["pairs"] is second["pairs"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("fast_transformers")
def test_fast_transformers_hides_any_keys(causal: bool, inputs_of: Any) -> None:
    method = load("linear.fast_transformers")(Problem(**SHAPE, causal=causal))
    inputs = inputs_of(method)
    key_mask = torch.rand(2, 37) < 0.6
    want = method.reference(*inputs, key_mask=key_mask)
    torch.testing.assert_close(method(*inputs, key_mask=key_mask), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("prompt", [0, 1, 20])
@pytest.mark.usefixtures("fast_transformers")
def test_fast_transformers_decodes_by_its_own_recurrence(prompt: int, inputs_of: Any) -> None:
    method = load("linear.fast_transformers")(Problem(**SHAPE, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    o, state = method.prefill(q[:, :, :prompt], k[:, :, :prompt], v[:, :, :prompt], capacity=37)
    outputs = [o]
    for t in range(prompt, 37):
        o, state = method.step(q[:, :, t : t + 1], k[:, :, t : t + 1], v[:, :, t : t + 1], state=state)
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, dim=2), method.reference(q, k, v), rtol=0, atol=1e-10)
    assert method.state_bytes(state) == 2 * 3 * (8 * 5 + 8) * 8


@pytest.mark.usefixtures("fast_transformers")
def test_a_package_without_its_cuda_kernel_is_refused_where_it_is_needed() -> None:
    method = load("linear.fast_transformers")
    cell = Cell(method="linear.fast_transformers", problem=Problem(N=64, causal=True), device="cuda")
    assert "built without CUDA" in (method.why_not(cell) or "")
    assert method.why_not(cell.model_copy(update={"device": "cpu"})) is None
    assert method.why_not(cell.model_copy(update={"problem": Problem(N=64)})) is None


@pytest.mark.usefixtures("performer")
class TestTheFeaturesOfPerformer:
    """Its reference alone; the package is compared with it where it is installed."""

    def test_the_projection_moves_with_the_method(self) -> None:
        method = load("linear.performer_pytorch")(Problem(N=8, D=4), features=6).to(torch.float64)
        assert [(x.shape, x.dtype) for x in method.buffers()] == [((6, 4), torch.float64)]

    def test_many_features_come_close_to_softmax(self) -> None:
        problem = Problem(B=1, H=2, N=40, D=8, dtype="float64")
        x = [0.25 * x for x in load("linear.performer_pytorch").inputs(problem, torch.Generator().manual_seed(1))]
        few, many = (load("linear.performer_pytorch")(problem, features=C).double() for C in (8, 8192))
        exact = many(*x)
        off = [float((m.reference(*x) - exact).norm() / exact.norm()) for m in (few, many)]
        assert off[1] < 0.02 < off[0]

    def test_constant_values_come_out_constant(self) -> None:
        method = load("linear.performer_pytorch")(Problem(**SHAPE), features=7).double()
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        one = torch.ones_like(v)
        torch.testing.assert_close(method.reference(q, k, one), one, rtol=0, atol=1e-12)

    def test_a_key_far_from_all_others_still_counts_by_the_eps_of_its_features(self) -> None:
        method = load("linear.performer_pytorch")(Problem(B=1, H=1, N=2, D=4, dtype="float64"), features=5).double()
        k = torch.tensor([[0.0] * 4, [1e3] * 4], dtype=torch.float64).view(1, 1, 2, 4)
        q, v = torch.zeros_like(k), torch.tensor([0.0, 1.0], dtype=torch.float64).view(1, 1, 2, 1)
        # s is the largest W k̂ of all: thousands here, so that every feature of both keys is eps
        torch.testing.assert_close(method.reference(q, k, v), torch.full_like(v, 0.5), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("linear.fast_transformers", {"kv_heads": 2}, "kv_heads must equal H"),
        ("linear.fast_transformers", {"dtype": "float64", "causal": True}, "float32 only"),
        ("linear.fast_transformers", {"dtype": "bfloat16"}, "its products then refuse"),
        ("linear.performer_pytorch", {"causal": True}, "depend on later keys"),
        ("linear.performer_pytorch", {"kv_heads": 2}, "kv_heads must equal H"),
        ("linear.performer_pytorch", {"dtype": "float16"}, "passes 65504"),
        *((name, {"device": "cpu"}, "run on CUDA devices") for name in FLA),
        *((name, {"causal": False}, "are causal") for name in FLA),
        *((name, {"kv_heads": 2}, "kv_heads must equal H") for name in FLA),
        *((name, {"dtype": "float64"}, "add in float32") for name in FLA),
        *((name, {"dtype": "float16"}, "pass 65504") for name in FLA),
        *((name, {"dtype": "float32"}, "set matmul_precision: high") for name in list(FLA)[:2]),
        ("linear.fla_chunk", {"D": 63}, "even widths"),
    ],
)
def test_each_limit_is_said_in_words(name: str, changes: dict[str, Any], words: str) -> None:
    on_cuda = name in FLA
    shape = {"N": 64, "causal": on_cuda, "dtype": "bfloat16" if on_cuda else "float32", **changes}
    device = shape.pop("device", "cuda" if on_cuda else "cpu")
    assert words in (load(name).why_not(Cell(method=name, problem=Problem(**shape), device=device)) or "")


@pytest.mark.parametrize(
    ("name", "shape", "precision"),
    [
        *((name, {"dtype": "bfloat16"}, "highest") for name in FLA),
        *((name, {"dtype": "float32"}, "high") for name in FLA),
        ("linear.fla_recurrent", {"dtype": "float32", "D": 63}, "highest"),
    ],
)
def test_what_fla_can_do_it_does_not_refuse(name: str, shape: dict[str, Any], precision: str) -> None:
    cell = {"method": name, "problem": Problem(N=64, causal=True, **shape), "matmul_precision": precision, "device": "cuda"}
    assert load(name).why_not(Cell.model_validate(cell)) is None


@pytest.mark.parametrize("name", PEERS)
def test_a_package_that_is_not_there_is_named_with_its_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
    assert f"pip install '{load(name).requires[0]}'" in registry.pip_line(name, registry.missing(load(name)))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("name", PEERS)
def test_their_work_is_at_least_what_the_definition_needs_and_linear(name: str, workload: Workload) -> None:
    short, long = (Problem(B=2, N=N, causal=name != "linear.performer_pytorch") for N in (1024, 4096))
    cost, more = (load(name).cost(p, {}, workload) for p in (short, long))
    assert cost.nominal_flops == nominal_flops(short, workload)
    assert cost.executed_flops >= cost.exact_flops
    assert more.executed_flops == pytest.approx(4 * cost.executed_flops)
    assert 3.5 < more.peak_bytes / cost.peak_bytes <= 4.001


def test_decoding_costs_the_same_at_any_length_and_moves_the_state() -> None:
    cost = load("linear.fast_transformers").cost
    one, far = (cost(Problem(N=N, causal=True), {}, Workload.DECODE) for N in (10, 1000))
    assert one.executed_flops == far.executed_flops
    assert one.traffic_bytes == far.traffic_bytes > 2 * 8 * 64 * 65 * DType.FLOAT32.bytes
    whole = cost(Problem(N=1000, causal=True), {}, Workload.DECODE_TOTAL)
    assert whole.executed_flops == 1000 * one.executed_flops
    assert whole.peak_bytes == one.peak_bytes + 8 * 64 * 65 * 4


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("linear.fast_transformers", {"eps": -1.0}),
        ("linear.performer_pytorch", {"features": 0}),
        ("linear.performer_pytorch", {"features": 2.5}),
        *((name, {"feature_map": "cosine"}) for name in FLA),
    ],
)
@pytest.mark.usefixtures("fla", "fast_transformers", "performer")
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any]) -> None:
    refused = pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be")
    with refused:
        load(name)(Problem(N=8), **params)
    with refused:
        load(name).cost(Problem(N=8), params, Workload.FORWARD)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8), {"colour": 3}, Workload.FORWARD)
