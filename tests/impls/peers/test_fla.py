"""flash-linear-attention, by stand-ins: how each operator is called, that it then computes the method, and where its backward
is refused; its NSA and MoBA beside ours."""

import warnings
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Layout, Workload
from attnbench.forms import packed
from tests.impls.contract.calls import inputs_of
from tests.impls.contract.test_refusals import MISTAKES
from tests.impls.peers.stand_ins import Calls, install, is_its_definition, load

LINEAR = {
    "linear.fla_chunk": "chunk_linear_attn",
    "linear.fla_fused_chunk": "fused_chunk_linear_attn",
    "linear.fla_recurrent": "fused_recurrent_linear_attn",
}
GATED = {
    "gated.retnet_fla": ("retention", "chunk_retention"),
    "gated.lightning_fla": ("simple_gla", "chunk_simple_gla"),
    "gated.mamba2_fla": ("simple_gla", "chunk_simple_gla"),
    "gated.gla_fla": ("gla", "chunk_gla"),
    "gated.hgrn2_fla": ("gla", "chunk_gla"),
    **{f"gated.{name}_fla_naive": ("simple_gla.naive", "naive_chunk_simple_gla") for name in ("retnet", "lightning", "mamba2")},
}
DELTA = {
    "delta.deltanet_fla": ("delta_rule", "chunk_delta_rule", "q k v beta"),
    "delta.gated_deltanet_fla": ("gated_delta_rule", "chunk_gated_delta_rule", "q k v beta g"),
    "delta.kda_fla": ("kda", "chunk_kda", "q k v beta g"),
    "delta.rwkv7_fla": ("rwkv7", "chunk_rwkv7", "r k v w a b"),
    "delta.deltanet_fla_naive": ("delta_rule.naive", "delta_rule_chunkwise", "q k v beta"),
    "delta.gated_deltanet_fla_naive": ("gated_delta_rule.naive", "naive_chunk_gated_delta_rule", "q k v beta g"),
    "delta.kda_fla_naive": ("kda.naive", "naive_chunk_kda", "q k v beta g"),
    "delta.rwkv7_fla_naive": ("generalized_delta_rule.dplr.naive", "dplr_chunkwise", "q k v gk alpha beta"),
}
OPERATORS = {**LINEAR, **{name: about[1] for name, about in (*GATED.items(), *DELTA.items())}}
NAIVE = [name for name in DELTA if name.endswith("naive")]
BASED: list[tuple[str, dict[str, Any]]] = [("linear.based_fla", {"form": form}) for form in ("parallel", "fused_chunk")]
SHAPE: dict[str, Any] = {"B": 2, "H": 3, "D": 8, "M": 5, "dtype": "float64", "causal": True}
MOBA: dict[str, Any] = {"B": 2, "H": 3, "N": 40, "D": 8, "causal": True, "dtype": "float64"}
NSA: dict[str, Any] = {"B": 2, "H": 32, "kv_heads": 2, "N": 40, "D": 16, "causal": True, "dtype": "float64"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in GATED),
    ("gated.lightning_fla", {"slopes": "fla", "layer": 1, "layers": 2}),
    *((name, params) for name in DELTA for params in ({}, {"scale": 0.3})),
    *((name, {"feature_map": phi}) for name in LINEAR for phi in ("elu_plus_one", "relu", "squared_relu")),
    *((name, {"alone": True}) for name in LINEAR),
    *BASED,
]


def recurrence(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scale: float) -> Tensor:
    """All [B, N, H, ·]; the state decays by rows or as a whole."""
    state, outputs = q.new_zeros(*q.shape[:1], q.shape[2], q.shape[3], v.shape[3]), []
    for t in range(q.shape[1]):
        state = log_decay[:, t].exp().unsqueeze(-1) * state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        outputs.append((state * q[:, t].unsqueeze(-1)).sum(-2) * scale)
    return torch.stack(outputs, 1)


