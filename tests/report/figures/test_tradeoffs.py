"""Quality against cost: which cells belong together, and what the figure and its caption say of them."""

from typing import Any

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.report.drawing.kinds import CannotDrawError
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.make import drawn
from attnbench.report.figures.tradeoffs import Tradeoff, tradeoffs
from attnbench.report.findings import Findings
from attnbench.schema.cell import Allocator, Batch, Cell, ClockMode, Inputs, Precision, Workload
from attnbench.schema.model import Model
from attnbench.schema.outcome import OUTPUT_ERROR, PERPLEXITY, Failed, Status
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from tests.report.conftest import Synthetic
from tests.report.drawn import drawings, found, pictures
from tests.report.figures.conftest import Everything

BARE = Cell(method="softmax.sdpa", problem=Problem(N=1024, causal=True))


def timed(seconds: float, workload: Workload = Workload.FORWARD, **about: Any) -> CellSummary:
    return CellSummary(BARE.model_copy(update={"workload": workload, **about}), OK, medians={0: seconds})


def scored(value: float, workload: Workload = Workload.FIDELITY, name: str = OUTPUT_ERROR, **about: Any) -> CellSummary:
    return CellSummary(BARE.model_copy(update={"workload": workload, **about}), OK, scores={name: {0: value}})


def weighed(*cells: CellSummary) -> list[Tradeoff]:
    return [panel for row in tradeoffs(Findings.over(Synthetic([]).run(), cells)) for panel in row]


def points(*cells: CellSummary) -> dict[float, float]:
    """By loss, the cost that it is drawn at."""
    return {each.loss.value: each.cost.value for panel in weighed(*cells) for each in panel.candidates}


# which cells belong together


