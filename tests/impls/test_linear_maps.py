"""Every feature map, by every algorithm: values, gradients, hidden keys, causality, and what each map is."""

import copy
import math
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Attention, Cell
from attnbench.registry import load

# by name: installed under another name than that of its folder
maps: Any = import_module("attnbench_impls.linear.maps")
favor: Any = import_module("attnbench_impls.linear.favor")

MAPS = ["elu_plus_one", "relu", "squared_relu", "cosine", "quadratic", "favor", "efficient"]
CAUSAL = ["linear.chunked", "linear.recurrent", "linear.naive_cumsum"]
PAIRS = [
    (name, feature_map)
    for name in ("linear.full", *CAUSAL)
    for feature_map in MAPS
    if (name, feature_map) != ("linear.chunked", "efficient")
]


def method_of(name: str, feature_map: str, **shape: Any) -> Attention:
    problem = Problem(**{"B": 2, "H": 2, "D": 6, "causal": name != "linear.full", "dtype": "float64", **shape})
    params = {"features": 20} if feature_map == "favor" else {}
    return build(name, problem, feature_map=feature_map, **params).to(getattr(torch, problem.dtype))


def values_and_gradients(function: Any, inputs: Any, g: Tensor, **keywords: Any) -> list[Tensor]:
    o = function(*inputs, **keywords)
    return [o.detach(), *torch.autograd.grad(o, inputs, g)]


@pytest.mark.parametrize("N", [1, 63, 64, 97])
@pytest.mark.parametrize(("name", "feature_map"), PAIRS)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, feature_map: str, N: int, inputs_of: Any, gradient_of: Any
) -> None:
    method = method_of(name, feature_map, N=N, M=5)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (values_and_gradients(f, inputs, g) for f in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "feature_map"), PAIRS)
def test_hidden_keys_contribute_nothing_anywhere(name: str, feature_map: str, inputs_of: Any, gradient_of: Any) -> None:
    method = method_of(name, feature_map, N=97, M=5)
    inputs, g = inputs_of(method), gradient_of(method)
    key_mask = torch.rand(2, 97) > 0.4
    key_mask[0, :3] = False  # nothing to see at all at first
    got, want = (values_and_gradients(f, inputs, g, key_mask=key_mask) for f in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    for gradient in got[2:]:
        assert not gradient.transpose(1, 2)[~key_mask].any()

    q, k, v = (x.detach() for x in inputs)
    for x in (k, v):
        x.transpose(1, 2)[~key_mask] += 3
    torch.testing.assert_close(method(q, k, v, key_mask=key_mask), got[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "feature_map"), [pair for pair in PAIRS if pair[0] != "linear.full"])
def test_the_future_changes_nothing_before_it(name: str, feature_map: str, inputs_of: Any) -> None:
    method = method_of(name, feature_map, N=97, dtype="float32")
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 70:] = 5 - 3 * x[:, :, 70:]
    assert torch.equal(method(q, k, v)[:, :, :70], o[:, :, :70])


@pytest.mark.parametrize(("name", "feature_map"), [pair for pair in PAIRS if pair[0] != "linear.full"])
def test_the_last_causal_row_sees_everything(name: str, feature_map: str, inputs_of: Any) -> None:
    causal, full = method_of(name, feature_map, N=80), method_of("linear.full", feature_map, N=80)
    causal.load_state_dict(full.state_dict())
    inputs = inputs_of(full)
    torch.testing.assert_close(causal(*inputs)[:, :, -1], full(*inputs)[:, :, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "feature_map"), PAIRS)
def test_constant_values_come_out_constant(name: str, feature_map: str, inputs_of: Any) -> None:
    method: Any = method_of(name, feature_map, N=70)
    method.eps = 0.0
    q, k, v = inputs_of(method)
    # a query whose map is 0 sees nothing: take one that relu leaves something of
    o = method(q.abs(), k.abs(), torch.ones_like(v))
    torch.testing.assert_close(o, torch.ones_like(o), rtol=0, atol=1e-12)


