"""The loop: so many updates, on the clock, by batches in one order, and whoever looks at it changes nothing."""

import math
from typing import Any

import pytest
import torch

from attnbench.measure.clock import WallClock
from attnbench.schema.training import Training
from attnbench.training.loop import DivergedError, OverBudgetError, Progress, evaluation_points, train
from attnbench.training.tasks import Batch, TaskData
from attnbench.training.tasks.duplication import Duplication
from attnbench.training.tasks.speech import Tones
from attnbench.training.transformer import Transformer
from attnbench.training.update import judge
from tests.training.conftest import Make, following, small_cell

UNLIMITED = 1e9
HELD_OUT = following(10, torch.Generator().manual_seed(99))


def run(model: Transformer, seconds: float = UNLIMITED, keep: Any = lambda progress: None) -> Progress:
    progress = Progress.begin(model, seed=3)
    train(progress, following, HELD_OUT, seconds, keep)
    return progress


def test_exactly_so_many_updates_are_made_and_the_curve_begins_before_the_first_and_ends_after_the_last(model_of: Make) -> None:
    kept: list[int] = []
    progress = run(model_of(), keep=lambda p: kept.append(p.updates))
    curve = progress.curve
    assert progress.updates == 12
    assert kept == list(range(1, 13)), "after each update there is a chance to save"
    assert all(0 < seconds < 60 for seconds in progress.seconds)
    assert curve.updates == [0, 4, 8, 12]
    assert curve.seconds[0] == 0
    assert curve.seconds == sorted(curve.seconds)
    assert curve.losses[0] == pytest.approx(math.log(7), rel=0.02)
    assert curve.losses[-1] < curve.losses[0]
    assert all(0 <= accuracy <= 1 for accuracy in curve.scores)


@pytest.mark.parametrize(
    ("updates", "evaluations", "points"), [(12, 3, {4, 8, 12}), (10, 4, {2, 5, 8, 10}), (3, 20, {1, 2, 3}), (5, 1, {5})]
)
def test_evaluations_are_evenly_spaced_and_end_with_the_last_update(updates: int, evaluations: int, points: set[int]) -> None:
    plan = Training.model_validate({"task": "copy", "updates": updates, "evaluations": evaluations})
    assert evaluation_points(plan) == points


def test_the_rate_falls_once_and_never_rises(model_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.RAdam.step

    def spy(self: torch.optim.RAdam, *given: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.RAdam, "step", spy)
    for late_rate in (1e-4, 1e-2):
        run(model_of(late_from=5, late_rate=late_rate))
    assert rates == [1e-3] * 5 + [1e-4] * 7 + [1e-3] * 12


def test_batches_come_in_one_order_for_all_methods(model_of: Make) -> None:
    seen: list[list[torch.Tensor]] = []

    def spy(B: int, source: torch.Generator) -> Batch:
        batch = following(B, source)
        seen[-1].append(batch.tokens)
        return batch

    for method in ("softmax.sdpa", "model_cases:Draws"):
        seen.append([])
        train(Progress.begin(model_of(method), seed=3), spy, HELD_OUT, UNLIMITED, lambda p: None)
    assert len(seen[0]) == 12
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


def test_looking_more_often_changes_no_weight_and_torch_s_modes_are_as_before(model_of: Make) -> None:
    with torch.no_grad():
        seldom, often = (run(model_of("model_cases:Draws", evaluations=count)) for count in (1, 12))
        assert not torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    torch.testing.assert_close(seldom.model.state_dict(), often.model.state_dict(), rtol=0, atol=0)


def test_each_held_out_sequence_counts_once_whatever_the_batch(model_of: Make) -> None:
    found = [judge(model_of(B=B, dtype="float64"), HELD_OUT) for B in (4, 10, 16)]
    assert all(each == pytest.approx(found[0], rel=1e-9) for each in found)


def test_a_training_may_end_with_its_last_second_and_one_that_takes_longer_says_how_far_it_came(
    model_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_seconds(self: WallClock, call: Any, batch: int) -> float:
        call()
        return 2.0

    monkeypatch.setattr(WallClock, "sample", two_seconds)
    with pytest.raises(OverBudgetError, match=r"4 of 12 updates took 8 s, above the 7 s of this cell's budget"):
        run(model_of(), seconds=7)
    progress = run(model_of(), seconds=23)
    assert progress.updates == 12
    assert progress.curve.seconds == [0, 8, 16, 24]


def test_a_loss_that_is_no_number_is_told_with_its_update(model_of: Make) -> None:
    from model_cases import Bursts  # type: ignore[import-not-found]

    Bursts.calls = 0
    with pytest.raises(DivergedError, match="the loss of the training sequences is nan at update 2"):
        run(model_of("model_cases:Bursts"))


TONES = {"task": "speech", "causal": False, "B": 16, "N": 64, "updates": 1600, "held_out": 128, "rate": 2e-3}
COPY = {"B": 32, "N": 32, "updates": 800, "held_out": 64, "rate": 3e-3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "fields", "seed"), [(Duplication(32, 10), COPY, 1), (Duplication(32, 10), COPY, 2), (Tones(64, 6), TONES, 11)]
)
def test_a_small_model_learns_to_copy_and_to_tell_tones_apart(task: TaskData, fields: dict[str, Any], seed: int) -> None:
    cell = small_cell("softmax.sdpa", H=4, D=16, feedforward=4, evaluations=4, **fields)
    progress = Progress.begin(Transformer(cell, task.alphabet, seed), seed)
    train(progress, task.batch, task.held_out(fields["held_out"]), UNLIMITED, lambda p: None)
    first, *_, last = progress.curve.scores
    # of tones it is the share of errors: who hears one of two makes more
    assert (first < 0.2 and last > 0.9) if fields is COPY else (first > 1 and last < 0.4), progress.curve
