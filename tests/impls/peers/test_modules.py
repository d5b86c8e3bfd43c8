"""Attention modules of other packages, by stand-ins: how they are made and called, what they refuse and cost."""

import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench import Problem
from attnbench.api import Cell, Workload
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.families.lsh import METHODS
from tests.impls.contract.subjects import Variant
from tests.impls.peers.stand_ins import install, load

LINEAR, HUGGING, FAST = "linear.fast_transformers", "lsh.transformers", "lsh.fast_transformers"
PEERS = [HUGGING, FAST]
SHAPE: dict[str, Any] = {"B": 2, "H": 3, "N": 64, "D": 8, "dtype": "float64"}
HASHED: dict[str, Any] = {"rounds": 2, "bucket_size": 16, "bits": 5, "masked": True}
Answer = namedtuple("Answer", ["hidden_states", "attention_probs", "buckets"])


class FullMask:
    """That of pytorch-fast-transformers: of a shape, all of it seen, or of what it is given."""

    causal = False

    def __init__(self, *shape: Any, device: Any = None) -> None:
        self.float_matrix = shape[0].float() if isinstance(shape[0], Tensor) else torch.ones(shape, device=device)


class TriangularCausalMask(FullMask):
    """The triangle of so many tokens."""

    causal = True

    def __init__(self, N: int, device: Any = None) -> None:
        super().__init__(N, N, device=device)


class OfFastTransformers(nn.Module):
    """A module of pytorch-fast-transformers, [B, N, H, ·] as theirs. Knows how it was made and called."""

    attend: Callable[..., Any]

    def __init__(self, *_: int, **options: Any) -> None:
        super().__init__()
        self.options, self.calls = options, list[Any]()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Any, _: None, keys: Any) -> Any:
        self.calls.append((q, pairs, keys))
        return self.attend(q, k, v, pairs, keys)


class Linear(OfFastTransformers):
    """`LinearAttention`."""

    causal = False

    def attend(self, q: Tensor, k: Tensor, v: Tensor, _: Any, keys: Any) -> Tensor:
        q, k = nn.functional.elu(q) + 1, (nn.functional.elu(k) + 1) * keys.float_matrix[:, :, None, None]
        weights = torch.einsum("nlhd,nshd->nhls", q, k)
        weights = weights.tril() if self.causal else weights
        return torch.einsum("nhls,nshm,nhl->nlhm", weights, v, 1 / (weights.sum(-1) + self.options["eps"]))


class CausalLinear(Linear):
    """`CausalLinearAttention`."""

    causal = True


class Recurrent(OfFastTransformers):
    """`RecurrentLinearAttention`, which adds in place."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, state: Any) -> Any:  # type: ignore[override]
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        state[0].add_(k[..., None] * v[..., None, :])
        state[1].add_(k)
        denominator = (q * state[1]).sum(-1, keepdim=True) + self.options["eps"]
        return (q[..., None] * state[0]).sum(-2) / denominator, state


class Reformer(OfFastTransformers):
    """`ReformerAttention`, one round after the other."""

    def attend(self, q: Tensor, _: Tensor, v: Tensor, pairs: Any, __: Any) -> Any:
        return sum(self.one_round(q, v, pairs) for _ in range(self.options["rounds"])) / self.options["rounds"]

    def one_round(self, q: Tensor, v: Tensor, pairs: Any) -> Any:
        N, m = q.shape[1], self.options["chunk_size"]
        order_BNH = torch.argsort(torch.randint(2 * self.options["bits"], q.shape[:3]), dim=1)
        place = order_BNH.transpose(1, 2).flatten(0, 1)

        def sort(x: Tensor) -> Any:
            x = x.transpose(1, 2).flatten(0, 1)
            return x.gather(1, place[..., None].expand_as(x)).unflatten(1, (-1, m))

        i, j = place.unflatten(1, (-1, m)), neighbours(place.unflatten(1, (-1, m)), (-1, 0))
        hidden = torch.zeros(len(place), N // m, m, 2 * m, dtype=torch.bool)
        hidden[:, 0, :, :m] = True
        if pairs.causal:
            hidden |= i[..., None] < j[:, :, None, :]
        if self.options["masked"]:
            hidden |= (i[..., None] == j[:, :, None, :]) & ~(hidden | (i[..., None] == j[:, :, None, :])).all(-1, keepdim=True)
        logits = sort(q) @ neighbours(sort(nn.functional.normalize(q, dim=-1)), (-1, 0)).mT / q.shape[-1] ** 0.5
        o = logits.masked_fill(hidden, -torch.inf).softmax(-1) @ neighbours(sort(v), (-1, 0))
        o = o.flatten(1, 2).gather(1, place.argsort(-1)[..., None].expand(-1, -1, v.shape[-1]))
        return o.unflatten(0, (q.shape[0], -1)).transpose(1, 2)


class Performer(nn.Module):
    """performer-pytorch's attention, softmax in its place: only its projection is looked at."""

    projection_matrix: Tensor

    def __init__(self, dim_heads: int, nb_features: int, causal: bool) -> None:
        super().__init__()
        assert not causal
        self.register_buffer("projection_matrix", torch.randn(nb_features, dim_heads))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v)


