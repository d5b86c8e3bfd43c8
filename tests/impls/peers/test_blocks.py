"""flash-linear-attention's NSA and MoBA: how they are called, what they refuse and cost, and that ours compute the same."""

import warnings
from importlib import import_module
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import inputs_of
from tests.impls.peers.stand_ins import Calls, install, is_its_definition

moba: Any = import_module("attnbench_impls.blocks.eager.moba")
nsa: Any = import_module("attnbench_impls.blocks.eager.nsa")
FlaMoba: Any = import_module("attnbench_impls.blocks.peers.moba_fla").FlaMoba
FlaNsa: Any = import_module("attnbench_impls.blocks.peers.nsa_fla").FlaNsa
heads: Any = import_module("attnbench_impls.blocks.eager.heads")
MOBA: dict[str, Any] = {"B": 2, "H": 3, "N": 40, "D": 8, "causal": True, "dtype": "float64"}
NSA: dict[str, Any] = {"B": 2, "H": 32, "kv_heads": 2, "N": 40, "D": 16, "causal": True, "dtype": "float64"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Stand-ins that compute by our definitions, and note how they are called."""
    seen: Calls = []

    def parallel_moba(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens: Tensor, max_seqlen: int, **how: int) -> Tensor:
        seen.append({"q": q, "cu_seqlens": cu_seqlens, "max_seqlen": max_seqlen, **how})
        cut = [x.squeeze(0).unflatten(0, (-1, max_seqlen)).transpose(1, 2) for x in (q, k, v)]
        B, H, N, D = cut[0].shape
        problem = Problem(B=B, H=H, N=N, D=D, causal=True, dtype="float64")
        o: Tensor = moba.MobaAttention(problem, block=how["chunk_size"], topk=how["topk"]).reference(*cut)
        return o.transpose(1, 2).flatten(0, 1).unsqueeze(0)

    def parallel_nsa(*inputs: Tensor, block_indices: Tensor | None, **how: Any) -> Tensor:
        seen.append({"q": inputs[0], "block_indices": block_indices, **how})
        if block_indices is not None:
            warnings.warn("`block_indices` is provided, overriding the selection", stacklevel=2)
        turned = [x.transpose(1, 2) for x in inputs]
        method = nsa.NsaAttention(Problem(**NSA), how["block_size"], how["block_counts"], how["window_size"])
        given = None if block_indices is None else block_indices.transpose(1, 2)[..., 1:]
        o: Tensor = method.reference(*turned, choices=given)
        return o.transpose(1, 2)

    install(monkeypatch, "flash_attn")
    install(monkeypatch, "fla.ops.moba", parallel_moba=parallel_moba)
    install(monkeypatch, "fla.ops.nsa", parallel_nsa=parallel_nsa)
    return seen


def test_moba_gets_all_samples_as_one_in_its_own_layout(calls: Calls) -> None:
    method = FlaMoba(Problem(**MOBA), block=8, topk=3)
    is_its_definition(method)
    call = calls[0]
    assert call["q"].shape == (1, 80, 3, 8)
    assert call["q"].is_contiguous()
    assert call["cu_seqlens"].tolist() == [0, 40, 80]
    assert (call["max_seqlen"], call["chunk_size"], call["topk"]) == (40, 8, 3)
    assert method.choose(*inputs_of(method)) is None


@pytest.mark.parametrize("given_choices", [False, True])
def test_nsa_gets_choices_with_the_own_block_or_makes_its_own(given_choices: bool, calls: Calls) -> None:
    method = FlaNsa(Problem(**NSA), block=8, selected=4, window=10)
    is_its_definition(method, **({"choices": method.choose(*inputs_of(method))} if given_choices else {}))
    call = calls[0]
    assert call["q"].shape == (2, 40, 32, 16)
    assert call["q"].is_contiguous()
    assert call["scale"] == 0.25
    indices = call["block_indices"]
    assert (indices is None) is not given_choices
    if indices is not None:
        assert indices.shape == (2, 40, 2, 4)
        assert indices.is_contiguous()
        assert torch.equal(indices[..., 0], (torch.arange(40) // 8).view(1, 40, 1).expand(2, 40, 2))


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
class TestTheirOwnDefinitions:
    """The package's plain functions, which add in float32."""

    @pytest.fixture
    def naive(self) -> Any:
        return import_module("fla.ops.nsa.naive")

    @pytest.fixture
    def inputs(self) -> tuple[Any, tuple[Tensor, ...]]:
        method = nsa.NsaAttention(Problem(**{**NSA, "N": 90, "dtype": "float32"}), block=8, selected=5, window=10)
        return method, type(method).inputs(method.problem, torch.Generator().manual_seed(3))

    @pytest.mark.parametrize(
        ("module", "name", "arguments"),
        [
            ("fla.ops.moba", "parallel_moba", "q k v cu_seqlens max_seqlen chunk_size topk"),
            (
                "fla.ops.nsa",
                "parallel_nsa",
                "q k v g_cmp g_slc g_swa block_indices block_counts block_size window_size scale cu_seqlens",
            ),
        ],
    )
    def test_the_operator_has_these_arguments(self, module: str, name: str, arguments: str) -> None:
        assert list(signature(getattr(import_module(module), name)).parameters) == arguments.split()

    def test_the_compressed_branch(self, naive: Any, inputs: Any) -> None:
        method, (q, k, v, *gates) = inputs
        means = [heads.block_means(x, 8).transpose(1, 2) for x in (k, v)]
        want, _ = naive.naive_nsa_compression(q.transpose(1, 2), *means, 8, 0.25)
        shut = [torch.full_like(g, float(i == 0)) for i, g in enumerate(gates)]
        torch.testing.assert_close(method(q, k, v, *shut).transpose(1, 2), want, rtol=0, atol=1e-5)

    def test_the_selection(self, naive: Any, inputs: Any) -> None:
        method, (q, k, v, *gates) = inputs
        # its means are over the tail too
        means = torch.stack([x.mean(2) for x in k.split(8, dim=2)], 1)
        want = naive.naive_nsa_topk(q.transpose(1, 2), means, 5, 8, 0.25).transpose(1, 2)
        own = (torch.arange(90) // 8).view(1, 1, 90, 1).expand(2, 2, 90, 1)
        got = torch.cat((own, method.choose(q, k, v, *gates)), -1)
        assert torch.equal(got.sort(-1).values, want.sort(-1).values)

    def test_the_selected_branch(self, naive: Any, inputs: Any) -> None:
        method, (q, k, v, *gates) = inputs
        own = (torch.arange(90) // 8).view(1, 1, 90, 1).expand(2, 2, 90, 1)
        indices = torch.cat((own, method.choose(q, k, v, *gates)), -1)
        want = naive.naive_nsa_selection(*(x.transpose(1, 2) for x in (q, k, v, indices)), block_size=8, scale=0.25)
        shut = [torch.full_like(g, float(i == 1)) for i, g in enumerate(gates)]
        torch.testing.assert_close(method(q, k, v, *shut).transpose(1, 2), want, rtol=0, atol=1e-5)
