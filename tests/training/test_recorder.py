"""Recordings: what a trained model projects of sequences it has not seen, layer by layer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnbench.schema.errand import Job, Limits, Pass
from attnbench.store.run_folder import checkpoint_of
from attnbench.training.checkpoint import save
from attnbench.training.loop import Progress
from attnbench.training.recorder import RecordingError, record, record_file
from attnbench.training.tasks import task_of
from attnbench.training.transformer import Transformer, plan_of
from tests.training.conftest import small_cell


def checkpoint(folder: Path, method: str = "softmax.sdpa", lacking: int = 0, **fields: Any) -> tuple[Path, Transformer]:
    job = Job(cell=small_cell(method, **fields), phase=Pass.TRAIN, folder=str(folder), limits=Limits())
    plan = plan_of(job.cell)
    model = Transformer(job.cell, task_of(plan, job.cell.problem.N).alphabet, seed=5)
    progress = Progress.begin(model, 5)
    progress.seconds = [1.0] * (plan.updates - lacking)
    return save(progress, job), model


def test_a_file_holds_q_k_and_v_of_every_layer_and_head_as_the_attentions_were_called_with_them(tmp_path: Path) -> None:
    file, model = checkpoint(tmp_path)
    out = tmp_path / "recorded.safetensors"
    shapes = record_file(file, out, sequences=4)
    found = load_file(out)
    assert shapes == dict.fromkeys(("q", "k", "v"), (4, 2 * 2, 16, 8))
    assert {name: tuple(x.shape) for name, x in found.items()} == shapes
    assert {x.dtype for x in found.values()} == {torch.float16}
    seen: list[tuple[torch.Tensor, ...]] = []
    for block in model.layers:
        block.attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    wanted = record(model.eval(), 4)
    assert all(torch.equal(found[name], wanted[name].half()) for name in found)
    assert torch.equal(wanted["q"], torch.cat([inputs[0] for inputs in seen], dim=1))
    assert torch.equal(wanted["v"], torch.cat([inputs[2] for inputs in seen], dim=1))


def test_batches_make_no_difference(tmp_path: Path) -> None:
    _, model = checkpoint(tmp_path, dtype="float64")
    torch.testing.assert_close(record(model, 7)["k"][:3], record(model, 3)["k"])


def test_a_model_that_hears_is_recorded_too(tmp_path: Path) -> None:
    file, _ = checkpoint(tmp_path, task="speech", causal=False, N=32)
    shapes = record_file(file, tmp_path / "recorded.safetensors", sequences=3)
    assert shapes == dict.fromkeys(("q", "k", "v"), (3, 2 * 2, 32, 8))


def test_one_tensor_of_queries_and_keys_is_both_and_heads_that_share_a_key_have_it_each(tmp_path: Path) -> None:
    _, model = checkpoint(tmp_path, "lsh.reformer")
    found = record(model, 4)
    assert torch.equal(found["q"], found["k"])
    assert not torch.equal(found["q"], found["v"])
    _, model = checkpoint(tmp_path, kv_heads=1)
    found = record(model, 4)
    assert found["k"].shape == found["q"].shape == (4, 4, 16, 8)
    assert torch.equal(found["k"][:, 0], found["k"][:, 1])


def test_half_a_training_and_a_file_that_is_no_checkpoint_are_not_recorded_from(tmp_path: Path) -> None:
    half, _ = checkpoint(tmp_path, lacking=1)
    with pytest.raises(RecordingError, match="ended after 11 of 12 updates"):
        record_file(half, tmp_path / "out.safetensors", sequences=2)
    file = tmp_path / "no.safetensors"
    file.write_bytes(b"nothing")
    with pytest.raises(RecordingError, match=r"no.safetensors cannot be read as a trained model"):
        record_file(file, tmp_path / "out.safetensors", sequences=2)
    with pytest.raises(RecordingError, match="cannot be read"):
        record_file(checkpoint_of(tmp_path, small_cell(), 3), tmp_path / "out.safetensors", sequences=2)
