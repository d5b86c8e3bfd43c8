"""What all tasks promise: the same sequences for the same seed, sequences held out from every seed, and honest names."""

import math
from typing import Any

import pytest
import torch

from attnbench.schema.training import Task, Training
from attnbench.training.tasks import Batch, TaskData, task_of
from attnbench.training.tasks.task_data import Chance


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, TaskData]:
    text = tmp_path_factory.mktemp("data") / "text"
    text.write_bytes(bytes(torch.randint(256, (5000,), generator=torch.Generator().manual_seed(3)).tolist()))
    more: dict[Task, dict[str, Any]] = {Task.BYTES: {"data": str(text)}, Task.RECALL: {"symbols": 64}}
    return {task: task_of(Training(task=task, **more.get(task, {})), 64) for task in Task}


def same(a: Batch, b: Batch) -> bool:
    return torch.equal(a.tokens, b.tokens) and torch.equal(a.targets, b.targets) and torch.equal(a.judged, b.judged)


@pytest.mark.parametrize("task", Task)
def test_a_batch_is_what_the_interface_says(task: Task, tasks: dict[Task, TaskData]) -> None:
    data = tasks[task]
    for batch in (data.batch(5, torch.Generator().manual_seed(1)), data.held_out(5)):
        assert (batch.targets.shape, batch.judged.shape) == ((5, 64), (5, 64))
        assert (batch.targets.dtype, batch.judged.dtype) == (torch.int64, torch.bool)
        if data.alphabet.channels is None:
            assert (batch.tokens.shape, batch.tokens.dtype) == ((5, 64), torch.int64)
            assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < data.alphabet.vocabulary
        else:
            assert (batch.tokens.shape, batch.tokens.dtype) == ((5, 64, data.alphabet.channels), torch.float32)
            assert bool(batch.tokens.isfinite().all())
        assert 0 <= int(batch.targets.min()) <= int(batch.targets.max()) < data.alphabet.vocabulary
        assert bool(batch.judged.any(1).all())


@pytest.mark.parametrize("task", Task)
def test_a_generator_alone_decides_on_sequences_and_goes_on_where_it_was_left(task: Task, tasks: dict[Task, TaskData]) -> None:
    before, whole, resumed = torch.get_rng_state(), torch.Generator().manual_seed(1), torch.Generator()
    first = tasks[task].batch(8, whole)
    assert same(first, tasks[task].batch(8, torch.Generator().manual_seed(1)))
    assert not same(first, tasks[task].batch(8, torch.Generator().manual_seed(2)))
    resumed.set_state(whole.get_state())
    assert same(tasks[task].batch(8, whole), tasks[task].batch(8, resumed))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("task", Task)
def test_held_out_sequences_are_the_same_every_time_and_none_is_trained_on(task: Task, tasks: dict[Task, TaskData]) -> None:
    assert same(tasks[task].held_out(16), tasks[task].held_out(16))
    # no two sounds are alike, and drawing one takes a millisecond
    count = 256 if task is Task.SPEECH else 4096
    held_out = {tuple(row) for row in tasks[task].held_out(256).tokens.flatten(1).tolist()}
    seen = {tuple(row) for row in tasks[task].batch(count, torch.Generator().manual_seed(1)).tokens.flatten(1).tolist()}
    assert not held_out & seen


@pytest.mark.parametrize("task", Task)
def test_chance_is_no_better_than_a_guess_among_all_tokens_and_no_worse(task: Task, tasks: dict[Task, TaskData]) -> None:
    data = tasks[task]
    assert 0 < data.chance.loss <= math.log(data.alphabet.vocabulary)
    # of speech it is that of saying nothing
    assert (0 if task is Task.SPEECH else 1 / data.alphabet.vocabulary) <= data.chance.accuracy < 1


def test_a_made_up_task_says_in_its_name_all_that_it_depends_on() -> None:
    assert task_of(Training(task=Task.COPY), 128).name == "copy of 63 symbols out of 10"
    assert task_of(Training(task=Task.RECALL, symbols=64, pairs=16), 64).name == "recall of 16 pairs, 32 keys and 32 values"
    assert task_of(Training(task=Task.INDUCTION, symbols=20), 64).name == "induction over 20 symbols"
    assert task_of(Training(task=Task.LISTOPS), 64).name == "listops"
    assert task_of(Training(task=Task.SPEECH, symbols=12), 128).name == "speech of 2 to 5 symbols out of 12"


@pytest.mark.parametrize("task", [Task.COPY, Task.RECALL, Task.INDUCTION])
def test_a_guess_is_right_as_often_as_the_task_says_it_is(task: Task, tasks: dict[Task, TaskData]) -> None:
    batch, chance = tasks[task].batch(4000, torch.Generator().manual_seed(0)), tasks[task].chance
    answers = batch.targets[batch.judged]
    least, most = int(answers.min()), int(answers.max())
    spread = math.sqrt(chance.accuracy * (1 - chance.accuracy) / len(answers))
    guess = torch.randint(least, most + 1, answers.shape, generator=torch.Generator().manual_seed(1))
    assert chance.accuracy == pytest.approx(1 / (most - least + 1))
    assert chance.loss == pytest.approx(math.log(most - least + 1))
    assert float((guess == answers).double().mean()) == pytest.approx(chance.accuracy, abs=4 * spread)
    assert float(torch.bincount(answers).max()) / len(answers) == pytest.approx(chance.accuracy, abs=4 * spread)


@pytest.mark.parametrize(
    ("training", "N", "words"),
    [
        (Training(task=Task.COPY), 2, "even and at least 4; N is 2"),
        (Training(task=Task.COPY), 9, "even and at least 4; N is 9"),
        (Training(task=Task.COPY, shortest=8), 16, "words of N=16 have 1 to 7 symbols, not 8"),
        (Training(task=Task.INDUCTION), 2, "are 3; N is 2"),
        (Training(task=Task.LISTOPS), 7, "at least 8; it is 7"),
        (Training(task=Task.SPEECH), 23, "lasts up to 250 ms, which N=23 frames are too short for"),
        (Training(task=Task.RECALL, symbols=64, pairs=16), 33, "16 pairs need as many keys"),
        (Training(task=Task.RECALL, symbols=8, pairs=5), 64, "5 pairs need as many keys"),
    ],
)
def test_what_has_no_room_is_refused(training: Training, N: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        task_of(training, N)


def test_chance_of_unequal_answers_is_their_entropy_and_an_answer_that_never_comes_adds_nothing() -> None:
    chance = Chance.frequent(torch.tensor([3, 1, 0]))
    assert chance.loss == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert chance.accuracy == 0.75
