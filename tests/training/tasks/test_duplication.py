"""Copy: what it is, that it can be solved by its rule, and by nothing else."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.training.tasks.duplication import Duplication, duplicated
from attnbench.training.tasks.task_data import Batch
from tests.training.conftest import generator


def solve(tokens: Tensor) -> Tensor:
    """At each place after the second separator: the symbol that followed as many places after the first."""
    said = torch.zeros_like(tokens)
    for row, out in zip(tokens.tolist(), said, strict=True):
        second = row.index(0, 1)
        for i in range(second, len(row) - 1):
            # behind a shorter word stand separators, which say nothing
            out[i] = row[i - second + 1] if i < 2 * second else 0
    return said


def right(batch: Batch, said: Tensor) -> float:
    return float((said == batch.targets)[batch.judged].double().mean())


def test_a_word_stands_between_two_separators_and_comes_again() -> None:
    batch = duplicated(torch.tensor([[3, 1, 2]]), torch.tensor([3]))
    assert batch.tokens.tolist() == [[0, 3, 1, 2, 0, 3, 1, 2]]
    assert batch.targets.tolist() == [[0, 0, 0, 0, 3, 1, 2, 0]]
    assert batch.judged.tolist() == [[False] * 4 + [True] * 3 + [False]]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(2, 200), st.integers(1, 5), st.integers(0, 99))
def test_who_follows_the_rule_is_always_right(half: int, symbols: int, B: int, seed: int) -> None:
    task = Duplication(2 * half, symbols)
    batch = task.batch(B, generator(seed))
    assert batch.tokens.shape == batch.targets.shape == batch.judged.shape == (B, 2 * half)
    assert int(batch.judged.sum()) == B * (half - 1)
    assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < task.alphabet.vocabulary
    assert right(batch, solve(batch.tokens)) == 1


def test_no_other_place_that_was_read_gives_the_answer_away() -> None:
    batch = Duplication(16, 10).batch(4000, generator())
    spread = math.sqrt(0.1 * 0.9 / int(batch.judged.sum()))
    agreement = [right(batch, batch.tokens.roll(back, dims=1)) for back in range(8)]
    # the answer was read seven places before
    assert agreement[7] == 1
    assert max(agreement[:7]) < 0.1 + 5 * spread


def test_a_shorter_word_leaves_separators_behind() -> None:
    batch = duplicated(torch.tensor([[3, 1, 2, 4]]), torch.tensor([2]))
    assert batch.tokens.tolist() == [[0, 3, 1, 0, 3, 1, 0, 0, 0, 0]]
    assert batch.targets.tolist() == [[0, 0, 0, 3, 1, 0, 0, 0, 0, 0]]
    assert batch.judged.sum() == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 39), st.integers(0, 99))
def test_words_of_many_lengths_are_solved_by_the_same_rule(half: int, shortest: int, seed: int) -> None:
    assume(shortest < half)
    batch = Duplication(2 * half, 10, shortest).batch(4, generator(seed))
    assert shortest <= int(batch.judged.sum(1).min()) <= int(batch.judged.sum(1).max()) <= half - 1
    assert right(batch, solve(batch.tokens)) == 1


def test_every_length_comes_equally_often() -> None:
    lengths = Duplication(32, 10, 8).batch(20000, generator()).judged.sum(1)
    shares = torch.bincount(lengths, minlength=16)[8:].double() / 20000
    assert shares.tolist() == pytest.approx([1 / 8] * 8, abs=5 * math.sqrt(7 / 64 / 20000))
