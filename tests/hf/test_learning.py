"""What the layers of a model attend is recorded; it learns to say with another attention what it said before; it is asked."""

import copy
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.workloads.recording import Recording
from tests.hf.conftest import KINDS, LAYERS, logits, model_of, tokens_of

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]
N, HELD_OUT, UPDATES = 64, 2**15, 400
KNOWN = torch.arange(100, 200)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mistral"])
def test_recorded_queries_keys_and_values_are_those_that_the_layers_attend(kind: str) -> None:
    from attnbench.hf.recording import heard

    model, attended = model_of(kind), list[Tensor]()
    outputs = [m for name, m in model.named_modules() if name.endswith(("o_proj", "attn.c_proj", "self_attn.out_proj"))]
    hooks = [module.register_forward_pre_hook(lambda _, given: attended.append(given[0])) for module in outputs]
    found = heard(model, tokens_of())
    for hook in hooks:
        hook.remove()
    assert found["q"].shape == found["k"].shape == found["v"].shape == (3, 4 * LAYERS, 21, 16)
    for layer, wanted in enumerate(attended):
        q, k, v = (found[name][:, 4 * layer : 4 * layer + 4] for name in ("q", "k", "v"))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(o.transpose(1, 2).flatten(2), wanted, rtol=0, atol=1e-5)


def test_a_recording_is_a_file_that_suites_read_and_of_another_ending_or_unused_is_refused(tmp_path: Path, hf: Any) -> None:
    file = tmp_path / "mine.safetensors"
    shapes = hf.record(model_of(), tokens_of(), file)
    read = Recording.read(str(file))
    assert shapes["q"] == tuple(read.q.shape) == (3, 12, 21, 16)
    assert read.sequences == 3
    with pytest.raises(hf.CannotError, match=r"must end in \.safetensors"):
        hf.record(model_of(), tokens_of(), "mine.pt")
    for tokens, says in ((tokens_of() + 9999, "there is number"), (tokens_of().repeat(1, 99), "fewer than N=2079")):
        with pytest.raises(hf.CannotError, match=says):
            hf.record(model_of(), tokens, file)
    with pytest.raises(hf.CannotError, match="attends other k and q than those of the layer"):
        hf.record(hf.swap(model_of(), "gated.retnet", reuse="vo"), tokens_of(), file)


