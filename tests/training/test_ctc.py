"""CTC: the loss is the sum over all alignments, written out; what is written down, and how errors in it are counted."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbench.training.ctc import edits, errors, nats, written
from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.tasks.speech import written_down
from attnbench.training.update import judge, loss_of
from tests.training.conftest import Make, generator

TEXTS = st.lists(st.integers(1, 3), max_size=6)
SPEECH = Alphabet(4, channels=5)


def utterances(*texts: list[int], N: int = 4) -> Batch:
    frames = torch.randn(len(texts), N, 5, generator=generator())
    return written_down(list(frames), [torch.tensor(text, dtype=torch.int64) for text in texts], N)


def saying(*rows: list[int]) -> torch.Tensor:
    """Be sure of one thing at each frame."""
    return 50.0 * torch.nn.functional.one_hot(torch.tensor(rows), 4).float()


def of_all_alignments(log_p: torch.Tensor, text: list[int]) -> float:
    """By the definition: every path through the frames that is written down as the text."""
    N, symbols = log_p.shape
    paths = itertools.product(range(symbols), repeat=N)
    fitting = [path for path in paths if [s for s, _ in itertools.groupby(path) if s != 0] == text]
    return math.log(sum(math.exp(sum(float(log_p[n, s]) for n, s in enumerate(path))) for path in fitting))


@pytest.mark.parametrize("text", [[1], [1, 2], [2, 2], [3, 1, 3], [1, 2, 3, 1]])
def test_the_loss_is_that_of_all_alignments(text: list[int]) -> None:
    said = torch.randn(1, 4, 4, generator=generator(), dtype=torch.float64)
    got = nats(said, utterances(text))
    assert float(got) == pytest.approx(-of_all_alignments(said[0].log_softmax(-1), text))


def test_the_loss_is_a_mean_over_symbols_and_not_over_utterances() -> None:
    said, batch = torch.randn(2, 4, 4, generator=generator()), utterances([1, 2, 3], [2])
    assert float(loss_of(said, batch, SPEECH)) == pytest.approx(float(nats(said, batch).sum()) / 4)


def test_an_utterance_that_only_fills_the_batch_counts_for_nothing() -> None:
    said, batch = torch.randn(2, 4, 4, generator=generator(), requires_grad=True), utterances([1, 2], [2])
    one = Batch(batch.tokens, batch.targets, batch.judged & torch.tensor([[True], [False]]))
    assert nats(said, one)[1] == 0
    (gradient,) = torch.autograd.grad(nats(said, one).sum(), said)
    assert bool((gradient[1] == 0).all())
    assert errors(saying([1, 0, 2, 0], [3, 3, 3, 3]), one) == 0


def test_what_is_said_again_right_away_is_written_once_and_the_blank_never() -> None:
    assert written(saying([0, 1, 1, 2], [1, 0, 1, 1], [0, 0, 0, 0])) == [[1, 2], [1, 1], []]


@pytest.mark.parametrize(
    ("text", "reference", "count"),
    [([], [1, 2], 2), ([1, 2], [], 2), ([1, 2, 3], [1, 3], 1), ([2, 1], [1, 2], 2), ([1, 2, 3], [1, 3, 3], 1), ([1], [1], 0)],
)
def test_symbols_that_are_inserted_left_out_or_replaced_count_one_each(
    text: list[int], reference: list[int], count: int
) -> None:
    assert edits(text, reference) == count


@given(TEXTS, TEXTS, TEXTS)
def test_edits_are_a_distance(one: list[int], other: list[int], third: list[int]) -> None:
    assert (edits(one, other) == 0) == (one == other)
    assert edits(one, other) == edits(other, one) >= abs(len(one) - len(other))
    assert edits(one, other) <= edits(one, third) + edits(third, other)


def test_errors_are_counted_over_all_utterances() -> None:
    assert errors(saying([0, 1, 1, 2], [3, 0, 3, 0]), utterances([1, 2], [3])) == 1


def test_each_held_out_utterance_counts_once_whatever_the_batch(model_of: Make) -> None:
    batch = utterances([1, 2, 3], [2], [3, 3], N=16)
    found = []
    for B in (1, 2, 3, 5):
        model = model_of("softmax.naive", alphabet=SPEECH, task="speech", causal=False, B=B, dtype="float64")
        found.append(judge(model, batch))
        if B == 3:
            with torch.no_grad():
                said, _ = model(batch.tokens)
            assert found[-1] == pytest.approx((float(nats(said, batch).sum()) / 6, errors(said, batch) / 6), rel=1e-6)
    assert all(each == pytest.approx(found[0], rel=1e-9) for each in found)
