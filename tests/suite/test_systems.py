"""Every attention system that this project set out to compare runs from a shipped suite: the atlas has all, these have some."""

from typing import Any

import pytest

from attnbench import registry
from attnbench.api import Tier
from attnbench.suite.expand import expand
from attnbench.suite.load import load

METHODS = {
    "boundary-1": "softmax.sdpa_flash softmax.sdpa_cudnn landmark.nystrom pooling.key_value context.transformer_xl blocks.moba",
    "decode": "softmax.sdpa softmax.recompute",
    "fidelity": "sparse.topk linformer.mean vq.quantised",
    "gpu_crossover": "softmax.flash_attn_3 softmax.sdpa_fa3",
    "gpu_decode": "softmax.flashinfer",
    "kernels": (
        "linear.recurrent linear.naive_cumsum linear.cuda linear.triton linear.fast_transformers "
        "linear.fla_chunk linear.fla_recurrent"
    ),
    "kernels_sparse": "sparse.strided_flex sparse.strided_masked",
    "numerics": "sparse.window linear.based",
    "packed": "softmax.flex",
    "peers_linear": "linear.performer_pytorch",
    "peers_linformer": "linformer.lucidrains linformer.tatp22",
    "peers_lsh": "lsh.transformers lsh.fast_transformers",
    "peers_recurrent": "gated.retnet gated.lightning gated.gla gated.mamba2 delta.gated_deltanet delta.kda delta.rwkv7",
    "peers_sparse": "sparse.local_attention",
    "recall": "delta.deltanet",
    "reformer": "lsh.full",
    "scaling": "softmax.naive softmax.sdpa lsh.reformer_pytorch linear.full linear.chunked",
    "serving": "softmax.mla",
    "sparse": "sparse.strided sparse.fixed sparse.strided_triton sparse.fixed_triton",
    "vq": "vq.blockwise vq.triton",
}
# methods that their parameters make a system of its own
PARAMETERS: list[tuple[str, str, dict[str, Any]]] = [
    ("reformer", "lsh.reformer", {"rounds": 1}),
    ("reformer", "lsh.reformer", {"rounds": 8}),
    ("linformer", "linformer.linformer", {"sharing": "layerwise"}),
    ("peers_linformer", "linformer.linformer", {"sharing": "headwise"}),
    ("peers_linformer", "linformer.linformer", {"sharing": "key_value"}),
    # Efficient Attention (Shen et al. 2018)
    ("feature_maps", "linear.full", {"feature_map": "efficient"}),
    ("feature_maps", "linear.full", {"feature_map": "cosine"}),
    ("feature_maps", "linear.chunked", {"feature_map": "cosine"}),
    ("feature_maps", "linear.chunked", {"feature_map": "quadratic"}),
    # Performer (Choromanski et al. 2020)
    ("fidelity", "linear.full", {"feature_map": "favor"}),
]
SYSTEMS = [
    *PARAMETERS,
    *((suite, method, {}) for suite, methods in METHODS.items() for method in methods.split()),
]


def cells_of(suite: str) -> list[Any]:
    loaded = load(suite).suite
    return [cell for device in ("cpu", "cuda") for cell in expand(loaded.resolved(device))]


@pytest.mark.parametrize("suite", dict.fromkeys(suite for suite, *_ in SYSTEMS))
def test_a_system_runs_from_the_suite_that_is_named_for_it(suite: str) -> None:
    cells = cells_of(suite)
    for method, params in [(method, params) for home, method, params in SYSTEMS if home == suite]:
        its = [cell for cell in cells if cell.method == method and params.items() <= cell.params.items()]
        assert its, f"{suite} has no cell of {method} {params}"
        refused = {registry.load(cell.method).refusal(cell.call) for cell in its}
        assert None in refused, f"{suite} asks {method} {params} for nothing that it does: {refused}"


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
