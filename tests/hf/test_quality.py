"""What a whole model says with another attention in its layers, before and after it learns."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.model import Model
from attnbench.schema.outcome import DIVERGENCE, PERPLEXITY, Measured
from attnbench.schema.problem import Problem
from tests.hf.test_whole_models import CONFIG

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of bytes, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 256, "num_hidden_layers": 2}))
    (tmp_path / "text").write_bytes(b"the quick brown fox jumps over the lazy dog; " * 400)
    return str(tmp_path)


def scores(config: str, method: str, seed: int = 1, **model: Any) -> dict[str, float]:
    from attnbench.workloads.model_quality import measure_quality

    about = Model(config=config, text=str(Path(config) / "text"), learnt=40, **model)
    problem = Problem(B=4, N=48, H=4, kv_heads=2, D=16, causal=True)
    cell = Cell(method=method, problem=problem, workload=Workload.MODEL_QUALITY, model=about)
    found = measure_quality(Job(cell=cell, replicate=0, phase=Pass.QUALITY, seed=seed, warmup=0, limits=Limits(seconds=60)))
    assert isinstance(found, Measured), found
    return {name: series.values[0] for name, series in found.samples.items()}


def test_a_model_with_its_own_attention_does_not_differ_from_itself_and_exact_softmax_hardly_does(config: str) -> None:
    own = scores(config, "softmax.transformers_sdpa")
    assert own[DIVERGENCE] == 0
    assert 1 < own[PERPLEXITY] < 256
    swapped = scores(config, "softmax.naive")
    assert swapped[PERPLEXITY] == pytest.approx(own[PERPLEXITY], rel=1e-4)
    assert abs(swapped[DIVERGENCE]) < 1e-5


def test_what_is_trained_is_kept_and_every_method_begins_with_the_same_model(config: str) -> None:
    first = scores(config, "softmax.transformers_sdpa")
    (kept,) = (Path(config) / "cache" / "attnbench" / "models").iterdir()
    written = kept.stat().st_mtime_ns
    assert scores(config, "softmax.transformers_sdpa") == first
    assert kept.stat().st_mtime_ns == written
    assert scores(config, "softmax.transformers_sdpa", seed=2) != first


def test_learning_after_a_swap_brings_the_model_nearer_to_what_it_said(config: str) -> None:
    bare, matched, tuned = (
        scores(config, "linear.chunked", **more) for more in ({}, {"matched": 30}, {"matched": 30, "tuned": 30})
    )
    assert bare[DIVERGENCE] > 0
    assert matched[PERPLEXITY] < bare[PERPLEXITY]
    assert tuned[PERPLEXITY] < bare[PERPLEXITY]
