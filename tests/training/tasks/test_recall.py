"""Multi-query associative recall: solvable by its rule, no key with two values, queries where the paper puts them."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.training.tasks.recall import Recall, recalled, slots_of
from tests.training.conftest import generator


def solve(tokens: Tensor, symbols: int) -> Tensor:
    """At each key that came before: what followed it then. Tokens alone say which are keys."""
    said = torch.zeros_like(tokens)
    for row, out in zip(tokens.tolist(), said, strict=True):
        known: dict[int, int] = {}
        for i, token in enumerate(row):
            if 1 <= token <= symbols // 2:
                if token in known:
                    out[i] = known[token]
                else:
                    known[token] = row[i + 1]
    return said


def test_pairs_come_first_and_queries_stand_at_their_slots() -> None:
    batch = recalled(torch.tensor([[2, 1]]), torch.tensor([[5, 7]]), torch.tensor([[0, 1]]), torch.tensor([[2, 0]]), 11)
    assert batch.tokens.tolist() == [[2, 5, 1, 7, 1, 0, 0, 0, 2, 0, 0]]
    assert batch.targets.tolist() == [[0, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0]]
    assert batch.judged.nonzero().tolist() == [[0, 4], [0, 8]]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 120), st.integers(1, 20), st.integers(4, 80), st.integers(0, 99))
def test_who_follows_the_rule_is_always_right(symbols: int, pairs: int, N: int, seed: int) -> None:
    assume(pairs <= symbols // 2 and 2 * pairs + 2 <= N)
    task = Recall(N, symbols, pairs)
    batch = task.batch(3, generator(seed))
    assert batch.tokens.shape == (3, N)
    assert int(batch.tokens.max()) < task.alphabet.vocabulary
    assert batch.judged.sum(1).tolist() == [min(pairs, (N - 2 * pairs) // 2)] * 3
    assert torch.equal(solve(batch.tokens, symbols), batch.targets)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 16), st.integers(0, 99))
def test_a_key_is_given_one_value_and_asked_for_once_at_most(pairs: int, seed: int) -> None:
    batch = Recall(64, 40, pairs).batch(4, generator(seed))
    for row, judged in zip(batch.tokens.tolist(), batch.judged.tolist(), strict=True):
        keys, values = row[0 : 2 * pairs : 2], row[1 : 2 * pairs : 2]
        asked = [token for token, here in zip(row, judged, strict=True) if here]
        assert len(set(keys)) == len(set(values)) == pairs
        assert len(set(asked)) == len(asked)
        assert set(asked) <= set(keys) <= set(range(1, 21))
        assert set(values) <= set(range(21, 41))
        # whatever else is there is blank: nothing that follows a query could be taken for its value
        assert all(here or token == 0 for token, here in zip(row[2 * pairs :], judged[2 * pairs :], strict=True))


def test_neither_the_place_nor_the_order_of_a_query_gives_its_answer_away() -> None:
    batch = Recall(64, 128, 16).batch(2000, generator())
    values = batch.tokens[:, 1:32:2]
    for nth in range(16):
        place = batch.judged.nonzero()[:, 1].view(2000, 16)[:, nth]
        answer = batch.targets.gather(1, place[:, None])
        agreement = (values == answer).double().mean(0)
        # the first drawn slot asks for the first pair, so an order remains; it is far from telling which
        assert float(agreement.max()) < 0.4


def test_queries_follow_the_power_law_of_the_paper() -> None:
    first = slots_of(20000, 16, 1, generator())[:, 0]
    law = [(slot + 1) ** (0.01 - 1) for slot in range(16)]
    for slot, weight in enumerate(law):
        share = weight / sum(law)
        got = float((first == slot).double().mean())
        assert got == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 20000))


def test_no_two_queries_share_a_slot() -> None:
    slots = slots_of(500, 12, 12, generator())
    assert torch.equal(slots.sort(1).values, torch.arange(12).expand(500, 12))
