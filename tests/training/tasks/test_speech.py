"""Made-up speech: a rule hears every symbol, and who hears single frames only, or guesses, is mostly wrong."""

import math
from collections.abc import Callable
from itertools import groupby, pairwise

import pytest
import torch
from torch import Tensor

from attnbench.schema.training import MOST_SPOKEN
from attnbench.training.ctc import edits
from attnbench.training.tasks import Batch
from attnbench.training.tasks.filter_bank import CHANNELS, FRAME
from attnbench.training.tasks.speech import LASTS, Tones
from tests.training.conftest import generator

HEARD = 2.0
"""How far above the median of a frame a tone is, in deviations of the utterance."""


def heard(frames: Tensor, tones: int) -> list[int]:
    """The tones one after the other, each by the loudest of the channels around it."""
    middles = [round((CHANNELS + 1) * (tone + 1) / (tones + 1)) - 1 for tone in range(tones)]
    loudness, tone = torch.stack([frames[:, middle - 1 : middle + 2].amax(1) for middle in middles], dim=1).max(1)
    sounding = torch.where(loudness - frames.median(1).values > HEARD, tone, -1).tolist()
    return [int(each) for each, _ in groupby(sounding) if each >= 0]


def by_rule(frames: Tensor, task: Tones) -> list[int]:
    """The symbol of each two tones that follow each other and are one."""
    return [1 + task.pairs.index(pair) for pair in pairwise(heard(frames, len(task.pitches))) if pair in task.pairs]


def by_single_tones(frames: Tensor, task: Tones) -> list[int]:
    """For each high tone any symbol that ends in it."""
    of_high = {high: 1 + i for i, (_, high) in enumerate(task.pairs)}
    return [of_high[tone] for tone in heard(frames, len(task.pitches)) if tone in of_high]


def error_rate(batch: Batch, write: Callable[[Tensor], list[int]]) -> float:
    texts = [row[judged].tolist() for row, judged in zip(batch.targets, batch.judged, strict=True)]
    return sum(edits(write(frames), text) for frames, text in zip(batch.tokens, texts, strict=True)) / sum(map(len, texts))


@pytest.mark.parametrize(("N", "symbols"), [(24, 2), (64, 6), (128, 12), (200, 30), (100, MOST_SPOKEN)])
def test_who_follows_the_rule_is_almost_always_right(N: int, symbols: int) -> None:
    task = Tones(N, symbols)
    assert error_rate(task.batch(64, generator()), lambda frames: by_rule(frames, task)) < 0.02


def test_who_hears_one_tone_of_two_is_mostly_wrong() -> None:
    task = Tones(128, 12)
    assert error_rate(task.batch(64, generator()), lambda frames: by_single_tones(frames, task)) > 0.5


def test_who_says_nothing_makes_as_many_errors_as_the_task_says_and_who_guesses_makes_most_of_them() -> None:
    task, source = Tones(128, 12), generator(7)
    batch = task.batch(64, generator())
    assert error_rate(batch, lambda frames: []) == 1 - task.chance.accuracy == 1
    guess = [1 + int(torch.randint(12, (), generator=source)) for _ in range(4)]
    assert error_rate(batch, lambda frames: guess) > 0.7


def test_chance_knows_how_many_symbols_there_are_and_nothing_else() -> None:
    assert Tones(128, 12).chance.loss == pytest.approx(math.log(12))
    batch = Tones(64, 12).batch(400, generator())
    shares = torch.bincount(batch.targets[batch.judged], minlength=13)[1:].double() / int(batch.judged.sum())
    assert shares.tolist() == pytest.approx([1 / 12] * 12, abs=0.045)


def test_targets_stand_from_the_left_on_and_are_as_many_as_the_name_says() -> None:
    task = Tones(128, 12)
    assert task.name == "speech of 2 to 5 symbols out of 12"
    batch = task.batch(200, generator())
    counts = batch.judged.sum(1)
    assert (int(counts.min()), int(counts.max())) == (2, 5)
    assert torch.equal(batch.judged, torch.arange(128) < counts[:, None])
    assert bool((batch.targets[batch.judged] >= 1).all())
    assert bool((batch.targets[~batch.judged] == 0).all())


def test_utterances_begin_anywhere_so_that_a_place_tells_nothing() -> None:
    batch = Tones(128, 12).batch(100, generator())
    loud = (batch.tokens.amax(2) > 3).int()
    begins = loud.argmax(1)
    assert int(begins.min()) < 10
    assert int(begins.max()) > 50


def test_a_symbol_is_a_low_tone_and_a_high_one_and_no_two_are_the_same() -> None:
    assert [len(Tones(64, symbols).pitches) for symbols in (2, 4, 6, 12, MOST_SPOKEN)] == [3, 4, 5, 7, 13]
    for symbols in range(2, MOST_SPOKEN + 1):
        task = Tones(64, symbols)
        assert len(set(task.pairs)) == symbols
        assert {low for low, _ in task.pairs}.isdisjoint(high for _, high in task.pairs)
        assert all(task.pitches[low] < task.pitches[high] for low, high in task.pairs)


def test_no_frame_reaches_over_the_silence_between_two_tones() -> None:
    assert all(least > FRAME for least, _ in (LASTS[1], LASTS[3]))
