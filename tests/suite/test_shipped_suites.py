"""What the shipped suites hold: each expands, every system that is to be compared is there, and all printed figures."""

import re
from hashlib import sha256
from itertools import chain
from typing import Any

import pytest

from attnbench import registry
from attnbench.analyze.cells import NOT_RUN, OK, CellSummary, summarize
from attnbench.analyze.published import Finding, entries, rows
from attnbench.api import Tier
from attnbench.schema import figures
from attnbench.schema.suite import Suite
from attnbench.suite.expand import expand
from attnbench.suite.load import load, shipped


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_shipped_suite_says_what_it_is_for_expands_and_can_be_stored(name: str, device: str) -> None:
    loaded = load(name).suite
    assert loaded.name == name
    assert loaded.source
    resolved = loaded.resolved(device)
    assert expand(resolved)
    assert Suite.model_validate_json(resolved.model_dump_json()) == resolved


@pytest.mark.parametrize("name", ["quick", "scaling", "boundary-1"])
def test_the_main_suites_ask_each_method_only_for_what_it_has_a_form_for(name: str) -> None:
    cells = expand(load(name).suite.resolved("cpu"))
    refused = {(cell.label, cell.workload.value): registry.load(cell.method).refusal(cell) for cell in cells}
    assert not {cell: why for cell, why in refused.items() if why}
    assert {cell.method.partition(".")[0] for cell in cells} >= {"softmax", "linear", "sparse", "lsh", "linformer", "vq"}


@pytest.mark.parametrize(
    ("device", "digest", "keys"), [("cpu", "3b3f7f5d78d2", "62c69f435fbe"), ("cuda", "8c2d1507c4f3", "e2a93122f5aa")]
)
def test_boundary_1_never_changes(device: str, digest: str, keys: str) -> None:
    # runs of many machines are compared by it: whoever wants another suite writes boundary-2
    suite = load("boundary-1").suite.resolved(device)
    assert suite.digest == digest
    assert sha256(" ".join(sorted(cell.key for cell in expand(suite))).encode()).hexdigest()[:12] == keys


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
SYSTEMS = [*PARAMETERS, *((suite, method, {}) for suite, methods in METHODS.items() for method in methods.split())]


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


SUITES = {name: load(name).suite for name, file in shipped().items() if b"\npublished:" in file.read_bytes()}
# as printed; 1.0 where 1.00 is
FIGURES = {
    "transformers_are_rnns": "4096 16384 65536 2 1",
    "speech": "10.94 5.12 9.33 8.08 1047 2711 2250 824",
    "generation": (
        "317× 16.8× 1.5× 0.6× 4462× 80× 3.75× 1.25× 6.6× 10000 "
        "0.621 0.745 0.676 0.644 3.47 3.39 3.51 3.4 0.45 7.56 0.68 0.27 142.8 0.004 0.32 0.015 0.005 17.85 "
        "72.6 10.2 8651.4 300.1 7.4 10.4 71.9 70.4 46 19.2 2318.9 221.6 112 55.8 5263.7 683.9 5.5 7.3 45.1 61.3"
    ),
    "sparse": (
        "1.31 0.55 0.35 0.54 0.47 0.38 1 0.99 1.13 2.82 2.85 2.8 2.80 0.992 0.001 3.44 1.97 "
        "0.9952 0.9936 0.9932 0.993 0.9922 0.9908 2.17 2.99 16384"
    ),
    "reformer": ("100 94.8 92.5 76.9 52.5 0.8 99.9 99.4 91.9 98.1 86.8 99.6 77.9 1.19 1.05 27.6 28 29.1 2 1"),
    "linformer": (
        "1.5× 1.3× 1.7× 1.6× 2.6× 2.4× 2.1× 3.4× 3.2× 2.8× 2.2× 5.5× 5× 4.4× 3.5× 8.6× 7.8× 7× 5.6× 3.3× 13× 12× 11× 8.8× "
        "20× 18× 16× 14× 7.9× 3× 2.9× 1.8× 6.1× 3.6× 2× 8.3× 4.3× 2.3× 28× 26× 17× 8.5× 4.5× 56× 48× 32× 8× 36× 60× 52× 40× "
        "92.25 91.75 91.85 91.83 92.08 92.03 92.3 91.9 92.18"
    ),
    "vq": "3× 12× 0.99 26.6 3.16",
}
COMPUTED = {
    "generation": "18.9 55.8 13.2 1.35 191.8 1.59 1.40 1.42 4.9 1.15 1.037",
    "sparse": "2.38 3.74 1.15 1.42",
    "speech": "3.29 2.73 1.2",
}
"""Ratios of two printed numbers."""
COUNTS = {"linformer": 2 + 2 * 34 + 11, "reformer": 10 + 16 + 4 + 3}
"""Claims, and the numbers of each printed table."""


@pytest.mark.parametrize("name", FIGURES)
def test_every_printed_figure_stands_in_a_suite(name: str) -> None:
    said = chain.from_iterable(re.findall(r"[\d.]+×?", entry.says) for entry in entries(SUITES[name].published))
    assert set(FIGURES[name].split()) <= set(said)


@pytest.mark.parametrize("name", SUITES)
def test_a_ratio_that_is_computed_says_so_and_names_the_two_printed_numbers(name: str) -> None:
    found = set()
    for entry in entries(SUITES[name].published):
        if " / " not in entry.says:
            continue
        parts = re.fullmatch(r"([\d.]+)×(?: on MNIST)?, computed from ([\d.]+) / ([\d.]+)", entry.says)
        assert parts, entry.says
        ratio, over, under = parts.groups()
        assert float(ratio) == entry.number == pytest.approx(float(over) / float(under), rel=0.005)
        assert {over, under} <= set(FIGURES[name].split())
        found.add(ratio)
    assert found == set(COMPUTED.get(name, "").split())


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_cites_its_paper_ends_in_the_table_and_has_each_printed_table_as_a_whole(name: str) -> None:
    suite = SUITES[name]
    assert re.search(r"arXiv:\d{4}\.\d{5}", suite.source)
    assert "published" in suite.report.tables
    if name in COUNTS:
        assert len(entries(suite.published)) == COUNTS[name]


def planned(suite: Suite, device: str) -> list[CellSummary]:
    """As if every cell had been measured, with every score."""
    scores = {metric: {0: 0.5, 1: 0.5, 2: 0.5} for metric in figures.FIGURES}
    medians = {0: 1.0, 1: 1.0, 2: 1.0}
    cells = summarize(expand(suite.resolved(device)), [])
    assert {cell.status for cell in cells} == {NOT_RUN}
    return [CellSummary(each.cell, OK, medians=medians, scores=scores, bound="oom_host", refused=2) for each in cells]


@pytest.mark.parametrize("name", SUITES)
def test_each_figure_that_is_read_off_a_run_has_its_cells_on_one_device_at_least(name: str) -> None:
    suite = SUITES[name]
    found = [rows(suite.published, planned(suite, device)) for device in ("cpu", "cuda")]
    for each in zip(*found, strict=True):
        words = [f"{row.entry.written.where}: {row.entry.what}: {row.why}" for row in each]
        # of no device are there several cells for one figure, or a metric that is none
        assert not [row for row in each if row.finding is Finding.CANNOT_TELL and row.figure is None], words
        ours = each[0].entry.written.ours
        if ours is not None and ours.metric.startswith("memory"):
            # memory is none of what is made up here: it fails for want of a counter alone
            assert each[0].why.endswith(("no memory was read in this run", "fewer than three lengths have a figure")), words
        elif ours is not None:
            assert any(row.figure for row in each) or each[0].entry.written.needs, words
