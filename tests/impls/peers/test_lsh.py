"""The LSH attention of other packages, by stand-ins in sorted slots: how they are called, what they refuse and cost."""

import sys
from collections import namedtuple
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench import Problem
from attnbench.api import Workload, nominal_flops
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.families.lsh import METHODS
from tests.impls.contract.subjects import Variant
from tests.impls.peers.stand_ins import install, load

HUGGING, FAST = "lsh.transformers", "lsh.fast_transformers"
PEERS = [HUGGING, FAST]
SHAPE: dict[str, Any] = {"B": 2, "H": 3, "N": 64, "D": 8, "dtype": "float64"}
BOTH = Workload.FORWARD_BACKWARD
Answer = namedtuple("Answer", ["hidden_states", "attention_probs", "buckets"])


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


@pytest.fixture
def hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' two modules of the Reformer."""
    home = "transformers.models.reformer"
    install(monkeypatch, f"{home}.configuration_reformer", ReformerConfig=SimpleNamespace)
    module = ModuleType(f"{home}.modeling_reformer")
    module.LSHSelfAttention = HuggingFace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


class Reformer(nn.Module):
    """`ReformerAttention` of pytorch-fast-transformers, one round after the other. Knows how it was made and called."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options, self.calls = options, list[Any]()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Any, _: None, keys: Any) -> Any:
        self.calls.append((q, pairs, keys))
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


@pytest.fixture
def fast_transformers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pytorch-fast-transformers' module and masks."""

    class Mask:
        def __init__(self, *shape: Any, device: Any = None) -> None:
            self.shape, self.causal = shape, False

    class Triangle(Mask):
        def __init__(self, N: int, device: Any = None) -> None:
            self.shape, self.causal = (N, N), True

    install(monkeypatch, "fast_transformers.attention.reformer_attention", ReformerAttention=Reformer)
    masking = ModuleType("fast_transformers.masking")
    masking.FullMask, masking.TriangularCausalMask = Mask, Triangle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, masking.__name__, masking)
    masks = vars(sys.modules[load(FAST).__module__])["_masks"]
    masks.cache_clear()
    yield
    masks.cache_clear()


pytestmark = pytest.mark.usefixtures("hugging_face", "fast_transformers")


CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, params) for name in PEERS for params in METHODS[name].variants),
    # one chunk in all
    *((FAST, {"rounds": 1, "bucket_size": 64, "masked": masked}) for masked in (False, True)),
]


def called(name: str, causal: bool = False, **params: Any) -> Call:
    return Call(Variant(name, params), Problem(**SHAPE, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(name: str, params: dict[str, Any], causal: bool) -> None:
    call = called(name, causal, **params)
    same(call.results(), call.results("reference"), 1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_definition_can_be_evaluated_in_half_precision(dtype: str, causal: bool) -> None:
    method = load(HUGGING)(Problem(**{**SHAPE, "dtype": dtype}, causal=causal), rounds=1, bucket_size=8)
    qk, _, v = (x.detach() for x in inputs_of(method))
    choices, wide = torch.randint(8, (2, 3, 1, 64)), qk.double()
    want = method.reference(wide, wide, v.double(), choices=choices)
    torch.testing.assert_close(method.reference(qk, qk, v, choices=choices).double(), want, rtol=0, atol=0.05)


def test_the_model_of_hugging_face_is_configured_as_asked() -> None:
    method = load(HUGGING)(Problem(B=1, H=3, N=96, D=8, causal=True), rounds=2, bucket_size=16, look_forward=True)
    config = vars(method.attention.config)
    assert (config["num_attention_heads"], config["attention_head_size"], config["hidden_size"]) == (3, 8, 24)
    assert (config["num_hashes"], config["lsh_attn_chunk_length"]) == (2, 16)
    assert (config["lsh_num_chunks_before"], config["lsh_num_chunks_after"]) == (1, 1)
    assert config["is_decoder"] is True
    assert config["lsh_attention_probs_dropout_prob"] == 0.0
    assert config["num_buckets"] == 8
    assert not method.attention.training


@pytest.mark.parametrize(
    ("N", "bucket_size", "buckets"),
    [(128, 64, 4), (192, 64, 4), (4096, 64, 128), (8192, 64, [16, 16]), (16384, 64, [16, 32]), (1024, 4, [16, 32])],
)
def test_buckets_of_hugging_face_are_a_power_of_two_in_two_factors_where_many(N: int, bucket_size: int, buckets: Any) -> None:
    method = load(HUGGING)(Problem(B=1, H=1, N=N, D=8), bucket_size=bucket_size)
    assert method.attention.config.num_buckets == buckets


@pytest.mark.parametrize("causal", [False, True])
def test_fast_transformers_is_made_without_dropout_and_keeps_its_masks(causal: bool) -> None:
    call = called(FAST, causal, rounds=2, bucket_size=16, bits=5, masked=True)
    made = call.method.attention
    made.calls.clear()
    for _ in range(2):
        call.forward(choices=None)
    assert made.options == {"chunk_size": 16, "bits": 5, "rounds": 2, "masked": True, "attention_dropout": 0.0}
    (q, pairs, keys), (_, again, same_keys) = made.calls
    assert q.shape == (2, 64, 3, 8)
    assert q.is_contiguous()
    assert (pairs, keys) == (again, same_keys)
    assert (pairs.shape, keys.shape) == ((64, 64) if causal else (1, 1), (2, 64))


def test_fast_transformers_alone_averages_its_rounds() -> None:
    call, one = called(FAST, rounds=3, bucket_size=8), called(FAST, rounds=1, bucket_size=8)
    assert call.choices is not None
    rounds = [one.results("reference", choices=call.choices[:, :, r : r + 1])[0] for r in range(3)]
    same(call.results("reference")[:1], [torch.stack(rounds).mean(0)], 1e-12)


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


def test_hashing_and_attention_are_counted_and_only_attention_goes_back() -> None:
    problem, rounds = Problem(B=2, H=4, N=1024, D=64), 4
    slots = 2 * 4 * 1024 * rounds
    for name, planes in ((HUGGING, 32 / 2), (FAST, 8)):
        cost, trained = (load(name).cost(problem, {}, workload) for workload in (Workload.FORWARD, BOTH))
        hashing, attention = slots * 2 * 64 * planes, slots * 2 * 64 * 2 * 128
        assert cost.nominal_flops == nominal_flops(problem, Workload.FORWARD)
        assert (cost.executed_flops, trained.executed_flops) == (hashing + attention, hashing + 3 * attention)
        assert cost.exact_flops <= cost.executed_flops
        assert (cost.traffic_bytes, trained.traffic_bytes) == tuple(n * 2 * 4 * 1024 * 64 * 4 for n in (3, 8))


def test_factored_hashing_grows_slower_than_the_square() -> None:
    short, long = (load(HUGGING).cost(Problem(N=N), {}, Workload.FORWARD).executed_flops for N in (8192, 131072))
    # 16 times the length has four times the planes, and they are few beside the keys
    assert long == 16 * short * (4 * 16 + 256) / (16 + 256)