def neighbours(x: Tensor, steps: tuple[int, ...]) -> Tensor:
    """[X, chunks, m, ...] -> [X, chunks, len(steps) · m, ...], the ends joined."""
    return torch.cat([x.roll(-step, dims=1) for step in steps], dim=2)


class HuggingFace(nn.Module):
    """`LSHSelfAttention`: slots of all rounds in one row of chunks. Knows how it was configured."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.query_key = self.value = nn.Linear(1, 1)

    def forward(self, hidden: Tensor, buckets: Tensor | None = None) -> Any:
        c, N = self.config, hidden.shape[1]
        qk, v = (f(hidden).unflatten(2, (c.num_attention_heads, -1)).transpose(1, 2) for f in (self.query_key, self.value))
        if buckets is None:
            buckets = torch.randint(4, (*qk.shape[:2], c.num_hashes, N)) + 4 * torch.arange(c.num_hashes)[:, None]
        o = self.in_slots(qk.flatten(0, 1), v.flatten(0, 1), buckets.flatten(0, 1).flatten(1))
        return Answer(o.unflatten(0, qk.shape[:2]).transpose(1, 2).flatten(2), (), buckets)

    def in_slots(self, qk: Tensor, v: Tensor, buckets: Tensor) -> Any:
        c, N, D = self.config, *qk.shape[1:]
        slots = buckets.argsort(dim=-1, stable=True)
        m, steps = c.lsh_attn_chunk_length, tuple(range(-c.lsh_num_chunks_before, c.lsh_num_chunks_after + 1))
        keys = qk / (qk.square().sum(-1, keepdim=True) + 1e-6 * D).sqrt()

        def sort(x: Tensor) -> Any:
            return x.gather(1, (slots % N)[..., None].expand(-1, -1, x.shape[-1])).unflatten(1, (-1, m))

        place = (slots % N).unflatten(1, (-1, m))
        i, j = place[..., None], neighbours(place, steps)[:, :, None, :]
        logits = sort(qk) @ neighbours(sort(keys), steps).mT
        logits = logits.masked_fill(i < j, -1e9) if c.is_decoder else logits
        logits = logits.masked_fill(i == j, -1e5)
        z, o = logits.logsumexp(-1), logits.softmax(-1) @ neighbours(sort(v), steps)
        back = slots.argsort(-1)
        z_BRN = z.flatten(1).gather(1, back).unflatten(1, (-1, N))
        o_BRND = o.flatten(1, 2).gather(1, back[..., None].expand(-1, -1, D)).unflatten(1, (-1, N))
        return (z_BRN.softmax(1)[..., None] * o_BRND).sum(1)


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All of them in place, and no masks of another package of that name kept between calls."""
    install(monkeypatch, "transformers.models.reformer.configuration_reformer", ReformerConfig=SimpleNamespace)
    install(monkeypatch, "transformers.models.reformer.modeling_reformer", LSHSelfAttention=HuggingFace)
    install(monkeypatch, "performer_pytorch", FastAttention=Performer)
    install(monkeypatch, "fast_transformers.attention", LinearAttention=Linear, CausalLinearAttention=CausalLinear)
    install(monkeypatch, "fast_transformers.attention.reformer_attention", ReformerAttention=Reformer)
    install(monkeypatch, "fast_transformers.recurrent.attention", RecurrentLinearAttention=Recurrent)
    install(monkeypatch, "fast_transformers.causal_product")
    install(monkeypatch, "fast_transformers.masking", FullMask=FullMask, TriangularCausalMask=TriangularCausalMask)
    kept = [vars(sys.modules[load(name).__module__])["_masks"] for name in (LINEAR, FAST)]
    for masks in kept:
        masks.cache_clear()
    yield
    for masks in kept:
        masks.cache_clear()


def called(name: str, causal: bool = False, **params: Any) -> Call:
    return Call(Variant(name, params), Problem(**SHAPE, M=5 if name == LINEAR else 8, causal=causal), trains=True)


CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, params) for name in PEERS for params in METHODS[name].variants),
    *((LINEAR, params) for params in ({}, {"eps": 0.5})),
    # one chunk in all
    *((FAST, {"rounds": 1, "bucket_size": 64, "masked": masked}) for masked in (False, True)),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(name: str, params: dict[str, Any], causal: bool) -> None:
    call = called(name, causal, **params)
    same(call.results(), call.results("reference"), 1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_fast_transformers_hides_any_keys(causal: bool) -> None:
    call, key_mask = called(LINEAR, causal), torch.rand(2, 64) < 0.6
    same([call.forward(key_mask=key_mask)], call.exact(key_mask=key_mask)[:1], 1e-10)


@pytest.mark.parametrize("prompt", [0, 1, 20])
def test_fast_transformers_decodes_by_its_own_recurrence(prompt: int) -> None:
    call = called(LINEAR, causal=True)
    same([call.decoded(prompt)], call.exact()[:1], 1e-10)
    _, state = call.method.prefill(*(x.detach() for x in call.inputs), capacity=64)
    assert call.method.state_bytes(state) == 2 * 3 * (8 * 5 + 8) * 8


def test_a_package_without_its_cuda_kernel_is_refused_where_it_is_needed() -> None:
    method = load(LINEAR)
    cell = Cell(method=LINEAR, problem=Problem(N=64, causal=True), device="cuda")
    assert "built without CUDA" in (method.why_not(cell) or "")
    assert method.why_not(cell.model_copy(update={"device": "cpu"})) is None
    assert method.why_not(cell.model_copy(update={"problem": Problem(N=64)})) is None


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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_definition_can_be_evaluated_in_half_precision(dtype: str, causal: bool) -> None:
    method = load(HUGGING)(Problem(**{**SHAPE, "dtype": dtype}, causal=causal), rounds=1, bucket_size=8)
    qk, _, v = (x.detach() for x in inputs_of(method))
    choices, wide = torch.randint(8, (2, 3, 1, 64)), qk.double()
    want = method.reference(wide, wide, v.double(), choices=choices)
    torch.testing.assert_close(method.reference(qk, qk, v, choices=choices).double(), want, rtol=0, atol=0.05)


def test_hugging_face_is_configured_as_asked_without_dropout() -> None:
    method = load(HUGGING)(Problem(B=1, H=3, N=96, D=8, causal=True), rounds=2, bucket_size=16, look_forward=True)
    assert not method.attention.training
    assert vars(method.attention.config) == {
        **{"num_attention_heads": 3, "attention_head_size": 8, "hidden_size": 24, "max_position_embeddings": 96},
        **{"num_hashes": 2, "num_buckets": 8, "lsh_attn_chunk_length": 16, "is_decoder": True},
        **{"lsh_num_chunks_before": 1, "lsh_num_chunks_after": 1, "lsh_attention_probs_dropout_prob": 0.0},
    }


@pytest.mark.parametrize(
    ("N", "bucket_size", "buckets"),
    [(128, 64, 4), (192, 64, 4), (4096, 64, 128), (8192, 64, [16, 16]), (16384, 64, [16, 32]), (1024, 4, [16, 32])],
)
def test_buckets_of_hugging_face_are_a_power_of_two_in_two_factors_where_many(N: int, bucket_size: int, buckets: Any) -> None:
    assert load(HUGGING)(Problem(B=1, H=1, N=N, D=8), bucket_size=bucket_size).attention.config.num_buckets == buckets


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params", "rest"), [(LINEAR, {"eps": 0.5}, {}), (FAST, HASHED, {"attention_dropout": 0.0})])
def test_fast_transformers_is_made_without_dropout_and_keeps_its_masks(
    name: str, params: dict[str, Any], rest: dict[str, float], causal: bool
) -> None:
    call = called(name, causal, **params)
    made = call.method.attention
    made.calls.clear()
    call.method(*call.inputs)
    if name == LINEAR:
        # a document of another length in between
        call.method(*(x[:, :, :40] for x in call.inputs))
    call.method(*call.inputs)
    assert made.options == {"chunk_size" if key == "bucket_size" else key: value for key, value in params.items()} | rest
    (q, pairs, keys), *_, last = made.calls
    assert q.shape == (2, 64, 3, 8)
    assert q.is_contiguous()
    assert last[1:] == (pairs, keys)
    assert [x.float_matrix.shape for x in (pairs, keys)] == [(64, 64) if causal else (1, 1), (2, 64)]
    assert keys.float_matrix.all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PEERS)
def test_everything_in_one_chunk_pair_is_what_it_approximates(name: str, causal: bool) -> None:
    params = {"bucket_size": 32} if name == HUGGING else {"bucket_size": 64, "masked": True}
    call = called(name, causal, rounds=1, **params)
    # keys of Hugging Face are a millionth short of unit length
    same([call.method.reference(*call.inputs)], [call.method.exact(*call.inputs)], 1e-5 if name == HUGGING else 1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_without_choices_it_hashes_anew(name: str) -> None:
    call = called(name, bucket_size=8)
    assert not torch.equal(call.forward(choices=None), call.forward(choices=None))


# of many tokens the planes are those of two factors: 16 times the length has four times as many
@pytest.mark.parametrize(
    ("name", "N", "planes"), [(HUGGING, 1024, 16), (HUGGING, 8192, 16), (HUGGING, 131072, 64), (FAST, 1024, 8)]
)
def test_hashing_and_attention_are_counted_and_only_attention_goes_back(name: str, N: int, planes: int) -> None:
    problem, slots = Problem(B=2, H=4, N=N, D=64), 2 * 4 * N * 4
    hashing, attention = slots * 2 * 64 * planes, slots * 2 * 64 * 2 * 128
    for workload, passes, moved in ((Workload.FORWARD, 1, 3), (Workload.FORWARD_BACKWARD, 3, 8)):
        cost = load(name).cost(problem, {}, workload)
        assert (cost.executed_flops, cost.traffic_bytes) == (hashing + passes * attention, moved * 2 * 4 * N * 64 * 4)
