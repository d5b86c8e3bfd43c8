"""ListOps: expressions that can be read, values that are right, answers that are not all the same."""

import math
import statistics
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.training.tasks.listops import VOCABULARY, ListOps, filled, make_shapes, value_of
from tests.training.conftest import generator

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


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ([10, 3, 1, 4, 14], 1),
        ([11, 3, 1, 4, 14], 4),
        ([12, 3, 1, 4, 14], 3),
        ([12, 2, 5, 14], 3),
        ([13, 7, 8, 9, 14], 4),
    ],
)
def test_each_operator_is_what_the_paper_says(expression: list[int], value: int) -> None:
    tokens = torch.tensor([[*expression, QUERY]])
    arguments = [*range(1, len(expression) - 1)]
    absent = [len(expression) + 1] * (5 - len(arguments))
    got = value_of(tokens, torch.tensor([[0]]), torch.tensor([[[*arguments, *absent]]]), 1)
    assert got.tolist() == [value] == [solve(tokens[0].tolist())[0]]


def test_all_operators_and_digits_come_equally_often(task: ListOps) -> None:
    counts = torch.bincount(task.batch(500, generator()).tokens.flatten(), minlength=VOCABULARY).double()
    digits, operators = counts[:10] / counts[:10].sum(), counts[10:14] / counts[10:14].sum()
    assert digits.tolist() == pytest.approx([0.1] * 10, abs=0.02)
    assert operators.tolist() == pytest.approx([0.25] * 4, abs=0.02)


def test_no_answer_is_more_frequent_than_a_quarter(task: ListOps) -> None:
    assert 0.1 < task.chance.accuracy < 0.25
    assert 0.9 * math.log(10) < task.chance.loss < math.log(10)


def test_the_best_constant_is_right_as_often_as_the_task_says_it_is(task: ListOps) -> None:
    answers = task.batch(4000, generator(7)).targets[:, -1]
    p = task.chance.accuracy
    # both are estimates: 4000 sequences here, 8192 there
    spread = math.sqrt(p * (1 - p) * (1 / 4000 + 1 / 8192))
    assert float(torch.bincount(answers).max()) / 4000 == pytest.approx(p, abs=4 * spread)


def test_no_single_token_gives_the_answer_away(task: ListOps) -> None:
    batch = task.batch(4000, generator())
    agreement = (batch.tokens == batch.targets[:, -1:]).double().mean(0)
    assert float(agreement.max()) < 0.3


def test_lengths_go_from_a_quarter_to_all_that_there_is_room_for(task: ListOps) -> None:
    lengths = (task.batch(2000, generator()).tokens != PAD).sum(1) - 1
    assert 10 <= int(lengths.min()) <= 17
    assert 60 <= int(lengths.max()) <= 63