@pytest.fixture
def fla(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The package's functions, in its own order of the dimensions; the list says with what they were called."""
    calls: Calls = []

    def gated(name: str) -> Any:
        def attend(
            q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None, scale: float = 99.0
        ) -> tuple[Tensor, None]:
            B, N, H, _ = q.shape
            if name == "chunk_retention":
                g_gamma = torch.log(1 - 2.0 ** (-5.0 - torch.arange(H, dtype=torch.float64)))
            if g_gamma is not None:
                g = g_gamma.view(1, 1, H).expand(B, N, H)
            assert g is not None
            return recurrence(q, k, v, g if g.dim() == 4 else g.unsqueeze(-1), scale), None

        return attend

    def delta(name: str, names: str) -> Any:
        tokens_first, built_in = load(name).layout is Layout.BNHD, not name.endswith(("kda_fla_naive", "net_fla_naive"))
        ours = load(name.partition("_fla")[0])

        def attend(**given: Any) -> tuple[Tensor, None]:
            inputs = [x.transpose(1, 2) if tokens_first else x for x in (given[n] for n in names.split())]
            scale = given.get("scale", inputs[0].shape[-1] ** -0.5)
            assert built_in or "chunk_size" in given
            o = ours(Problem(N=inputs[0].shape[2], D=8, causal=True), scale=scale).reference(*inputs)
            return o.transpose(1, 2) if tokens_first else o, None

        return attend

    def linear(q: Tensor, k: Tensor, v: Tensor, scale: float = 0.0, normalize: bool = False) -> tuple[Tensor, None]:
        assert not normalize or all((x >= 0).all() for x in (q, k))
        kv = torch.einsum("bthk,bthv->bthkv", k, v).cumsum(1)
        o = torch.einsum("bthk,bthkv->bthv", q * scale, kv)
        return o / ((q * scale * k.cumsum(1)).sum(-1, keepdim=True) + 1e-10) if normalize else o, None

    def based(q: Tensor, k: Tensor, v: Tensor, scale: float, use_norm: bool) -> Tensor:
        s = torch.einsum("bnhd,bmhd->bhnm", q, k) * scale
        weights = (1 + s + s * s / 2).tril()
        return torch.einsum("bhnm,bmhe,bhn->bnhe", weights, v, 1 / (weights.sum(-1) + 1e-6))

    def parallel_moba(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens: Tensor, max_seqlen: int, **how: int) -> Tensor:
        calls.append({"q": q, "cu_seqlens": cu_seqlens, "max_seqlen": max_seqlen, **how})
        cut = [x.squeeze(0).unflatten(0, (-1, max_seqlen)).transpose(1, 2) for x in (q, k, v)]
        B, H, N, D = cut[0].shape
        problem = Problem(B=B, H=H, N=N, D=D, causal=True, dtype="float64")
        o: Tensor = load("blocks.moba")(problem, block=how["chunk_size"], topk=how["topk"]).reference(*cut)
        return o.transpose(1, 2).flatten(0, 1).unsqueeze(0)

    def parallel_nsa(*inputs: Tensor, block_indices: Tensor | None, **how: Any) -> Tensor:
        calls.append({"q": inputs[0], "block_indices": block_indices, **how})
        if block_indices is not None:
            warnings.warn("`block_indices` is provided, overriding the selection", stacklevel=2)
        turned = [x.transpose(1, 2) for x in inputs]
        method = load("blocks.nsa")(Problem(**NSA), how["block_size"], how["block_counts"], how["window_size"])
        given = None if block_indices is None else block_indices.transpose(1, 2)[..., 1:]
        o: Tensor = method.reference(*turned, choices=given)
        return o.transpose(1, 2)

    def put(module: str, name: str, attend: Any) -> None:
        """The operator, told perhaps where documents begin, each of which it attends by itself."""

        def noted(*inputs: Any, cu_seqlens: Tensor | None = None, **named: Any) -> Any:
            given = zip(("q", "k", "v", "scale", "use_norm"), inputs, strict=False)
            calls.append({"name": name, "borders": cu_seqlens, **dict(given), **named})
            if cu_seqlens is None:
                return attend(*inputs, **named)
            assert cu_seqlens.dtype == torch.int64
            ends = cu_seqlens[1:-1].tolist()
            cut = {key: x.tensor_split(ends, 1) for key, x in named.items() if isinstance(x, Tensor) and x.dim() > 1}
            parts = [
                ([x[i] for x in (x.tensor_split(ends, 1) for x in inputs)], {**named, **{key: x[i] for key, x in cut.items()}})
                for i in range(len(ends) + 1)
            ]
            return torch.cat([attend(*part, **rest)[0] for part, rest in parts], 1), None

        install(monkeypatch, f"fla.ops.{module}", **{name: noted})

    install(monkeypatch, "flash_attn")
    install(monkeypatch, "fla.ops.moba", parallel_moba=parallel_moba)
    install(monkeypatch, "fla.ops.nsa", parallel_nsa=parallel_nsa)
    for operator in LINEAR.values():
        put("linear_attn", operator, linear)
    for operator in ("parallel_based", "fused_chunk_based"):
        put("based", operator, based)
    for module, operator in GATED.values():
        put(module, operator, gated(operator))
    for name, (module, operator, names) in DELTA.items():
        put(module, operator, delta(name, names))
    return calls


@pytest.mark.parametrize("N", [1, 37, 64, 100])
@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_it_is_called_so_that_the_method_comes_out(name: str, params: dict[str, Any], N: int, fla: Calls) -> None:
    method = load(name)(Problem(**SHAPE, N=N), **params).double()
    is_its_definition(method)
    call = fla[0]
    assert call["name"] == OPERATORS.get(name, f"{params.get('form')}_based")
    # no order of the dimensions costs a copy: the package's own is the method's, but for the rest of a chunk
    if name in OPERATORS and N == 64:
        # torch's logsigmoid gives one order alone on a CPU
        of_torch = {"g"} if name == "gated.hgrn2_fla" else set[str]()
        assert all(x.is_contiguous() for key, x in call.items() if isinstance(x, Tensor) and key not in of_torch)
    if name in LINEAR:
        assert call["scale"] == 1.0
    if name in GATED:
        assert call["scale"] == method.scale
        assert ("g_gamma" in call) is (name == "gated.lightning_fla")
    if name == "linear.based_fla":
        assert (call["scale"], call["use_norm"]) == (pytest.approx(8**-0.5), True)


@pytest.mark.parametrize("name", [name for name in (*GATED, *DELTA, *LINEAR) if not name.endswith("naive")])
def test_documents_in_one_row_are_one_call_that_is_told_where_they_begin(name: str, fla: Calls) -> None:
    method: Any = packed(load(name))(Problem(**{**SHAPE, "B": 1, "N": 83}, documents=(70, 1, 12))).double()
    is_its_definition(method)
    method(*inputs_of(method))
    told, again = (call["borders"] for call in fla)
    assert told.tolist() == [0, 70, 71, 83]
    # the package keeps its lists of chunks by the tensor's identity
    assert again is told


def test_moba_gets_all_samples_as_one_in_its_own_layout(fla: Calls) -> None:
    method = load("blocks.moba_fla")(Problem(**MOBA), block=8, topk=3)
    inputs, _ = is_its_definition(method)
    call = fla[0]
    assert call["q"].shape == (1, 80, 3, 8)
    assert call["q"].is_contiguous()
    assert call["cu_seqlens"].tolist() == [0, 40, 80]
    assert (call["max_seqlen"], call["chunk_size"], call["topk"]) == (40, 8, 3)
    assert method.choose(*inputs_of(method)) is None
    # one sample alone is told its own end, and the same batch again the same tensor, by which the package caches
    torch.testing.assert_close(method(*(x[1:] for x in inputs)), method(*inputs)[1:])
    assert fla[1]["cu_seqlens"].tolist() == [0, 40]
    assert fla[2]["cu_seqlens"] is call["cu_seqlens"]


@pytest.mark.parametrize("given_choices", [False, True])
def test_nsa_gets_choices_with_the_own_block_or_makes_its_own(given_choices: bool, fla: Calls) -> None:
    method = load("blocks.nsa_fla")(Problem(**NSA), block=8, selected=4, window=10)
    is_its_definition(method, **({"choices": method.choose(*inputs_of(method))} if given_choices else {}))
    call = fla[0]
    assert call["q"].shape == (2, 40, 32, 16)
    assert call["q"].is_contiguous()
    assert call["scale"] == 0.25
    indices = call["block_indices"]
    assert (indices is None) is not given_choices
    if indices is not None:
        assert indices.shape == (2, 40, 2, 4)
        assert indices.is_contiguous()
        assert torch.equal(indices[..., 0], (torch.arange(40) // 8).view(1, 40, 1).expand(2, 40, 2))


@pytest.mark.parametrize("name", NAIVE)
def test_tokens_are_filled_up_to_whole_chunks(name: str, fla: Calls) -> None:
    method = load(name)(Problem(B=1, H=2, N=70, D=8, causal=True), chunk=32)
    assert method(*type(method).inputs(method.problem, torch.Generator())).shape == (1, 2, 70, 8)
    assert (fla[0]["chunk_size"], fla[0]["k"].numel()) == (32, 2 * 96 * 8)


@pytest.mark.usefixtures("fla")
@pytest.mark.parametrize(("name", "params"), [each for each in MISTAKES if each[0] in dict(CASES)])
def test_a_bad_parameter_is_refused_by_the_constructor_too(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
        load(name)(Problem(N=8, causal=True), **params)


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_based_in_parallel_works_as_the_square_and_by_chunks_as_the_length(workload: Workload) -> None:
    short, long = (Problem(B=2, N=N, D=16, causal=True, dtype="bfloat16") for N in (1024, 4096))
    for form, growth in (("parallel", 16), ("fused_chunk", 4)):
        cost, more = (load("linear.based_fla").cost(p, {"form": form}, workload) for p in (short, long))
        assert more.executed_flops == pytest.approx(growth * cost.executed_flops, rel=0.15)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "params", "dtype"),
    [
        *((name, {}, "float32") for name in (*GATED, *LINEAR) if not name.endswith("naive")),
        *((name, {}, "bfloat16") for name in DELTA if not name.endswith("naive")),
        *((name, params, "float32") for name, params in BASED),
    ],
    ids=str,
)
def test_the_package_has_the_operator_with_these_arguments(name: str, params: dict[str, Any], dtype: str) -> None:
    method = load(name)(Problem(B=1, H=2, N=64, D=16, causal=True, dtype=dtype), **params)
    inputs = type(method).inputs(method.problem, torch.Generator())
    for call in (method, lambda *inputs: method.attend_documents(method, inputs, (40, 24))):
        with pytest.raises((RuntimeError, ValueError), match=r"active drivers|cpu tensor"):
            # as far as a machine without a GPU goes: every argument is known, and only the driver is missing
            call(*inputs)


WORDS = "its gated backward is wrong with Triton 3.6.0 on Hopper GPUs, so the package refuses it; take Triton 3.7.1"
ELSEWHERE: tuple[dict[str, Any], ...] = (
    *({"triton": triton} for triton in ("3.7.1", "3.3.1")),
    *({"capability": capability} for capability in ((8, 0), (10, 0))),
    {"tilelang": "there", "dtype": "float32"},
)


@pytest.mark.parametrize("name", ["gated.mamba2_fla", "delta.gated_deltanet_fla"])
def test_a_gated_backward_is_refused_on_hopper_alone_with_what_would_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has: dict[str, Any] = {"triton": "3.6.0", "capability": (9, 0), "tilelang": None, "dtype": "bfloat16"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: has["capability"])
    for finder in ("version", "find_spec"):
        monkeypatch.setattr(f"attnbench_impls.recurrence.hopper.{finder}", lambda package: has[package])

    def refusal(name: str, workload: Workload) -> str | None:
        cell = Cell(method=name, problem=Problem(N=64, causal=True, dtype=has["dtype"]), workload=workload, device="cuda")
        said: str | None = load(name).why_not(cell)
        return said

    assert (refusal(name, Workload.FORWARD_BACKWARD), refusal(name, Workload.FORWARD)) == (WORDS, None)
    # these do not reach that kernel
    for other in ("gated.retnet_fla", "gated.gla_fla", "delta.deltanet_fla", "delta.kda_fla"):
        assert refusal(other, Workload.FORWARD_BACKWARD) is None
    for change in ELSEWHERE:
        with monkeypatch.context() as patch:
            for key, value in change.items():
                patch.setitem(has, key, value)
            assert refusal(name, Workload.FORWARD_BACKWARD) is None
    has["tilelang"] = "there"
    # whose kernel takes no states of float32 beside inputs of half precision
    assert refusal(name, Workload.FORWARD_BACKWARD) == (WORDS if name == "gated.mamba2_fla" else None)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
class TestTheirOwnDefinitions:
    """The package's plain functions, which add in float32."""

    ARGUMENTS: ClassVar = {
        "moba": "q k v cu_seqlens max_seqlen chunk_size topk",
        "nsa": "q k v g_cmp g_slc g_swa block_indices block_counts block_size window_size scale cu_seqlens",
    }

    @pytest.mark.parametrize("name", ARGUMENTS)
    def test_the_operator_has_these_arguments(self, name: str) -> None:
        operator = getattr(import_module(f"fla.ops.{name}"), f"parallel_{name}")
        assert list(signature(operator).parameters) == self.ARGUMENTS[name].split()

    def test_each_branch_of_nsa_and_its_selection(self) -> None:
        naive: Any = import_module("fla.ops.nsa.naive")
        block_means: Any = import_module("attnbench_impls.blocks.eager.heads").block_means
        method = load("blocks.nsa")(Problem(**{**NSA, "N": 90, "dtype": "float32"}), block=8, selected=5, window=10)
        q, k, v, *gates = type(method).inputs(method.problem, torch.Generator().manual_seed(3))
        q_BNHD, k_BNHD, v_BNHD = (x.transpose(1, 2) for x in (q, k, v))

        def branch(of: int) -> Tensor:
            """Ours, with the gates of all other branches shut."""
            o: Tensor = method(q, k, v, *(torch.full_like(gate, float(i == of)) for i, gate in enumerate(gates)))
            return o.transpose(1, 2)

        means = [block_means(x, 8).transpose(1, 2) for x in (k, v)]
        compressed, _ = naive.naive_nsa_compression(q_BNHD, *means, 8, 0.25)
        torch.testing.assert_close(branch(0), compressed, rtol=0, atol=1e-5)
        own = (torch.arange(90) // 8).view(1, 1, 90, 1).expand(2, 2, 90, 1)
        indices = torch.cat((own, method.choose(q, k, v, *gates)), -1).transpose(1, 2)
        # its means are over the tail too
        with_tail = torch.stack([x.mean(2) for x in k.split(8, dim=2)], 1)
        chosen = naive.naive_nsa_topk(q_BNHD, with_tail, 5, 8, 0.25)
        assert torch.equal(indices.sort(-1).values, chosen.sort(-1).values)
        selected = naive.naive_nsa_selection(q_BNHD, k_BNHD, v_BNHD, indices, block_size=8, scale=0.25)
        torch.testing.assert_close(branch(1), selected, rtol=0, atol=1e-5)