@pytest.mark.parametrize(
    ("length", "code", "said"),
    [(64, 0, "mine.safetensors: q [3, 12, 64, 16], k [3, 12, 64, 16], v [3, 12, 64, 16]\n"), (4096, 2, "needs as many")],
)
def test_the_command_records_a_model_on_a_text(length: int, code: int, said: str, tmp_path: Path, hf: Any) -> None:
    hf.swap(model_of(vocab_size=256), "gated.retnet", layers=[1]).save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_bytes(bytes(range(256)) * 20)
    words = ["record", "model", "--text", "text", "--sequences", "3", "--out", "mine.safetensors", "--N", str(length)]
    command = [sys.executable, "-m", "attnbench", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == said if code == 0 else said in ended.stderr


def test_a_text_is_read_by_a_tokenizer_of_older_files_too_and_one_that_cannot_be_read_is_named(tmp_path: Path, hf: Any) -> None:
    from attnbench.hf.text import text_of

    model_of("gpt2").config.save_pretrained(tmp_path)
    (tmp_path / "text").write_text("abab" * 10)
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    read = text_of(str(tmp_path / "text"), str(tmp_path))
    assert read.name.startswith("tokens of")
    assert set(torch.cat([read.learnt, read.held_out]).tolist()) == {2}
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(hf.CannotError, match=f"{tmp_path}: its tokenizer cannot be read"):
        text_of(str(tmp_path / "text"), str(tmp_path))


@cache
def text() -> Tensor:
    """The sources of Python's own argparse, typing and others, as bytes."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    read = b"".join((folder / f"{name}.py").read_bytes() for name in ("argparse", "typing", "inspect", "pathlib", "datetime"))
    return torch.frombuffer(bytearray(read), dtype=torch.uint8).long()


@cache
def trained() -> Any:
    """A small model of bytes, after a few hundred updates: the same for all tests, each of which takes a copy."""
    model = model_of(vocab_size=256, num_hidden_layers=2).train()
    optimiser, source = torch.optim.AdamW(model.parameters(), 3e-3), torch.Generator().manual_seed(0)
    learnt = text()[:-HELD_OUT]
    for _ in range(UPDATES):
        starts = torch.randint(len(learnt) - N, (16, 1), generator=source)
        tokens = learnt[starts + torch.arange(N)]
        model(tokens, labels=tokens, use_cache=False).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return model.eval()


def test_perplexity_is_of_the_next_token_also_where_a_model_s_own_loss_is_of_the_same_one(hf: Any) -> None:
    model, tokens = model_of("bart"), tokens_of(1, N)
    want = torch.nn.functional.cross_entropy(logits(model, tokens)[0, :-1], tokens[0, 1:]).exp()
    assert (hf.perplexity(model.train(), tokens[0], N), model.training) == (pytest.approx(float(want)), True)
    with pytest.raises(IndexError):
        hf.perplexity(model, torch.full((N,), 10**6), N)
    assert model.training


@pytest.mark.parametrize("method", ["linear.chunked", "gated.retnet"])
def test_linearising_closes_half_of_the_gap_that_a_bare_swap_opens(method: str, hf: Any) -> None:
    held_out, learnt = text()[-HELD_OUT:], text()[:-HELD_OUT]
    own = hf.perplexity(trained(), held_out, N)
    for seed in range(3):
        torch.manual_seed(seed)
        bare = hf.perplexity(hf.swap(copy.deepcopy(trained()), method), held_out, N)
        budget = hf.Budget(N=N, B=16, match_updates=100, tune_updates=100, seed=seed)
        linear = hf.linearize(copy.deepcopy(trained()), method, learnt, budget=budget)
        found = hf.perplexity(linear, held_out, N)
        assert own < bare, (method, seed)
        assert bare - found >= 0.5 * (bare - own), (method, seed, own, bare, found)


def test_without_peft_nothing_is_learnt(monkeypatch: pytest.MonkeyPatch, hf: Any) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match="needs peft"):
        hf.linearize(model := model_of(), "gated.retnet", torch.arange(400))
    assert not hasattr(model.config, "attnbench")


def test_a_linearised_model_is_saved_and_read_as_any_and_a_text_that_is_too_short_is_refused(tmp_path: Path, hf: Any) -> None:
    budget = hf.Budget(N=N, B=2, match_updates=2, tune_updates=2)
    with pytest.raises(ValueError, match="T > N=64"):
        hf.linearize(model_of(), "gated.retnet", torch.arange(64), budget=budget)
    for length, says in ((N, "63 tokens; N=64 needs as many"), (1, "N=1: a sequence has no next token")):
        with pytest.raises(hf.CannotError, match=says):
            hf.perplexity(model_of(), torch.arange(63), length)
    model = hf.linearize(copy.deepcopy(trained()), "gated.retnet", text(), layers=[1], budget=budget)
    assert not any("lora" in name for name, _ in model.named_parameters())
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(hf.load(tmp_path).eval(), tokens_of()), logits(model, tokens_of()))


@pytest.mark.parametrize("updates", [{"match_updates": 1}, {"tune_updates": 1}])
def test_a_codebook_learns_from_every_batch_also_the_last(updates: dict[str, int], hf: Any) -> None:
    kept = []
    for made in ({}, updates):
        budget = hf.Budget(N=N, B=2, **{"match_updates": 0, "tune_updates": 0} | made)
        model = hf.linearize(model_of(vocab_size=256), "vq.blockwise", text(), layers=[1], budget=budget, block=8)
        kept.append([x for name, x in model.named_buffers() if ".swapped." in name])
    assert not all(map(torch.equal, *kept))


class LooksBack:
    """Says after each token what followed the last time that the last few tokens stood there; of tokens that are new, 0."""

    device = torch.device("cpu")

    def __init__(self, remembers: int) -> None:
        self.remembers = remembers

    def __call__(self, tokens: Tensor, **_: Any) -> Any:
        said, n = torch.zeros(*tokens.shape, 256), self.remembers
        for row, out in zip(tokens.tolist(), said, strict=True):
            for t in range(len(row)):
                ends = [e for e in range(n - 1, t) if row[e - n + 1 : e + 1] == row[t - n + 1 : t + 1]]
                out[t, row[ends[-1] + 1] if ends else 0] = 1
        return SimpleNamespace(logits=said)


def source() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("length", [4, 5, 48, 401, 1000])
def test_pairs_fit_in_their_length_and_each_value_is_asked_for_once(length: int) -> None:
    from attnbench.hf.probes import associations

    probe = associations(KNOWN, 6, length, source())
    S, n = probe.tokens.shape
    assert n == min(4 * (length // 4), 2 * len(KNOWN))
    assert probe.asked.sum(1).tolist() == [n // 4] * S
    first, again = probe.tokens[:, : n // 2], probe.tokens[:, n // 2 :]
    for before, after in zip(first, again, strict=True):
        assert len(set(before.tolist())) == n // 2
        pairs, repeated = (set(map(tuple, half.view(-1, 2).tolist())) for half in (before, after))
        assert pairs == repeated


@pytest.mark.parametrize("length", [8, 20, 64, 300])
def test_a_needle_stands_in_every_text_from_its_beginning_to_its_end(length: int) -> None:
    from attnbench.hf.probes import needle

    probe, half = needle(torch.zeros(5, length, dtype=torch.int64), KNOWN, source()), min(8, length // 8)
    assert (probe.tokens.shape, probe.asked.sum(1).tolist()) == ((5, length), [half] * 5)
    for row in probe.tokens:
        hidden = row[-2 * half :]
        assert any(torch.equal(row[start : start + 2 * half], hidden) for start in range(length - 4 * half + 1))
    begins = [int((row > 0).int().argmax()) for row in probe.tokens]
    assert begins == sorted(begins)
    assert (begins[0], begins[-1]) == (0, length - 4 * half)


def test_a_model_that_looks_back_answers_and_one_that_does_not_cannot() -> None:
    from attnbench.hf.probes import associations, needle

    one, three, blind = (LooksBack(n) for n in (1, 3, 97))
    pairs = associations(KNOWN, 4, 64, source())
    found = needle(torch.zeros(4, 96, dtype=torch.int64), KNOWN, source())
    assert pairs.answered(one) == found.answered(three) == 1
    assert pairs.answered(blind) == found.answered(blind) == 0
