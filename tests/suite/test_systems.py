"""Every attention system that this project set out to compare runs from a shipped suite: from one of these, or the atlas."""

from typing import Any, NamedTuple

import pytest

from attnbench import registry
from attnbench.api import Tier
from attnbench.suite.expand import expand
from attnbench.suite.load import load


class Row(NamedTuple):
    """A system by its name and paper, the method with those parameters that make it this system, and a suite that runs it."""

    system: str
    method: str
    suite: str
    params: dict[str, Any]


def row(system: str, method: str, suite: str, **params: Any) -> Row:
    return Row(system, method, suite, params)


SYSTEMS = [
    # softmax attention
    row("softmax with scores in memory (Vaswani et al. 2017)", "softmax.naive", "scaling"),
    row("torch's fused softmax", "softmax.sdpa", "scaling"),
    row("torch's fused softmax, FlashAttention", "softmax.sdpa_flash", "boundary-1"),
    row("torch's fused softmax, cuDNN", "softmax.sdpa_cudnn", "boundary-1"),
    row("FlexAttention", "softmax.flex", "packed"),
    row("FlashAttention-3, its package", "softmax.flash_attn_3", "gpu_crossover"),
    row("FlashAttention-3 by torch's switch", "softmax.sdpa_fa3", "gpu_crossover"),
    row("FlashInfer, decoding", "softmax.flashinfer", "gpu_decode"),
    row("decoding with a cache of keys and values", "softmax.sdpa", "decode"),
    row("decoding without a cache", "softmax.recompute", "decode"),
    # Sparse Transformer (Child et al. 2019) and its relatives
    row("Sparse Transformer, strided", "sparse.strided", "sparse"),
    row("Sparse Transformer, fixed", "sparse.fixed", "sparse"),
    row("Sparse Transformer, strided, Triton", "sparse.strided_triton", "sparse"),
    row("Sparse Transformer, fixed, Triton", "sparse.fixed_triton", "sparse"),
    row("Sparse Transformer by FlexAttention", "sparse.strided_flex", "kernels_sparse"),
    row("Sparse Transformer by a dense mask", "sparse.strided_masked", "kernels_sparse"),
    row("sliding windows", "sparse.window", "numerics"),
    row("the package local-attention", "sparse.local_attention", "peers_sparse"),
    row("Explicit Sparse Transformer, top k (Zhao et al. 2019)", "sparse.topk", "fidelity"),
    # Reformer (Kitaev et al. 2020)
    row("Reformer, one round", "lsh.reformer", "reformer", rounds=1),
    row("Reformer, eight rounds", "lsh.reformer", "reformer", rounds=8),
    row("shared queries and keys, in full", "lsh.full", "reformer"),
    row("the package reformer-pytorch", "lsh.reformer_pytorch", "scaling"),
    row("transformers' LSH attention", "lsh.transformers", "peers_lsh"),
    row("pytorch-fast-transformers' LSH attention", "lsh.fast_transformers", "peers_lsh"),
    # Linformer (Wang et al. 2020) and other short keys
    row("Linformer, layerwise sharing", "linformer.linformer", "linformer", sharing="layerwise"),
    row("Linformer, headwise sharing", "linformer.linformer", "peers_linformer", sharing="headwise"),
    row("Linformer, key-value sharing", "linformer.linformer", "peers_linformer", sharing="key_value"),
    row("Linformer by means", "linformer.mean", "fidelity"),
    row("the package linformer", "linformer.lucidrains", "peers_linformer"),
    row("the package linformer-pytorch", "linformer.tatp22", "peers_linformer"),
    row("Nyströmformer (Xiong et al. 2021)", "landmark.nystrom", "boundary-1"),
    row("pooled keys and values (Liu et al. 2018)", "pooling.key_value", "boundary-1"),
    # Transformer-VQ (Lingle 2023)
    row("Transformer-VQ", "vq.blockwise", "vq"),
    row("Transformer-VQ, dense over quantised keys", "vq.quantised", "fidelity"),
    row("Transformer-VQ, Triton", "vq.triton", "vq"),
    # linear attention (Katharopoulos et al. 2020) and other maps
    row("linear attention without a mask", "linear.full", "scaling"),
    row("linear attention by chunks", "linear.chunked", "scaling"),
    row("linear attention token by token", "linear.recurrent", "kernels"),
    row("linear attention by a cumulative sum", "linear.naive_cumsum", "kernels"),
    row("linear attention, CUDA", "linear.cuda", "kernels"),
    row("linear attention, Triton", "linear.triton", "kernels"),
    row("pytorch-fast-transformers' linear attention", "linear.fast_transformers", "kernels"),
    row("flash-linear-attention's linear attention, chunks", "linear.fla_chunk", "kernels"),
    row("flash-linear-attention's linear attention, recurrent", "linear.fla_recurrent", "kernels"),
    row("Efficient Attention (Shen et al. 2018)", "linear.full", "feature_maps", feature_map="efficient"),
    row("similarity 1 + cos", "linear.full", "feature_maps", feature_map="cosine"),
    row("similarity 1 + cos, causal", "linear.chunked", "feature_maps", feature_map="cosine"),
    row("polynomial of degree 2", "linear.chunked", "feature_maps", feature_map="quadratic"),
    row("Performer, FAVOR+ (Choromanski et al. 2020)", "linear.full", "fidelity", feature_map="favor"),
    row("the package performer-pytorch", "linear.performer_pytorch", "peers_linear"),
    row("Based (Arora et al. 2024)", "linear.based", "numerics"),
    # recurrence over segments, and spans
    row("Transformer-XL (Dai et al. 2019)", "context.transformer_xl", "boundary-1"),
    # gates, the delta rule, chosen blocks
    row("RetNet", "gated.retnet", "peers_recurrent"),
    row("Lightning Attention-2", "gated.lightning", "peers_recurrent"),
    row("GLA", "gated.gla", "peers_recurrent"),
    row("Mamba-2", "gated.mamba2", "peers_recurrent"),
    row("DeltaNet", "delta.deltanet", "recall"),
    row("gated DeltaNet", "delta.gated_deltanet", "peers_recurrent"),
    row("Kimi Delta Attention", "delta.kda", "peers_recurrent"),
    row("RWKV-7", "delta.rwkv7", "peers_recurrent"),
    row("MLA", "softmax.mla", "serving"),
    row("MoBA", "blocks.moba", "boundary-1"),
]


