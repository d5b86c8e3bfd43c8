"""What the layers of a model attend, recorded as inputs of suites."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.workloads.recording import Recording
from tests.hf.models import KINDS, LAYERS, model_of, tokens_of

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mistral"])
def test_recorded_queries_keys_and_values_are_those_that_the_layers_attend(kind: str) -> None:
    from attnbench.hf.recording import heard

    model, attended = model_of(kind), list[Tensor]()
    outputs = [m for name, m in model.named_modules() if name.endswith(("o_proj", "attn.c_proj"))]
    hooks = [module.register_forward_pre_hook(lambda _, given: attended.append(given[0])) for module in outputs]
    found = heard(model, tokens_of())
    for hook in hooks:
        hook.remove()
    assert found["q"].shape == found["k"].shape == found["v"].shape == (3, 4 * LAYERS, 21, 16)
    for layer, wanted in enumerate(attended):
        q, k, v = (found[name][:, 4 * layer : 4 * layer + 4] for name in ("q", "k", "v"))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(o.transpose(1, 2).flatten(2), wanted, rtol=0, atol=1e-5)


def test_a_recording_is_a_file_that_suites_read(tmp_path: Path, hf: Any) -> None:
    file = tmp_path / "mine.safetensors"
    shapes = hf.record(model_of(), tokens_of(), file)
    read = Recording.read(str(file))
    assert shapes["q"] == tuple(read.q.shape) == (3, 12, 21, 16)
    assert read.sequences == 3


def test_a_recording_under_another_ending_is_refused(hf: Any) -> None:
    with pytest.raises(hf.CannotError, match=r"must end in \.safetensors"):
        hf.record(model_of(), tokens_of(), "mine.pt")


def test_the_command_records_the_model_of_a_folder_on_a_text(tmp_path: Path, hf: Any) -> None:
    hf.swap(model_of(vocab_size=256), "gated.retnet", layers=[1]).save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_bytes(bytes(range(256)) * 20)
    words = ["record", "model", "--text", "text", "--sequences", "3", "--out", "mine.safetensors", "--N"]

    def recorded(N: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnbench", *words, str(N)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    ended = recorded(64)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "mine.safetensors: q [3, 12, 64, 16], k [3, 12, 64, 16], v [3, 12, 64, 16]\n"
    ended = recorded(4096)
    assert ended.returncode == 2
    assert "needs as many" in ended.stderr
