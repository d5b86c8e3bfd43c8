"""A model that was trained here learns to say with another attention what it said with its own."""

import copy
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hf.models import logits, model_of, tokens_of, written

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]
N, HELD_OUT, UPDATES = 64, 2**15, 400
SEEDS = (0, 1, 2)


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


@pytest.mark.parametrize("method", ["linear.chunked", "gated.retnet"])
def test_linearising_closes_half_of_the_gap_that_a_bare_swap_opens(method: str, hf: Any) -> None:
    held_out, learnt = text()[-HELD_OUT:], text()[:-HELD_OUT]
    own = hf.perplexity(trained(), held_out, N)
    for seed in SEEDS:
        torch.manual_seed(seed)
        bare = hf.perplexity(hf.swap(copy.deepcopy(trained()), method), held_out, N)
        budget = hf.Budget(N=N, B=16, match_updates=100, tune_updates=100, seed=seed)
        linear = hf.linearize(copy.deepcopy(trained()), method, learnt, budget=budget)
        found = hf.perplexity(linear, held_out, N)
        assert own < bare, (method, seed)
        assert bare - found >= 0.5 * (bare - own), (method, seed, own, bare, found)


def test_a_linearised_model_is_an_ordinary_one_that_is_saved_and_read(tmp_path: Path, hf: Any) -> None:
    budget = hf.Budget(N=N, B=2, match_updates=2, tune_updates=2)
    model = hf.linearize(copy.deepcopy(trained()), "gated.retnet", text(), layers=[1], budget=budget)
    assert not any("lora" in name for name, _ in model.named_parameters())
    model.save_pretrained(tmp_path)
    read = hf.load(tmp_path).eval()
    assert torch.equal(logits(read, tokens_of()), logits(model, tokens_of()))
    assert torch.equal(written(read, tokens_of()), written(model, tokens_of()))


def test_a_text_that_is_too_short_is_refused(hf: Any) -> None:
    with pytest.raises(ValueError, match="T > N=64"):
        hf.linearize(model_of(), "gated.retnet", torch.arange(64), budget=hf.Budget(N=64))
