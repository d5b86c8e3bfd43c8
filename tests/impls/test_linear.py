"""Linear attention: what each feature map is, large inputs, segments, random rows, averages, and what half precision keeps."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak
from tests.impls.contract.calls import Call
from tests.impls.contract.method import BOTH, FORWARD
from tests.impls.contract.subjects import Variant, cost_of

# by name: installed under another name than that of its folder
maps: Any = import_module("attnbench_impls.linear.maps.by_name")
favor: Any = import_module("attnbench_impls.linear.maps.favor")
prefix: Any = import_module("attnbench_impls.linear.eager.prefix")
causal_product: Any = import_module("attnbench_impls.linear.eager.causal_product")

MAPS = ["elu_plus_one", "relu", "squared_relu", "cosine", "quadratic", "favor", "efficient"]
FORMS = ["linear.full", "linear.chunked", "linear.recurrent"]
PAIRS = [(name, phi) for name in FORMS for phi in MAPS if (name, phi) != ("linear.chunked", "efficient")]


def linear(name: str, feature_map: str = "elu_plus_one", *factors: Any, **shape: Any) -> Call:
    """A call of one sequence, causal where there is a form; on q, k and v times the factors, where some are given."""
    problem = Problem(**{"B": 1, "H": 1, "causal": name != "linear.full", **shape})
    call = Call(Variant(name, {"feature_map": feature_map}), problem)
    if factors:
        call.inputs = tuple((x.detach() * f).requires_grad_() for x, f in zip(call.inputs, factors, strict=True))
    return call


def similarity(phi: Any, q: Tensor, k: Tensor) -> Tensor:
    found: Tensor = phi.similarity(q, k, torch.ones(1, 1, 1, k.shape[2], dtype=torch.bool))
    return found


SIMILARITY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda q, k: 1 + F.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1),
    "quadratic": lambda q, k: (q @ k.mT).square(),
    "taylor": lambda q, k: 1 + q @ k.mT / 6**0.5 + (q @ k.mT / 6**0.5).square() / 2,
    "efficient": lambda q, k: q.softmax(-1) @ k.softmax(-2).mT,
}


@pytest.mark.parametrize("name", SIMILARITY)
def test_each_map_is_the_similarity_of_its_name(name: str) -> None:
    q, k = torch.randn(2, 3, 7, 6, dtype=torch.float64), torch.randn(2, 3, 9, 6, dtype=torch.float64)
    torch.testing.assert_close(similarity(maps.feature_map(name, 6), q, k), SIMILARITY[name](q, k))
    if name == "cosine":
        assert similarity(maps.feature_map(name, 6), q, -q).diagonal(dim1=2, dim2=3).abs().max() < 1e-15


def test_favor_is_the_product_of_features_up_to_a_factor_of_each_query() -> None:
    q, k = torch.randn(2, 3, 7, 6, dtype=torch.float64), torch.randn(2, 3, 9, 6, dtype=torch.float64)
    phi = maps.feature_map("favor", 6, 12).double()
    projected = (x @ phi.projection.double().mT - x.square().sum(-1, keepdim=True) / (2 * math.sqrt(6)) for x in (q, k))
    eq, ek = (x.exp() for x in projected)
    want, got = eq @ ek.mT, similarity(phi, q, k)
    torch.testing.assert_close(got / got[..., :1], want / want[..., :1])
    assert got.max() <= 12


def test_favor_estimates_the_softmax_without_bias_and_its_error_falls() -> None:
    q, k = torch.randn(1, 1, 12, 16, dtype=torch.float64) / 4, torch.randn(1, 1, 12, 16, dtype=torch.float64) / 4
    want = (q @ k.mT / 4).softmax(-1)

    def error(m: int) -> float:
        draws = [similarity(maps.feature_map("favor", 16, m).double(), q, k) for _ in range(20)]
        return float(torch.stack([s / s.sum(-1, keepdim=True) - want for s in draws]).square().mean().sqrt())

    few, many = error(16), error(1024)
    # 64 times the features: an eighth of the error
    assert 4 < few / many < 16


def test_random_rows_are_orthogonal_and_uniform() -> None:
    rows = favor.orthogonal_gaussian(4 * 3000, 4)
    blocks = F.normalize(rows, dim=1).unflatten(0, (-1, 4))
    torch.testing.assert_close(blocks @ blocks.mT, torch.eye(4).expand(3000, 4, 4), rtol=0, atol=1e-5)
    # LAPACK's own signs would put the first row's mean at -0.4
    assert blocks.mean(0).abs().max() < 0.05
    assert rows.square().mean() == pytest.approx(1, abs=0.05)


def test_rows_are_drawn_once_by_who_is_built_and_are_not_rounded() -> None:
    first, again = (linear("linear.chunked", "favor", N=20, D=8) for _ in range(2))
    assert torch.equal(first.forward(), again.forward())
    assert not torch.equal(first.forward(), build("linear.chunked", first.problem, feature_map="favor")(*first.inputs))
    (drawn,), (kept,) = first.method.buffers(), again.method.to(torch.bfloat16).buffers()
    assert torch.equal(kept, drawn)


@pytest.mark.parametrize(("dtype", "slack"), [("float32", 1e-4), ("bfloat16", 4e-3)])
@pytest.mark.parametrize("scale", [1, 3, 6])
@pytest.mark.parametrize("D", [16, 64, 128])
@pytest.mark.parametrize("name", ["linear.full", "linear.chunked"])
def test_the_weights_of_random_features_sum_to_one_however_long_the_inputs_are(
    name: str, D: int, scale: int, dtype: str, slack: float
) -> None:
    call = linear(name, "favor", scale, scale, 1, N=512, D=D, dtype=dtype)
    o = call.forward(*call.inputs[:2], torch.ones_like(call.inputs[2]))
    torch.testing.assert_close(o, torch.ones_like(o), rtol=0, atol=slack)
    for gradient in call.results()[1:]:
        assert gradient.isfinite().all()
        assert gradient.any()


@pytest.mark.parametrize("scale", [3, 30])
@pytest.mark.parametrize("name", FORMS)
def test_all_forms_of_random_features_normalise_alike(name: str, scale: int) -> None:
    call = linear(name, "favor", scale, scale, 1, H=2, N=97, D=32)
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


@pytest.mark.parametrize(("name", "feature_map"), [pair for pair in PAIRS if pair[1] in {"favor", "efficient"}])
def test_large_keys_do_not_overflow(name: str, feature_map: str) -> None:
    call = linear(name, feature_map, 1, torch.linspace(1, 60, 97)[:, None], 1, B=2, H=2, N=97, D=16)
    for a, b in zip(call.results(), call.exact(), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


def test_eps_is_added_to_the_denominator_and_follows_the_map_unless_it_is_given() -> None:
    zero, one = torch.zeros(1, 1, 1, 4, dtype=torch.float64), torch.ones(1, 1, 1, 4, dtype=torch.float64)
    for name in FORMS:
        method = build(name, Problem(B=1, H=1, N=1, D=4, causal=name != "linear.full", dtype="float64"), eps=4.0)
        # φ(0)·φ(0) = D = 4, so o = 4 / (4 + 4)
        torch.testing.assert_close(method(zero, zero, one), one / 2)
    found = {phi: linear("linear.chunked", phi, N=8, D=4).method.eps for phi in ("elu_plus_one", "relu", "taylor", "favor")}
    assert found == {"elu_plus_one": 1e-6, "relu": 1e-6, "taylor": 1e-6, "favor": 1e-30}
    assert build("linear.recurrent", Problem(N=8, D=4, causal=True), feature_map="favor", eps=1e-3).eps == 1e-3


def test_walking_and_scanning_the_states_agree() -> None:
    added, state = torch.randn(2, 5, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    walked, scanned = state.clone(), state.clone()
    torch.testing.assert_close(prefix._walk(added, walked, range(5)), prefix._scan(added, scanned))
    torch.testing.assert_close(walked, scanned)


@pytest.mark.parametrize(("count", "every"), [(1, 1), (2, 2), (100, 10), (101, 11)])
def test_states_that_outgrow_the_output_are_kept_every_so_often(count: int, every: int) -> None:
    assert causal_product.spacing(count, state=10, output=count * 10) == 1
    assert causal_product.spacing(count, state=10, output=count * 10 - 1) == every


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("name", "feature_map"), PAIRS)
def test_training_takes_at_most_eight_times_the_inputs(name: str, feature_map: str) -> None:
    # token by token takes its time
    N = 1024 if name == "linear.recurrent" else 4096
    call = linear(name, feature_map, N=N, D=32)
    call.results()
    peak = torch_profiler_peak(call.results).bytes
    assert peak is not None
    assert peak <= 8 * (3 * N * 32 * 4)


def test_a_long_sequence_of_small_steps_does_not_drift() -> None:
    call = linear("linear.recurrent", N=2000, D=6)
    torch.testing.assert_close(call.decoded(0).double(), call.exact()[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["linear.full", "linear.chunked"])
def test_float16_survives_denominators_that_it_cannot_hold(name: str) -> None:
    call = linear(name, N=4096, D=64, dtype="float16")
    call.g = None
    o, r = (x[..., -1, :].double() for x in (call.forward(), call.exact()[0]))
    assert float((o - r).abs().max()) < 1e-3 < float(r.abs().max())


def test_bfloat16_keeps_its_state_in_float32() -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    method = build("linear.chunked", Problem(B=1, H=1, N=4096, D=8, causal=True, dtype="bfloat16"), chunk=4)
    k = torch.zeros(1, 1, 4096, 8, dtype=torch.bfloat16)
    v = torch.cat([torch.zeros(1, 1, 2048, 8), torch.ones(1, 1, 2048, 8)], dim=2).bfloat16()
    torch.testing.assert_close(method(k, k, v)[0, 0, -1].float(), torch.full((8,), 0.5), rtol=0.02, atol=0)


@pytest.mark.parametrize("params", [{}, {"feature_map": "favor", "features": 64}, {"feature_map": "taylor"}], ids=str)
def test_the_products_of_chunks_are_those_that_are_counted(params: dict[str, Any]) -> None:
    """Of a wide map only some states are kept, and the backward sums up the keys between them again."""
    params, shape = {"chunk": 8, **params}, {"B": 1, "H": 2, "kv_heads": 1, "N": 150, "D": 8, "causal": True}
    call = Call(Variant("linear.chunked", params), Problem(**shape))
    in_place = {torch.ops.aten.baddbmm_: lambda _, a, b, **__: 2 * a.numel() * b[-1]}
    for workload in (FORWARD, BOTH):
        with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
            o = call.method(*call.inputs)
            if workload is BOTH:
                o.backward(call.g)
        assert counter.get_total_flops() == cost_of("linear.chunked", call.problem, workload, params).executed_flops


def test_based_is_the_chunked_form_with_that_map() -> None:
    problem = Problem(B=1, H=2, N=100, D=16, causal=True)
    based, chunked = Variant("linear.based", {"chunk": 32}), Variant("linear.chunked", {"chunk": 32, "feature_map": "taylor"})
    for a, b in zip(Call(based, problem).results(), Call(chunked, problem).results(), strict=True):
        assert torch.equal(a, b)
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL):
        assert based.kind.cost(problem, based.params, workload) == chunked.kind.cost(problem, chunked.params, workload)
