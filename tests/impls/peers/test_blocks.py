"""flash-linear-attention's NSA and MoBA: how they are called, and that ours compute the same."""

import warnings
from importlib import import_module
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import inputs_of
from tests.impls.peers.stand_ins import Calls, install, is_its_definition, load

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
        o: Tensor = load("blocks.moba")(problem, block=how["chunk_size"], topk=how["topk"]).reference(*cut)
        return o.transpose(1, 2).flatten(0, 1).unsqueeze(0)

    def parallel_nsa(*inputs: Tensor, block_indices: Tensor | None, **how: Any) -> Tensor:
        seen.append({"q": inputs[0], "block_indices": block_indices, **how})
        if block_indices is not None:
            warnings.warn("`block_indices` is provided, overriding the selection", stacklevel=2)
        turned = [x.transpose(1, 2) for x in inputs]
        method = load("blocks.nsa")(Problem(**NSA), how["block_size"], how["block_counts"], how["window_size"])
        given = None if block_indices is None else block_indices.transpose(1, 2)[..., 1:]
        o: Tensor = method.reference(*turned, choices=given)
        return o.transpose(1, 2)

    install(monkeypatch, "flash_attn")
    install(monkeypatch, "fla.ops.moba", parallel_moba=parallel_moba)
    install(monkeypatch, "fla.ops.nsa", parallel_nsa=parallel_nsa)
    return seen


def test_moba_gets_all_samples_as_one_in_its_own_layout(calls: Calls) -> None:
    method = load("blocks.moba_fla")(Problem(**MOBA), block=8, topk=3)
    is_its_definition(method)
    call = calls[0]
    assert call["q"].shape == (1, 80, 3, 8)
    assert call["q"].is_contiguous()
    assert call["cu_seqlens"].tolist() == [0, 40, 80]
    assert (call["max_seqlen"], call["chunk_size"], call["topk"]) == (40, 8, 3)
    assert method.choose(*inputs_of(method)) is None


@pytest.mark.parametrize("given_choices", [False, True])
def test_nsa_gets_choices_with_the_own_block_or_makes_its_own(given_choices: bool, calls: Calls) -> None:
    method = load("blocks.nsa_fla")(Problem(**NSA), block=8, selected=4, window=10)
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

    @pytest.mark.parametrize(
        ("module", "name", "arguments"),
        [
            ("moba", "parallel_moba", "q k v cu_seqlens max_seqlen chunk_size topk"),
            (
                *("nsa", "parallel_nsa"),
                "q k v g_cmp g_slc g_swa block_indices block_counts block_size window_size scale cu_seqlens",
            ),
        ],
    )
    def test_the_operator_has_these_arguments(self, module: str, name: str, arguments: str) -> None:
        assert list(signature(getattr(import_module(f"fla.ops.{module}"), name)).parameters) == arguments.split()

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
