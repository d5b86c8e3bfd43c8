"""Quality against cost where a model learnt: its loss against an update, and against what the same model's generating costs."""

from collections.abc import Sequence

import pytest

from attnbench.report.drawing.kinds import CannotDrawError
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.make import drawn
from attnbench.report.figures.tradeoffs import Tradeoff, tradeoffs
from attnbench.report.findings import Findings
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, found, pictures


@pytest.fixture
def both() -> Synthetic:
    """Small images that are learnt, and made one by one and as many as fit."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", learns=0.60, state=2**22),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, learns=0.62, state=2**17, state_is_fixed=True, fits=2000),
        Law("lsh.reformer", 9e-3, 1.1, {"rounds": 1}, learns=0.66, state=2**20),
    )
    return Synthetic(
        laws,
        lengths=(64,),
        causal=(True,),
        workloads=(Workload.TRAIN, Workload.GENERATE),
        trainings=(Training(task=Task.PIXELS, updates=2000),),
        batches=(Batch.FIXED, Batch.LARGEST),
    )


def costs(row: Sequence[Tradeoff]) -> list[str]:
    return [each.cost.name for each in row]


def test_a_task_is_weighed_by_accuracy_and_loss_against_an_update(learning: Synthetic) -> None:
    accuracy, loss = tradeoffs(found(learning))
    assert (accuracy[0].loss.name, loss[0].loss.name) == ("wrong", "loss")
    assert costs(accuracy) == costs(loss) == ["time per update", "memory of an update"]
    (sdpa,) = [each for each in loss[0].candidates if each.label == "softmax.sdpa"]
    assert sdpa.loss.interval.low < sdpa.loss.value < sdpa.loss.interval.high


def test_speech_is_weighed_by_errors_and_loss(hearing: Synthetic) -> None:
    assert [row[0].loss.name for row in tradeoffs(found(hearing))] == ["error_rate", "loss"]


def test_a_cost_is_that_of_the_whole_update(learning: Synthetic) -> None:
    learning.tokens = 1024
    findings = found(learning)
    time, memory = tradeoffs(findings)[1]
    cell = next(s for s in findings.summaries if s.cell.method == "softmax.sdpa")
    assert cell.B == 8
    assert cell.memory.counters["host_rss_peak"].bytes == next(
        c.cost.value for c in memory.candidates if c.label == "softmax.sdpa"
    )
    assert next(c.cost.value for c in time.candidates if c.label == "softmax.sdpa") == cell.median


def test_images_are_weighed_by_bits_against_learning_and_making_them(both: Synthetic) -> None:
    (row, _) = tradeoffs(found(both))
    assert row[0].loss.name == "bits"
    assert costs(row) == [
        "time per update",
        "memory of an update",
        "time per sequence, generate, B=1",
        "memory per sequence, generate, B=1",
        "time per sequence, generate, largest B",
        "memory per sequence, generate, largest B",
        "state of one sequence",
    ]
    assert {len(each.candidates) for each in row} == {3}


def test_the_cost_of_generating_is_that_of_the_same_method(both: Synthetic) -> None:
    findings = found(both)
    one = tradeoffs(findings)[0][2]
    for candidate in one.candidates:
        cell = next(
            s
            for s in findings.summaries
            if (s.cell.workload, s.cell.batch, s.cell.label) == (Workload.GENERATE, Batch.FIXED, candidate.label)
        )
        assert candidate.cost.value == cell.median


def test_a_model_of_another_shape_generates_for_itself(both: Synthetic) -> None:
    findings = found(both)
    deeper = Training(task=Task.PIXELS, updates=2000, layers=2)
    both.trainings = (deeper,)
    other = [s for s in found(both).summaries if s.cell.workload is Workload.GENERATE]
    learnt = [s for s in findings.summaries if s.cell.workload is Workload.TRAIN]
    (row, _) = tradeoffs(Findings.over(findings.run, [*learnt, *other]))
    assert costs(row) == ["time per update", "memory of an update"]


def test_bits_that_are_far_from_0_are_drawn_apart(both: Synthetic) -> None:
    both.laws = both.laws[:2]
    (picture,) = pictures(found(both), "pareto")
    axes = picture.axes[0]
    low, high = axes.get_ylim()
    assert low > 0.5 * high
    assert axes.get_title(loc="left") == "pixels, digits, causal, float32, B=1, N = 64"


def test_an_accuracy_is_drawn_from_0_on(learning: Synthetic) -> None:
    (picture,) = pictures(found(learning), "pareto")
    assert all(axes.get_ylim()[0] <= 0 for axes in picture.axes)


def test_the_caption_says_who_has_no_point_and_what_was_learnt_how(learning: Synthetic, both: Synthetic) -> None:
    (one,) = drawings(found(learning), "pareto")
    assert "No point for time per update at N = 128: sparse.strided (budget), linformer.headwise (unsupported)." in one.caption
    assert "exactly 2,000 updates of B=64 sequences" in one.caption
    assert "n = 3 replicates" in one.caption
    assert "mass recall" not in one.caption.lower()
    (other,) = drawings(found(both), "pareto")
    assert "of an untrained model of the same shape" in other.caption


def test_the_caption_says_why_a_model_that_learnt_has_no_cost(both: Synthetic) -> None:
    failed = Failed(status=Status.OOM_HOST, reason="memory limit of this cell reached")
    records = [
        record.model_copy(update={"outcome": failed})
        if (cell := record.job.cell).workload is Workload.GENERATE and cell.method == "lsh.reformer"
        else record
        for record in both.records()
    ]
    (one,) = drawings(Findings.of(both.run(), records), "pareto")
    assert "No point for time per sequence, generate, B=1 at N = 64: lsh.reformer(rounds=1) (OOM)." in one.caption
    assert "No point for state of one sequence at N = 64: lsh.reformer(rounds=1) (OOM)." in one.caption


def test_what_is_chosen_is_drawn_alone(both: Synthetic) -> None:
    findings = found(both)
    (row, _) = tradeoffs(findings.only([Workload.TRAIN], []))
    assert costs(row) == ["time per update", "memory of an update"]
    with pytest.raises(CannotDrawError, match="no cell has a quality"):
        drawn(findings.only([Workload.GENERATE], []), "pareto", FOLDER)