@pytest.mark.parametrize("feature_map", MAPS)
def test_the_quick_value_and_pull_back_are_those_of_the_definition(feature_map: str) -> None:
    phi = maps.feature_map(feature_map, 6).double()
    x = torch.randn(3, 11, 6, dtype=torch.float64).mul_(3).requires_grad_()
    want = phi(x)
    value, g = phi.value(x), torch.randn_like(want)
    torch.testing.assert_close(value, want, rtol=1e-14, atol=1e-14)
    (dx,) = torch.autograd.grad(want, x, g)
    torch.testing.assert_close(phi.pull_back(x.detach(), value, g.clone()), dx, rtol=0, atol=1e-12)
    assert want.shape == (3, 11, phi.width(6))


@pytest.mark.parametrize("feature_map", ["favor", "efficient"])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked", "linear.recurrent"])
def test_large_keys_do_not_overflow(name: str, feature_map: str, inputs_of: Any, gradient_of: Any) -> None:
    if (name, feature_map) == ("linear.chunked", "efficient"):
        return
    method = method_of(name, feature_map, N=97, D=16, dtype="float32")
    q, k, v = (x.detach() for x in inputs_of(method))
    k *= torch.linspace(1, 60, 97)[:, None]
    inputs, g = [x.requires_grad_() for x in (q, k, v)], gradient_of(method)
    got = values_and_gradients(method, inputs, g)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    want = values_and_gradients(method.double().reference, wide, g.double())
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


class TestWhatEachMapIs:
    def similarity(self, phi: Any, q: Tensor, k: Tensor) -> Tensor:
        visible = torch.ones(1, 1, 1, k.shape[2], dtype=torch.bool)
        similarity: Tensor = phi.similarity(q, k, visible)
        return similarity

    @pytest.fixture
    def qk(self) -> tuple[Tensor, Tensor]:
        return torch.randn(2, 3, 7, 6, dtype=torch.float64), torch.randn(2, 3, 9, 6, dtype=torch.float64)

    def test_cosine_is_one_plus_the_cosine(self, qk: tuple[Tensor, Tensor]) -> None:
        q, k = qk
        want = 1 + torch.nn.functional.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)
        torch.testing.assert_close(self.similarity(maps.feature_map("cosine", 6), q, k), want)
        assert self.similarity(maps.feature_map("cosine", 6), q, -q).diagonal(dim1=2, dim2=3).abs().max() < 1e-15

    def test_quadratic_is_the_square_of_the_product(self, qk: tuple[Tensor, Tensor]) -> None:
        q, k = qk
        got = self.similarity(maps.feature_map("quadratic", 6), q, k)
        torch.testing.assert_close(got, (q @ k.mT).square())
        torch.testing.assert_close(self.similarity(maps.feature_map("quadratic", 6), q, -k), got)

    def test_efficient_is_two_softmaxes_and_sums_to_one(self, qk: tuple[Tensor, Tensor]) -> None:
        q, k = qk
        got = self.similarity(maps.feature_map("efficient", 6), q, k)
        torch.testing.assert_close(got, q.softmax(-1) @ k.softmax(-2).mT)
        torch.testing.assert_close(got.sum(-1), torch.ones_like(got[..., 0]))

    def test_favor_is_the_product_of_features_up_to_a_factor_of_each_query(self, qk: tuple[Tensor, Tensor]) -> None:
        q, k = qk
        phi = maps.feature_map("favor", 6, 12).double()
        projected = (x @ phi.projection.double().mT - x.square().sum(-1, keepdim=True) / (2 * math.sqrt(6)) for x in (q, k))
        eq, ek = (x.exp() for x in projected)
        want = eq @ ek.mT
        got = self.similarity(phi, q, k)
        torch.testing.assert_close(got / got[..., :1], want / want[..., :1])
        assert got.max() <= 12

    def test_favor_estimates_the_softmax_without_bias_and_its_error_falls(self) -> None:
        q, k = torch.randn(1, 1, 12, 16, dtype=torch.float64) / 4, torch.randn(1, 1, 12, 16, dtype=torch.float64) / 4
        want = (q @ k.mT / 4).softmax(-1)

        def error(m: int) -> float:
            draws = [self.similarity(maps.feature_map("favor", 16, m).double(), q, k) for _ in range(20)]
            return float(torch.stack([s / s.sum(-1, keepdim=True) - want for s in draws]).square().mean().sqrt())

        few, many = error(16), error(1024)
        # 64 times the features: an eighth of the error
        assert 4 < few / many < 16

    def test_random_rows_are_orthogonal_and_uniform(self) -> None:
        rows = favor.orthogonal_gaussian(4 * 3000, 4)
        blocks = torch.nn.functional.normalize(rows, dim=1).unflatten(0, (-1, 4))
        torch.testing.assert_close(blocks @ blocks.mT, torch.eye(4).expand(3000, 4, 4), rtol=0, atol=1e-5)
        # LAPACK's own signs would put the first row's mean at -0.4
        assert blocks.mean(0).abs().max() < 0.05
        assert rows.square().mean() == pytest.approx(1, abs=0.05)


