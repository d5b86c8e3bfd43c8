"""The packages of others, by stand-ins that compute their definitions: how they are called, what they refuse and cost."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench import Problem
from attnbench.api import Cell
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.subjects import Variant
from tests.impls.peers.stand_ins import Calls, install, is_its_definition, load, masks_of_fast_transformers

SHAPE: dict[str, Any] = {"B": 2, "H": 3, "N": 37, "D": 8, "M": 5, "dtype": "float64"}


@pytest.fixture
def fast_transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """pytorch-fast-transformers' modules, [B, N, H, ·] as theirs, and a recurrence that adds in place."""
    calls: Calls = []

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
    install(monkeypatch, "fast_transformers.causal_product")
    with masks_of_fast_transformers(monkeypatch, "linear.fast_transformers"):
        yield calls


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


def called(causal: bool = False, **params: Any) -> Call:
    return Call(Variant("linear.fast_transformers", params), Problem(**SHAPE, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_fast_transformers_gets_its_own_layout_eps_and_all_keys_by_masks_that_it_keeps(
    causal: bool, fast_transformers: Calls
) -> None:
    method = called(causal, eps=0.5).method
    is_its_definition(method)
    method(*inputs_of(method))
    call, again = fast_transformers
    assert (call["pairs"], call["keys"]) == (again["pairs"], again["keys"])
    assert call["module"] == ("CausalLinear" if causal else "Linear")
    assert call["q"].shape == (2, 37, 3, 8)
    assert call["q"].is_contiguous()
    assert call["keys"].float_matrix.equal(torch.ones(2, 37))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("fast_transformers")
def test_fast_transformers_hides_any_keys(causal: bool) -> None:
    call, key_mask = called(causal), torch.rand(2, 37) < 0.6
    same([call.forward(key_mask=key_mask)], call.exact(key_mask=key_mask)[:1], 1e-10)


@pytest.mark.parametrize("prompt", [0, 1, 20])
@pytest.mark.usefixtures("fast_transformers")
def test_fast_transformers_decodes_by_its_own_recurrence(prompt: int) -> None:
    call = called(causal=True)
    same([call.decoded(prompt)], call.exact()[:1], 1e-10)
    _, state = call.method.prefill(*(x.detach() for x in call.inputs), capacity=37)
    assert call.method.state_bytes(state) == 2 * 3 * (8 * 5 + 8) * 8


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

    def test_many_features_come_close_to_softmax(self) -> None:
        problem = Problem(B=1, H=2, N=40, D=8, dtype="float64")
        x = [0.25 * x for x in load("linear.performer_pytorch").inputs(problem, torch.Generator().manual_seed(1))]
        few, many = (load("linear.performer_pytorch")(problem, features=C).double() for C in (8, 8192))
        exact = many(*x)
        off = [float((m.reference(*x) - exact).norm() / exact.norm()) for m in (few, many)]
        assert off[1] < 0.02 < off[0]

    def test_a_key_far_from_all_others_still_counts_by_the_eps_of_its_features(self) -> None:
        method = load("linear.performer_pytorch")(Problem(B=1, H=1, N=2, D=4, dtype="float64"), features=5).double()
        k = torch.tensor([[0.0] * 4, [1e3] * 4], dtype=torch.float64).view(1, 1, 2, 4)
        q, v = torch.zeros_like(k), torch.tensor([0.0, 1.0], dtype=torch.float64).view(1, 1, 2, 1)
        # s is the largest W k̂ of all: thousands here, so that every feature of both keys is eps
        torch.testing.assert_close(method.reference(q, k, v), torch.full_like(v, 0.5), rtol=0, atol=1e-9)
