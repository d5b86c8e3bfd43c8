"""Whole models: the first token, the next one, an update, the attention's share of the time; what they say with another one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from attnbench import Problem, read
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.model import Model
from attnbench.schema.outcome import DIVERGENCE, PERPLEXITY, Failed, Measured
from attnbench.suite.models import sizes_of
from attnbench.worker.isolate import Isolation
from attnbench.workloads.timing import measure_time
from tests.hf.conftest import SIZES, VOCABULARY, model_of

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]
CONFIG = {"model_type": "llama", "vocab_size": VOCABULARY, **SIZES, "max_position_embeddings": 1024}
WORKLOADS = ("model_prefill", "model_decode", "model_train")
METHODS = ("softmax.transformers_sdpa", "softmax.transformers_eager", "softmax.sdpa", "linear.chunked", "delta.gated_deltanet")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return str(folder)


def cell_of(config: str, workload: str, method: str, **problem: Any) -> Cell:
    sizes = sizes_of(config)
    shape = {"N": 64, "H": sizes.heads, "kv_heads": sizes.kv_heads, "D": sizes.head_dim, "causal": True, **problem}
    return Cell(method=method, problem=Problem(**shape), workload=Workload(workload), model=Model(config=config))


def built(cell: Cell, **model: Any) -> Any:
    """The setting of a cell, with these changes to its model."""
    from attnbench.workloads.whole_model import whole_model

    assert cell.model is not None
    return whole_model(cell.model_copy(update={"model": cell.model.model_copy(update=model)}), seed=3)


def test_a_run_measures_every_workload_of_a_whole_model(config: str, tmp_path: Path) -> None:
    suite = {
        **{"name": "whole", "axes": {"N": [64, 128], "causal": True}, "workloads": list(WORKLOADS)},
        **{"model": {"config": config}, "methods": list(METHODS), "budget": {"seconds": 0.2}, "replicates": 2},
        "report": {"tables": ["summary", "time", "attention_share"], "plots": ["time", "attention_share"]},
    }
    (tmp_path / "whole.yaml").write_text(json.dumps(suite))
    command = [sys.executable, "-m", "attnbench", "run", "whole.yaml", "--yes"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = (tmp_path / "results" / "whole").iterdir()
    frame = read(folder).frame()
    assert len(frame) == 2 * len(WORKLOADS) * len(METHODS)
    assert set(frame.status) == {"ok"}, frame[["method", "workload", "status", "reason"]]
    assert set(frame.config) == {config}
    assert frame[frame.workload != "model_train"].attention_share.between(0.001, 0.999).all()
    states = frame[(frame.workload == "model_decode") & (frame.N == 128)].set_index("method").state_bytes
    # keys and values of two heads of 16 in three layers; and a state of 16 × 16 for each of these heads
    assert states["softmax.transformers_sdpa"] == states["softmax.sdpa"] == 3 * 2 * 2 * 128 * 16 * 4
    assert states["delta.gated_deltanet"] == 3 * 2 * 16 * 16 * 4


def test_the_server_imports_for_its_children_what_each_of_them_would_take_seconds_to_import(config: str) -> None:
    def imported(isolation: Isolation) -> bool:
        assert isolation._server is not None
        return any("tokenizers" in each.path for each in psutil.Process(isolation._server.pid).memory_maps())

    cell = cell_of(config, "model_prefill", "linear.chunked")
    bare = cell.model_copy(update={"workload": Workload.FORWARD, "model": None})
    with Isolation() as isolation:
        for asked, is_imported in ((bare, False), (cell, True)):
            assert isinstance(isolation.ask(Job(cell=asked, limits=Limits(seconds=0.2)), 60)[0], Measured)
            assert imported(isolation) == is_imported


@pytest.mark.parametrize("method", METHODS)
def test_the_next_token_is_that_of_the_whole_prompt_however_often_it_is_read(config: str, method: str) -> None:
    torch.manual_seed(0)
    setting, prompt = (built(cell_of(config, workload, method, B=2)) for workload in ("model_decode", "model_prefill"))
    prompt.model.load_state_dict(setting.model.state_dict())
    said = prompt.forward()
    assert said.shape == (2, 1, 97)
    first = setting.call()
    torch.testing.assert_close(first, said, rtol=0, atol=1e-5)
    if "linear" not in method and "delta" not in method:
        # sums in place get the token again; caches do not
        torch.testing.assert_close(setting.call(), first, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "kind"), [("Right", Measured), ("LeaksInItsPrompt", Failed)])
def test_a_prompt_is_proven_by_the_call_that_reads_it(config: str, name: str, kind: type[object]) -> None:
    method = f"{Path(__file__).parents[1] / 'workloads' / 'attentions' / 'gate_cases.py'}:{name}"
    assert type(measure_time(Job(cell=cell_of(config, "model_prefill", method), limits=Limits(seconds=0.1)))) is kind


def test_the_first_update_is_one_that_is_timed(config: str) -> None:
    assert not built(cell_of(config, "model_train", "linear.chunked")).optimiser.state


def test_every_nth_layer_keeps_its_own_attention_and_methods_count_states(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnbench.hf.swapping import attentions, swapped_in

    setting = built(cell_of(config, "model_prefill", "gated.retnet"), own_every=2)
    assert [bool(swapped_in(module)) for _, module in attentions(setting.model)] == [True, False, True]
    monkeypatch.setattr(type(setting.method), "state_bytes", lambda *_: 100)
    assert setting.state_bytes() == 100 + 2 * 2 * 64 * 16 * 4 + 100


def test_weights_are_read_from_a_folder(config: str, tmp_path: Path) -> None:
    (saved := model_of()).save_pretrained(tmp_path)
    cell = cell_of(config, "model_prefill", "softmax.transformers_sdpa")
    read_again = built(cell, config=str(tmp_path), weights=str(tmp_path)).model
    assert all(torch.equal(x, y) for x, y in zip(saved.parameters(), read_again.parameters(), strict=True))


def test_shipped_configurations_are_what_transformers_reads() -> None:
    from transformers import AutoConfig

    from attnbench.suite.models import file_of

    for file in file_of("llama-10m").parent.glob("*.json"):
        theirs, ours = AutoConfig.from_pretrained(file), sizes_of(file.stem)
        width = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
        kv_heads = getattr(theirs, "num_key_value_heads", theirs.num_attention_heads)
        assert (ours.heads, ours.kv_heads, ours.head_dim) == (theirs.num_attention_heads, kv_heads, width)
        assert (ours.layers, ours.positions) == (theirs.num_hidden_layers, theirs.max_position_embeddings)


@pytest.fixture
def of_bytes(place: None, tmp_path: Path) -> str:
    """A model of bytes, and a cache of its own."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 256, "num_hidden_layers": 2}))
    (tmp_path / "text").write_bytes(b"the quick brown fox jumps over the lazy dog; " * 400)
    return str(tmp_path)