@pytest.mark.parametrize(
    "other",
    [
        {"matmul_precision": Precision.HIGH},
        {"inputs": Inputs.PEAKED},
        {"recording": "mine.safetensors"},
        {"scale": 2.0},
        {"clock": ClockMode.GRAPH},
        {"allocator": Allocator.SYSTEM},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_quality_stands_beside_the_time_under_its_own_conditions(other: dict[str, Any]) -> None:
    cells = [timed(1.0), timed(2.0, **other), scored(0.1), scored(0.2, **other)]
    assert points(*cells) == points(*reversed(cells)) == {0.1: 1.0, 0.2: 2.0}


def test_a_score_has_no_clock_and_is_found_under_each_but_not_under_another_precision() -> None:
    for other in ({"clock": ClockMode.GRAPH}, {"allocator": Allocator.SYSTEM}):
        assert points(timed(1.0, **other), scored(0.1)) == {0.1: 1.0}
    panels = weighed(timed(1.0, matmul_precision=Precision.HIGH), scored(0.1))
    assert not any(panel.cost.name.startswith("time") for panel in panels)


def test_what_a_model_says_is_weighed_against_the_calls_of_that_model_and_attention_alone_is_not() -> None:
    small, large = Model(config="small"), Model(config="large")
    said = scored(30.0, Workload.MODEL_QUALITY, PERPLEXITY, model=small)
    called = timed(1.0, Workload.MODEL_PREFILL, model=small)
    learnt = scored(20.0, Workload.MODEL_QUALITY, PERPLEXITY, model=large.model_copy(update={"learnt": 600}))
    assert points(timed(9.0), called, timed(2.0, Workload.MODEL_PREFILL, model=large), learnt, said) == {20.0: 2.0, 30.0: 1.0}
    assert points(timed(9.0), called, scored(0.1)) == {0.1: 9.0}
    assert weighed(timed(1.0), said) == []


# fidelity


def test_cost_and_loss_are_of_one_method_at_one_length(everything: Everything) -> None:
    # more than one sequence at all but the longest
    findings = everything(tokens=8192)
    time = tradeoffs(findings)[0][0]
    (sdpa,) = [candidate for candidate in time.candidates if candidate.label == "softmax.sdpa"]
    wanted = (Workload.FORWARD, "softmax.sdpa", time.N)
    (cell,) = [s for s in findings.summaries if (s.cell.workload, s.cell.label, s.cell.problem.N) == wanted]
    assert cell.B > 1
    assert cell.time is not None
    assert (sdpa.cost.value, *sdpa.cost.ends) == pytest.approx((cell.time.value, *cell.time.ends))
    assert sdpa.loss.value == pytest.approx(3e-7, rel=0.1)


# training


def test_a_task_is_weighed_by_accuracy_or_errors_and_loss_against_the_whole_of_an_update(learning: Synthetic) -> None:
    learning.tokens = 1024
    findings = found(learning)
    accuracy, loss = tradeoffs(findings)
    assert (accuracy[0].loss.name, loss[0].loss.name) == ("wrong", "loss")
    time, memory = ({each.label: each for each in panel.candidates}["softmax.sdpa"] for panel in loss)
    assert time.loss.interval.low < time.loss.value < time.loss.interval.high
    cell = next(s for s in findings.summaries if s.cell.method == "softmax.sdpa")
    assert (cell.B, cell.median) == (8, time.cost.value)
    assert cell.memory.counters["host_rss_peak"].bytes == memory.cost.value
    learning.causal, learning.trainings = (False,), (Training(task=Task.SPEECH, updates=2000, late_from=1500),)
    assert [row[0].loss.name for row in tradeoffs(found(learning))] == ["error_rate", "loss"]


def test_images_are_weighed_by_bits_against_making_them_by_the_same_method(both: Synthetic) -> None:
    findings = found(both)
    (row, _) = tradeoffs(findings)
    assert row[0].loss.name == "bits"
    assert {len(each.candidates) for each in row} == {3}
    (one,) = [each for each in row if each.cost.name == "time per sequence, generating, B=1"]
    made = [s for s in findings.summaries if (s.cell.workload, s.cell.batch) == (Workload.GENERATE, Batch.FIXED)]
    assert {each.label: each.cost.value for each in one.candidates} == {s.cell.label: s.median for s in made}


def test_a_model_of_another_shape_generates_for_itself_and_what_is_chosen_is_drawn_alone(both: Synthetic) -> None:
    findings = found(both)
    both.trainings = (Training(task=Task.PIXELS, updates=2000, layers=2),)
    other = [s for s in found(both).summaries if s.cell.workload is Workload.GENERATE]
    learnt = [s for s in findings.summaries if s.cell.workload is Workload.TRAIN]
    for few in (Findings.over(findings.run, [*learnt, *other]), findings.only([Workload.TRAIN], [])):
        (row, _) = tradeoffs(few)
        assert [each.cost.name for each in row] == ["time per update", "memory of an update"]
    with pytest.raises(CannotDrawError, match="no cell has a quality"):
        drawn(findings.only([Workload.GENERATE], []), "pareto", FOLDER)


def test_bits_that_are_far_from_0_are_drawn_apart_and_an_accuracy_from_0_on(both: Synthetic, learning: Synthetic) -> None:
    both.laws = both.laws[:2]
    low, high = pictures(found(both), "pareto")[0].axes[0].get_ylim()
    assert low > 0.5 * high
    assert all(axes.get_ylim()[0] <= 0 for axes in pictures(found(learning), "pareto")[0].axes)


def test_the_caption_says_who_has_no_point(both: Synthetic) -> None:
    failed = Failed(status=Status.OOM_HOST, reason="memory limit of this cell reached")
    records = [
        record.model_copy(update={"outcome": failed})
        if (cell := record.job.cell).workload is Workload.GENERATE and cell.method == "lsh.reformer"
        else record
        for record in both.records()
    ]
    (drawing,) = drawings(Findings.of(both.run(), records), "pareto")
    for cost in ("time per sequence, generating, B=1", "state of one sequence"):
        assert f"No point for {cost} at N = 64: lsh.reformer(rounds=1) (OOM)." in drawing.caption