def test_one_draw_serves_forward_and_reference_and_moves_with_the_module(inputs_of: Any) -> None:
    problem = Problem(B=1, H=2, N=20, D=8, causal=True)
    torch.manual_seed(3)
    first = build("linear.chunked", problem, feature_map="favor")
    torch.manual_seed(3)
    again = build("linear.chunked", problem, feature_map="favor")
    inputs = inputs_of(first)
    assert torch.equal(first(*inputs), again(*inputs))
    assert not torch.equal(first(*inputs), build("linear.chunked", problem, feature_map="favor")(*inputs))
    assert {b.dtype for b in first.double().buffers()} == {torch.float32}


@pytest.mark.parametrize(("dtype", "slack"), [("float32", 1e-4), ("bfloat16", 4e-3)])
@pytest.mark.parametrize("scale", [1, 3, 6])
@pytest.mark.parametrize("D", [16, 64, 128])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked"])
def test_the_weights_of_random_features_sum_to_one_however_long_the_inputs_are(
    name: str, D: int, scale: int, dtype: str, slack: float, inputs_of: Any, gradient_of: Any
) -> None:
    method = build(name, Problem(B=1, H=1, N=512, D=D, causal=name != "linear.full", dtype=dtype), feature_map="favor")
    q, k, v = (x.detach() for x in inputs_of(method))
    inputs = [x.requires_grad_() for x in (scale * q, scale * k, v)]
    o = method(*inputs[:2], torch.ones_like(v))
    torch.testing.assert_close(o, torch.ones_like(o), rtol=0, atol=slack)
    for gradient in values_and_gradients(method, inputs, gradient_of(method))[1:]:
        assert gradient.isfinite().all()
        assert gradient.any()


@pytest.mark.parametrize("scale", [3, 30])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked", "linear.recurrent"])
def test_all_forms_of_random_features_normalise_alike(name: str, scale: int, inputs_of: Any, gradient_of: Any) -> None:
    method: Any = build(name, Problem(B=1, H=2, N=97, D=32, causal=name != "linear.full"), feature_map="favor")
    q, k, v = (x.detach() for x in inputs_of(method))
    inputs, g = [x.requires_grad_() for x in (scale * q, scale * k, v)], gradient_of(method)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    want = values_and_gradients(copy.deepcopy(method).double().reference, wide, g.double())
    # at 30 times the length most denominators are beyond float32: those rows give 0, in float64 too
    for function in (method, method.reference):
        for a, b in zip(values_and_gradients(function, inputs, g), want, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-3 * float(b.abs().max()))
    at = torch.tensor([0, 1, 50, 96])
    torch.testing.assert_close(method.rows(1, at, *(x[0, 1] for x in inputs)).double(), want[0][0, 1, at], rtol=0, atol=1e-3)
    if name != "linear.full":
        first, state = method.prefill(*(x[:, :, :60] for x in inputs), capacity=97)
        second, _ = method.extend(*(x[:, :, 60:96] for x in inputs), state)
        last, _ = method.step(*(x.detach()[:, :, 96:] for x in inputs), state=state)
        torch.testing.assert_close(torch.cat([first, second, last], dim=2).double(), want[0], rtol=0, atol=1e-3)