def scores(config: str, method: str, seed: int = 1, **model: Any) -> dict[str, float]:
    from attnbench.workloads.model_quality import measure_quality

    about = Model(config=config, text=str(Path(config) / "text"), learnt=40, **model)
    cell = cell_of(config, "model_quality", method, B=4, N=48).model_copy(update={"model": about})
    found = measure_quality(Job(cell=cell, replicate=0, phase=Pass.QUALITY, seed=seed, warmup=0, limits=Limits(seconds=60)))
    assert isinstance(found, Measured), found
    return {name: series.values[0] for name, series in found.samples.items()}


def test_a_model_with_its_own_attention_does_not_differ_from_itself_and_exact_softmax_hardly_does(of_bytes: str) -> None:
    own = scores(of_bytes, "softmax.transformers_sdpa")
    assert own[DIVERGENCE] == 0
    assert 1 < own[PERPLEXITY] < 256
    swapped = scores(of_bytes, "softmax.naive")
    assert swapped[PERPLEXITY] == pytest.approx(own[PERPLEXITY], rel=1e-4)
    assert abs(swapped[DIVERGENCE]) < 1e-5


def test_a_model_with_fewer_tokens_than_its_text_is_named(of_bytes: str) -> None:
    model_of().save_pretrained(of_bytes)
    with pytest.raises(ValueError, match=r"has 97 tokens; among the bytes of .* there is number 122"):
        scores(of_bytes, "softmax.sdpa", weights=of_bytes)


def test_what_is_trained_is_kept_for_all_methods_and_lanes_and_is_trained_anew_where_it_is_damaged_or_cannot_be_kept(
    of_bytes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = scores(of_bytes, "softmax.transformers_sdpa")
    (kept,) = (Path(of_bytes) / "cache" / "attnbench" / "models").iterdir()
    weights, written = kept.read_bytes(), kept.stat().st_mtime_ns
    assert scores(of_bytes, "softmax.transformers_sdpa") == first
    assert kept.stat().st_mtime_ns == written
    assert scores(of_bytes, "softmax.transformers_sdpa", seed=2) != first
    kept.write_bytes(b"nothing")
    assert scores(of_bytes, "softmax.transformers_sdpa") == first
    kept.unlink()
    kept.mkdir()
    assert scores(of_bytes, "softmax.transformers_sdpa") == first
    kept.rmdir()
    # another lane ends first
    monkeypatch.setattr("attnbench.hf.linearizing.train_on_text", lambda *_: kept.write_bytes(weights))
    assert scores(of_bytes, "softmax.transformers_sdpa") == first


def test_learning_after_a_swap_brings_the_model_nearer_to_what_it_said(of_bytes: str) -> None:
    kinds: tuple[dict[str, int], ...] = ({}, {"matched": 30}, {"matched": 30, "tuned": 30})
    bare, matched, tuned = (scores(of_bytes, "linear.chunked", **more) for more in kinds)
    assert bare[DIVERGENCE] > 0
    assert matched[PERPLEXITY] < bare[PERPLEXITY]
    assert tuned[PERPLEXITY] < bare[PERPLEXITY]
