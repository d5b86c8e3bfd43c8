"""Copy, induction, recall and ListOps: what they are, that each can be solved by its rule, and by nothing else."""

import math
import statistics
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.training.tasks.duplication import Duplication, duplicated
from attnbench.training.tasks.induction import Induction, marked
from attnbench.training.tasks.listops import VOCABULARY, ListOps, filled, make_shapes
from attnbench.training.tasks.recall import Recall, recalled, slots_of
from attnbench.training.tasks.task_data import Batch
from tests.training.conftest import generator


def copied(tokens: Tensor) -> Tensor:
    """At each place after the second separator: the symbol that followed as many places after the first."""
    said = torch.zeros_like(tokens)
    for row, out in zip(tokens.tolist(), said, strict=True):
        second = row.index(0, 1)
        for i in range(second, len(row) - 1):
            # behind a shorter word stand separators, which say nothing
            out[i] = row[i - second + 1] if i < 2 * second else 0
    return said


def right(batch: Batch, said: Tensor) -> float:
    """The share of judged places at which what is said is the target."""
    return float((said == batch.targets)[batch.judged].double().mean())


def test_a_word_stands_between_two_separators_comes_again_and_leaves_separators_behind_where_it_is_shorter() -> None:
    batch = duplicated(torch.tensor([[3, 1, 2]]), torch.tensor([3]))
    assert batch.tokens.tolist() == [[0, 3, 1, 2, 0, 3, 1, 2]]
    assert batch.targets.tolist() == [[0, 0, 0, 0, 3, 1, 2, 0]]
    assert batch.judged.tolist() == [[False] * 4 + [True] * 3 + [False]]
    shorter = duplicated(torch.tensor([[3, 1, 2, 4]]), torch.tensor([2]))
    assert shorter.tokens.tolist() == [[0, 3, 1, 0, 3, 1, 0, 0, 0, 0]]
    assert shorter.targets.tolist() == [[0, 0, 0, 3, 1, 0, 0, 0, 0, 0]]
    assert shorter.judged.sum() == 2


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(2, 200), st.none() | st.integers(1, 39), st.integers(1, 5), st.integers(0, 99))
def test_who_copies_is_always_right(half: int, symbols: int, shortest: int | None, B: int, seed: int) -> None:
    assume(shortest is None or shortest < half)
    task = Duplication(2 * half, symbols, shortest)
    batch = task.batch(B, generator(seed))
    assert batch.tokens.shape == batch.targets.shape == batch.judged.shape == (B, 2 * half)
    least = half - 1 if shortest is None else shortest
    assert least <= int(batch.judged.sum(1).min()) <= int(batch.judged.sum(1).max()) <= half - 1
    assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < task.alphabet.vocabulary
    assert right(batch, copied(batch.tokens)) == 1


def test_of_a_copy_no_other_place_that_was_read_gives_the_answer_away_and_every_length_comes_equally_often() -> None:
    batch = Duplication(16, 10).batch(4000, generator())
    spread = math.sqrt(0.1 * 0.9 / int(batch.judged.sum()))
    agreement = [right(batch, batch.tokens.roll(back, dims=1)) for back in range(8)]
    # the answer was read seven places before
    assert agreement[7] == 1
    assert max(agreement[:7]) < 0.1 + 5 * spread
    lengths = Duplication(32, 10, 8).batch(20000, generator()).judged.sum(1)
    shares = torch.bincount(lengths, minlength=16)[8:].double() / 20000
    assert shares.tolist() == pytest.approx([1 / 8] * 8, abs=5 * math.sqrt(7 / 64 / 20000))


def test_the_special_token_stands_at_one_place_and_at_the_end() -> None:
    batch = marked(torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([1]))
    assert batch.tokens.tolist() == [[3, 0, 5, 6, 0]]
    assert batch.targets.tolist() == [[0, 0, 0, 0, 5]]
    assert batch.judged.tolist() == [[False, False, False, False, True]]


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 80), st.integers(2, 100), st.integers(0, 99))
def test_who_looks_behind_the_special_token_is_always_right(N: int, symbols: int, seed: int) -> None:
    task = Induction(N, symbols)
    batch = task.batch(4, generator(seed))
    assert int(batch.tokens.max()) < task.alphabet.vocabulary
    assert batch.judged.sum(1).tolist() == [1] * 4
    for row, target in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        assert row.count(0) == 2
        assert row[-1] == 0
        assert row[row.index(0) + 1] == target


def test_the_special_token_is_everywhere_equally_often_and_no_fixed_place_gives_the_answer_away() -> None:
    batch = Induction(12, 10).batch(10000, generator())
    agreement = (batch.tokens == batch.targets[:, -1:]).double().mean(0)
    # the answer is at each place from the second to the last but one once in ten times, and by chance in the others
    assert float(agreement.max()) < 0.1 + 0.9 / 10 + 0.02
    first = (Induction(12, 10).batch(20000, generator()).tokens == 0).int().argmax(1)
    shares = torch.bincount(first, minlength=10).double() / 20000
    assert shares.tolist() == pytest.approx([0.1] * 10, abs=5 * math.sqrt(0.09 / 20000))