def test_eps_follows_the_map_unless_it_is_given() -> None:
    problem = Problem(N=8, D=4, causal=True)
    found = {name: build("linear.chunked", problem, feature_map=name) for name in ("elu_plus_one", "relu", "taylor", "favor")}
    assert {name: method.eps for name, method in found.items()} == {name: 1e-30 if name == "favor" else 1e-6 for name in found}
    assert build("linear.recurrent", problem, feature_map="favor", eps=1e-3).eps == 1e-3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "favor"])
@pytest.mark.parametrize("name", ["linear.full", *CAUSAL])
def test_a_query_that_sees_nothing_gives_nothing_and_leaves_gradients_finite(
    name: str, feature_map: str, dtype: str, inputs_of: Any, gradient_of: Any
) -> None:
    method = method_of(name, feature_map, N=97, dtype=dtype)
    inputs, key_mask = inputs_of(method), torch.rand(2, 97) > 0.4
    key_mask[0, :3], key_mask[1] = False, False
    o, *gradients = values_and_gradients(method, inputs, gradient_of(method), key_mask=key_mask)
    assert not o[1].any()
    assert all(x.isfinite().all() and x[0].any() and not x[1].any() for x in gradients)


def test_the_random_rows_are_not_rounded_with_the_inputs() -> None:
    method = build("linear.full", Problem(N=8, D=8), feature_map="favor")
    (drawn,) = (x.clone() for x in method.buffers())
    (kept,) = method.to(torch.bfloat16).buffers()
    assert torch.equal(kept, drawn)


def test_costs_draw_nothing() -> None:
    problem = Problem(N=64, causal=True)
    torch.manual_seed(5)
    load("linear.chunked").cost(problem, {"feature_map": "favor"}, Cell(method="x", problem=problem).workload)
    drawn = torch.randn(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.randn(3))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"feature_map": "gelu"}, "feature_map='gelu': must be one of elu_plus_one"),
        ({"feature_map": "relu", "features": 8}, "features=8: must be left out"),
        ({"feature_map": "favor", "features": 0}, "features=0: it counts"),
        ({"feature_map": "favor", "features": 2.5}, "features=2.5: it counts"),
        ({"feature_map": "favor", "features": True}, "features=True: it counts"),
    ],
)
def test_a_bad_map_is_refused_by_name(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build("linear.full", Problem(N=8), **params)


@pytest.mark.parametrize(
    ("name", "shape", "params", "words"),
    [
        ("linear.chunked", {"causal": True}, {"feature_map": "efficient"}, "linear.recurrent does it"),
        ("linear.recurrent", {"causal": False}, {}, "linear.full does the one without a mask"),
        ("linear.recurrent", {"causal": True, "kv_heads": 2}, {}, "kv_heads must equal H"),
        ("linear.naive_cumsum", {"causal": False}, {}, "linear.full does the one without a mask"),
    ],
)
def test_an_unsupported_cell_says_why(name: str, shape: dict[str, Any], params: dict[str, Any], words: str) -> None:
    assert words in (load(name).refusal(Cell(method=name, problem=Problem(N=8, **shape), params=params)) or "")


def test_shared_heads_of_keys_serve_the_cumulative_sum_too(inputs_of: Any) -> None:
    for feature_map in ("elu_plus_one", "favor", "efficient"):
        method = method_of("linear.naive_cumsum", feature_map, H=4, kv_heads=2, N=20, M=3)
        inputs = inputs_of(method)
        torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-12)
