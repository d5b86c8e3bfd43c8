"""Feature maps: what each one is, large inputs, and random rows that all forms normalise alike."""

import math
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.registry import load
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
maps: Any = import_module("attnbench_impls.linear.maps.by_name")
favor: Any = import_module("attnbench_impls.linear.maps.favor")

MAPS = ["elu_plus_one", "relu", "squared_relu", "cosine", "quadratic", "favor", "efficient"]
FORMS = ["linear.full", "linear.chunked", "linear.recurrent", "linear.naive_cumsum"]
PAIRS = [(name, phi) for name in FORMS for phi in MAPS if (name, phi) != ("linear.chunked", "efficient")]


def linear(name: str, feature_map: str, **shape: Any) -> Call:
    params = {"feature_map": feature_map, **({"features": 20} if feature_map == "favor" else {})}
    problem = Problem(**{"B": 2, "H": 2, "D": 6, "causal": name != "linear.full", "dtype": "float64", **shape})
    return Call(Variant(name, params), problem)


def longer(call: Call, *factors: Any) -> Call:
    """The same call on q, k and v times these."""
    call.inputs = tuple((x.detach() * f).requires_grad_() for x, f in zip(call.inputs, factors, strict=True))
    return call


@pytest.mark.parametrize(
    ("name", "feature_map"), [pair for pair in PAIRS if pair[0] != "linear.naive_cumsum" and pair[1] in {"favor", "efficient"}]
)
def test_large_keys_do_not_overflow(name: str, feature_map: str) -> None:
    call = longer(linear(name, feature_map, N=97, D=16, dtype="float32"), 1, torch.linspace(1, 60, 97)[:, None], 1)
    for a, b in zip(call.results(), call.exact(), strict=True):
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

    def test_taylor_is_the_series_up_to_the_square(self, qk: tuple[Tensor, Tensor]) -> None:
        s = qk[0] @ qk[1].mT / 6**0.5
        torch.testing.assert_close(self.similarity(maps.feature_map("taylor", 6), *qk), 1 + s + s * s / 2)

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


def test_one_draw_serves_forward_and_reference_and_moves_with_the_module() -> None:
    problem = Problem(B=1, H=2, N=20, D=8, causal=True)
    first, again = (Call(Variant("linear.chunked", {"feature_map": "favor"}), problem) for _ in range(2))
    assert torch.equal(first.forward(), again.forward())
    assert not torch.equal(first.forward(), build("linear.chunked", problem, feature_map="favor")(*first.inputs))
    assert {b.dtype for b in first.method.double().buffers()} == {torch.float32}


@pytest.mark.parametrize(("dtype", "slack"), [("float32", 1e-4), ("bfloat16", 4e-3)])
@pytest.mark.parametrize("scale", [1, 3, 6])
@pytest.mark.parametrize("D", [16, 64, 128])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked"])
def test_the_weights_of_random_features_sum_to_one_however_long_the_inputs_are(
    name: str, D: int, scale: int, dtype: str, slack: float
) -> None:
    problem = Problem(B=1, H=1, N=512, D=D, causal=name != "linear.full", dtype=dtype)
    call = longer(Call(Variant(name, {"feature_map": "favor"}), problem), scale, scale, 1)
    o = call.forward(*call.inputs[:2], torch.ones_like(call.inputs[2]))
    torch.testing.assert_close(o, torch.ones_like(o), rtol=0, atol=slack)
    for gradient in call.results()[1:]:
        assert gradient.isfinite().all()
        assert gradient.any()


@pytest.mark.parametrize("scale", [3, 30])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked", "linear.recurrent"])
def test_all_forms_of_random_features_normalise_alike(name: str, scale: int) -> None:
    problem = Problem(B=1, H=2, N=97, D=32, causal=name != "linear.full")
    call = longer(Call(Variant(name, {"feature_map": "favor"}), problem), scale, scale, 1)
    method, want = call.method, call.exact()
    # at 30 times the length most denominators are beyond float32: those rows give 0, in float64 too
    for function in ("forward", "reference"):
        for a, b in zip(call.results(function), want, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-3 * float(b.abs().max()))
    at, inputs = torch.tensor([0, 1, 50, 96]), [x.detach() for x in call.inputs]
    torch.testing.assert_close(method.rows(1, at, *(x[0, 1] for x in inputs)).double(), want[0][0, 1, at], rtol=0, atol=1e-3)
    if name != "linear.full":
        first, state = method.prefill(*(x[:, :, :60] for x in inputs), capacity=97)
        second, state = method.extend(*(x[:, :, 60:96] for x in inputs), state=state)
        last, _ = method.step(*(x[:, :, 96:] for x in inputs), state=state)
        torch.testing.assert_close(torch.cat([first, second, last], dim=2).double(), want[0], rtol=0, atol=1e-3)


def test_eps_follows_the_map_unless_it_is_given() -> None:
    problem = Problem(N=8, D=4, causal=True)
    found = {name: build("linear.chunked", problem, feature_map=name) for name in ("elu_plus_one", "relu", "taylor", "favor")}
    assert {name: method.eps for name, method in found.items()} == {name: 1e-30 if name == "favor" else 1e-6 for name in found}
    assert build("linear.recurrent", problem, feature_map="favor", eps=1e-3).eps == 1e-3


def test_the_random_rows_are_not_rounded_with_the_inputs() -> None:
    method = build("linear.full", Problem(N=8, D=8), feature_map="favor")
    (drawn,) = (x.clone() for x in method.buffers())
    (kept,) = method.to(torch.bfloat16).buffers()
    assert torch.equal(kept, drawn)


def test_costs_draw_nothing() -> None:
    problem = Problem(N=64, causal=True)
    torch.manual_seed(5)
    load("linear.chunked").cost(problem, {"feature_map": "favor"}, Workload.FORWARD)
    drawn = torch.randn(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.randn(3))
