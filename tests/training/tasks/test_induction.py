"""Induction: one judged place, one rule."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.training.tasks.induction import Induction, marked
from tests.training.conftest import generator


def test_the_special_token_stands_at_one_place_and_at_the_end() -> None:
    batch = marked(torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([1]))
    assert batch.tokens.tolist() == [[3, 0, 5, 6, 0]]
    assert batch.targets.tolist() == [[0, 0, 0, 0, 5]]
    assert batch.judged.tolist() == [[False, False, False, False, True]]


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 80), st.integers(2, 100), st.integers(0, 99))
def test_who_follows_the_rule_is_always_right(N: int, symbols: int, seed: int) -> None:
    task = Induction(N, symbols)
    batch = task.batch(4, generator(seed))
    assert int(batch.tokens.max()) < task.alphabet.vocabulary
    assert batch.judged.sum(1).tolist() == [1] * 4
    for row, target in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        assert row.count(0) == 2
        assert row[-1] == 0
        assert row[row.index(0) + 1] == target


def test_no_fixed_place_gives_the_answer_away() -> None:
    batch = Induction(12, 10).batch(10000, generator())
    agreement = (batch.tokens == batch.targets[:, -1:]).double().mean(0)
    # the answer is at each place from the second to the last but one once in ten times, and by chance in the others
    assert float(agreement.max()) < 0.1 + 0.9 / 10 + 0.02


def test_the_special_token_is_everywhere_equally_often() -> None:
    first = (Induction(12, 10).batch(20000, generator()).tokens == 0).int().argmax(1)
    shares = torch.bincount(first, minlength=10).double() / 20000
    assert shares.tolist() == pytest.approx([0.1] * 10, abs=5 * math.sqrt(0.09 / 20000))