def recalled_by_rule(tokens: Tensor, symbols: int) -> Tensor:
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
def test_who_recalls_is_always_right(symbols: int, pairs: int, N: int, seed: int) -> None:
    assume(pairs <= symbols // 2 and 2 * pairs + 2 <= N)
    task = Recall(N, symbols, pairs)
    batch = task.batch(3, generator(seed))
    assert batch.tokens.shape == (3, N)
    assert int(batch.tokens.max()) < task.alphabet.vocabulary
    assert batch.judged.sum(1).tolist() == [min(pairs, (N - 2 * pairs) // 2)] * 3
    assert torch.equal(recalled_by_rule(batch.tokens, symbols), batch.targets)


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
        agreement = (values == batch.targets.gather(1, place[:, None])).double().mean(0)
        # the first drawn slot asks for the first pair, so an order remains; it is far from telling which
        assert float(agreement.max()) < 0.4


def test_queries_follow_the_power_law_of_the_paper_and_no_two_share_a_slot() -> None:
    first = slots_of(20000, 16, 1, generator())[:, 0]
    law = [(slot + 1) ** (0.01 - 1) for slot in range(16)]
    for slot, weight in enumerate(law):
        share = weight / sum(law)
        got = float((first == slot).double().mean())
        assert got == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 20000))
    assert torch.equal(slots_of(500, 12, 12, generator()).sort(1).values, torch.arange(12).expand(500, 12))


OPERATORS: dict[int, Callable[[list[int]], int]] = {
    10: min,
    11: max,
    12: lambda values: math.floor(statistics.median(values)),
    13: lambda values: sum(values) % 10,
}
END, QUERY, PAD = 14, 15, 16


def solve(tokens: list[int]) -> tuple[int, int, list[int]]:
    """The value, the nesting and the numbers of arguments of an expression, by its definition: read once with a stack."""
    stack: list[list[int]] = [[]]
    deepest, counts = 0, []
    for token in tokens:
        if token in OPERATORS:
            stack.append([token])
            deepest = max(deepest, len(stack) - 1)
        elif token == END:
            operator, *values = stack.pop()
            counts.append(len(values))
            stack[-1].append(OPERATORS[operator](values))
        elif token < 10:
            stack[-1].append(token)
        else:
            assert token == (QUERY if token is tokens[-1] else PAD)
    ((value,),) = stack
    return value, deepest, counts


@pytest.fixture(scope="module")
def task() -> ListOps:
    return ListOps(64)


@settings(max_examples=15, deadline=None)
@given(st.integers(8, 130), st.integers(0, 99))
def test_who_follows_the_rule_is_always_right(N: int, seed: int) -> None:
    batch = filled(make_shapes(16, N, seed), 16, generator(seed))
    assert batch.judged.nonzero().tolist() == [[row, N - 1] for row in range(16)]
    assert int(batch.tokens.max()) < VOCABULARY
    for row, target in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        value, deepest, counts = solve(row)
        assert value == target
        assert deepest <= 10
        assert set(counts) <= {2, 3, 4, 5}
        assert row[-1] == QUERY
        # padding stands before the expression, never in it
        assert row[:-1] == [PAD] * row.count(PAD) + row[row.count(PAD) : -1]


def test_all_operators_and_digits_come_equally_often(task: ListOps) -> None:
    counts = torch.bincount(task.batch(500, generator()).tokens.flatten(), minlength=VOCABULARY).double()
    digits, operators = counts[:10] / counts[:10].sum(), counts[10:14] / counts[10:14].sum()
    assert digits.tolist() == pytest.approx([0.1] * 10, abs=0.02)
    assert operators.tolist() == pytest.approx([0.25] * 4, abs=0.02)


def test_the_best_constant_is_right_as_often_as_the_task_says_which_is_less_than_a_quarter(task: ListOps) -> None:
    assert 0.1 < task.chance.accuracy < 0.25
    assert 0.9 * math.log(10) < task.chance.loss < math.log(10)
    answers = task.batch(4000, generator(7)).targets[:, -1]
    p = task.chance.accuracy
    # both are estimates: 4000 sequences here, 8192 there
    spread = math.sqrt(p * (1 - p) * (1 / 4000 + 1 / 8192))
    assert float(torch.bincount(answers).max()) / 4000 == pytest.approx(p, abs=4 * spread)


def test_no_single_token_gives_the_answer_away(task: ListOps) -> None:
    batch = task.batch(4000, generator())
    assert float((batch.tokens == batch.targets[:, -1:]).double().mean(0).max()) < 0.3


def test_lengths_go_from_a_quarter_to_all_that_there_is_room_for(task: ListOps) -> None:
    lengths = (task.batch(2000, generator()).tokens != PAD).sum(1) - 1
    assert 10 <= int(lengths.min()) <= 17
    assert 60 <= int(lengths.max()) <= 63