def cells_of(suite: str) -> list[Any]:
    loaded = load(suite).suite
    return [cell for device in ("cpu", "cuda") for cell in expand(loaded.resolved(device))]


@pytest.mark.parametrize("suite", dict.fromkeys(each.suite for each in SYSTEMS))
def test_a_system_runs_from_the_suite_that_is_named_for_it(suite: str) -> None:
    cells = cells_of(suite)
    for each in SYSTEMS:
        if each.suite == suite:
            its = [cell for cell in cells if cell.method == each.method and each.params.items() <= cell.params.items()]
            assert its, f"{each.system}: {suite} has no cell of {each.method} {each.params}"
            refused = {registry.load(cell.method).refusal(cell.call) for cell in its}
            assert None in refused, f"{each.system}: {suite} asks for nothing that it does: {refused}"


def test_the_atlas_asks_every_method_for_something_that_it_does() -> None:
    asked: dict[str, set[str | None]] = {}
    for cell in cells_of("atlas"):
        asked.setdefault(cell.method, set()).add(registry.load(cell.method).refusal(cell.call))
    assert set(asked) == set(registry.catalogue())
    # one has no causal form, the other wants sixteen heads of queries to each of keys
    assert {m for m, whys in asked.items() if None not in whys} == {"linear.performer_pytorch", "blocks.nsa_fla"}


def test_the_suite_of_torch_compile_has_every_method_in_plain_torch() -> None:
    in_plain_torch = {name for name in registry.catalogue() if registry.load(name).tier is Tier.EAGER}
    assert {cell.method for cell in cells_of("compile")} == in_plain_torch | {f"{name}+compile" for name in in_plain_torch}
