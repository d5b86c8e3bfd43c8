"""What can be trained on which problem, and what is said where it cannot."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schema.problem import Problem
from attnbench.schema.training import PIXELS, Task, Training


def problem(N: int = 64, **fields: Any) -> Problem:
    return Problem(**{"N": N, "H": 2, "D": 8, "causal": True, **fields})


@pytest.mark.parametrize(
    ("training", "given"),
    [
        *(({"task": task, "symbols": 16}, {}) for task in Task if task not in {Task.PIXELS, Task.SPEECH}),
        *(({"task": "pixels", "data": images}, {"N": rows * columns}) for images, (rows, columns, _) in PIXELS.items()),
        ({"task": "listops"}, {"causal": False}),
        ({"task": "speech"}, {"causal": False}),
        # a folder of speech may have any symbols
        ({"task": "speech", "data": "a/folder", "symbols": 200}, {"causal": False}),
    ],
)
def test_every_task_can_be_trained_on_a_usual_problem(training: dict[str, Any], given: dict[str, Any]) -> None:
    assert Training(**training).why_not(problem(**given)) is None


@pytest.mark.parametrize(
    ("training", "given", "says"),
    [
        ({"task": "copy"}, {"causal": False}, "task copy is causal; set causal: true"),
        ({"task": "copy"}, {"N": 65}, "copy repeats the first half of a sequence; N=65 must be even"),
        ({"task": "copy", "shortest": 32}, {}, "a word of copy has at most N / 2 - 1 = 31 symbols; shortest=32"),
        ({"task": "copy"}, {"M": 4}, "a model's heads are as wide in values as in keys; set M to D=8"),
        ({"task": "copy"}, {"padding": 0.5}, "training is without padding"),
        ({"task": "recall", "data": "x"}, {}, "task recall makes its own data; leave out data: x"),
        ({"task": "recall", "symbols": 32, "pairs": 16}, {"N": 33}, "task recall needs N of at least 34; it is 33"),
        ({"task": "recall", "symbols": 32, "pairs": 17}, {}, "half of symbols=32 are keys; pairs=17 are more than that"),
        ({"task": "induction"}, {"N": 3}, "task induction needs N of at least 4; it is 3"),
        ({"task": "listops"}, {"N": 7}, "task listops needs N of at least 8; it is 7"),
        (
            {"task": "pixels", "data": "faces"},
            {},
            "no images are called 'faces'; write one of digits, mnist, cifar10, imagenet64, or PATH/imagenet64",
        ),
        ({"task": "pixels", "data": "~/data/small"}, {}, "an image of imagenet64 has 12288 pixels; set N to that, not 64"),
        ({"task": "speech"}, {}, "task speech hears an utterance as a whole; set causal: false"),
        ({"task": "speech"}, {"causal": False, "N": 23}, "task speech needs N of at least 24; it is 23"),
        ({"task": "speech", "symbols": 43}, {"causal": False}, "made-up speech has at most 42 symbols; symbols=43"),
    ],
)
def test_what_cannot_be_trained_says_what_would_be_right(training: dict[str, Any], given: dict[str, Any], says: str) -> None:
    assert Training(**training).why_not(problem(**given)) == says


@given(st.sampled_from(Task), st.integers(1, 40), st.integers(2, 64), st.integers(1, 20))
def test_the_answer_is_a_reason_or_none_whatever_is_asked(task: Task, N: int, symbols: int, pairs: int) -> None:
    assert Training(task=task, symbols=symbols, pairs=pairs).why_not(problem(N)) != ""
