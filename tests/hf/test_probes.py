"""What only the context knows: a model that looks back answers it, one that does not cannot."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.peers
KNOWN = torch.arange(100, 200)


class LooksBack:
    """Says after each token what followed the last time that the last few tokens stood there; of tokens that are new, 0."""

    device = torch.device("cpu")

    def __init__(self, remembers: int) -> None:
        self.remembers = remembers

    def __call__(self, tokens: Tensor, **_: Any) -> Any:
        said = torch.zeros(*tokens.shape, 256)
        for row, out in zip(tokens.tolist(), said, strict=True):
            for t in range(len(row)):
                ends = [
                    e
                    for e in range(self.remembers - 1, t)
                    if row[e - self.remembers + 1 : e + 1] == row[t - self.remembers + 1 : t + 1]
                ]
                out[t, row[ends[-1] + 1] if ends else 0] = 1
        return SimpleNamespace(logits=said)


def source() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("N", [4, 5, 48, 401, 1000])
def test_pairs_fit_in_their_length_and_each_value_is_asked_for_once(N: int) -> None:
    from attnbench.hf.probes import associations

    probe = associations(KNOWN, 6, N, source())
    S, n = probe.tokens.shape
    assert n == min(4 * (N // 4), 2 * len(KNOWN))
    assert probe.asked.sum(1).tolist() == [n // 4] * S
    first, again = probe.tokens[:, : n // 2], probe.tokens[:, n // 2 :]
    for before, after in zip(first, again, strict=True):
        assert len(set(before.tolist())) == n // 2
        pairs, repeated = (set(map(tuple, half.view(-1, 2).tolist())) for half in (before, after))
        assert pairs == repeated


@pytest.mark.parametrize("N", [8, 20, 64, 300])
def test_a_needle_stands_in_every_text_from_its_beginning_to_its_end(N: int) -> None:
    from attnbench.hf.probes import needle

    text = torch.zeros(5, N, dtype=torch.int64)
    probe = needle(text, KNOWN, source())
    half = min(8, N // 8)
    assert probe.tokens.shape == (5, N)
    assert probe.asked.sum(1).tolist() == [half] * 5
    for row in probe.tokens:
        hidden = row[-2 * half :]
        at = [start for start in range(N - 4 * half + 1) if torch.equal(row[start : start + 2 * half], hidden)]
        assert at
    begins = [int((row > 0).int().argmax()) for row in probe.tokens]
    assert begins[0] == 0
    assert begins == sorted(begins)
    assert begins[-1] == N - 4 * half


def test_a_model_that_looks_back_answers_and_one_that_does_not_cannot() -> None:
    from attnbench.hf.probes import associations, needle

    model: Any = LooksBack(1)
    assert associations(KNOWN, 4, 64, source()).answered(model) == 1
    model = LooksBack(3)
    found = needle(torch.zeros(4, 96, dtype=torch.int64), KNOWN, source())
    assert found.answered(model) == 1
    blind: Any = LooksBack(97)
    assert found.answered(blind) == 0
    assert associations(KNOWN, 4, 64, source()).answered(blind) == 0
