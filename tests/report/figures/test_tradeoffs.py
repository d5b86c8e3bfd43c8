"""Which cells a quality is weighed against: those of the same conditions and of the same model, and no others."""

from typing import Any

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.report.figures.tradeoffs import Tradeoff, tradeoffs
from attnbench.report.findings import Findings
from attnbench.schema.cell import Allocator, Cell, ClockMode, Inputs, Precision, Workload
from attnbench.schema.model import Model
from attnbench.schema.outcome import OUTPUT_ERROR, PERPLEXITY
from attnbench.schema.problem import Problem
from tests.report.conftest import Synthetic

N = 1024
BARE = Cell(method="softmax.sdpa", problem=Problem(N=N, causal=True))


def timed(seconds: float, workload: Workload = Workload.FORWARD, **about: Any) -> CellSummary:
    return CellSummary(BARE.model_copy(update={"workload": workload, **about}), OK, medians={0: seconds})


def scored(value: float, workload: Workload = Workload.FIDELITY, name: str = OUTPUT_ERROR, **about: Any) -> CellSummary:
    return CellSummary(BARE.model_copy(update={"workload": workload, **about}), OK, scores={name: {0: value}})


@pytest.fixture
def weighed() -> Any:
    """Gives what the figure makes of some cells."""
    info = Synthetic([]).run()

    def _weighed(*cells: CellSummary) -> list[Tradeoff]:
        return [panel for row in tradeoffs(Findings.over(info, cells)) for panel in row]

    return _weighed


def points(panels: list[Tradeoff]) -> dict[float, float]:
    """By loss, the cost that it is drawn at."""
    return {each.loss.value: each.cost.value for panel in panels for each in panel.candidates}


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
def test_a_quality_stands_beside_the_time_under_its_own_conditions(weighed: Any, other: dict[str, Any]) -> None:
    cells = [timed(1.0), timed(2.0, **other), scored(0.1), scored(0.2, **other)]
    assert points(weighed(*cells)) == {0.1: 1.0, 0.2: 2.0}
    assert points(weighed(*reversed(cells))) == {0.1: 1.0, 0.2: 2.0}


def test_a_quality_that_was_measured_under_another_precision_has_no_time(weighed: Any) -> None:
    panels = weighed(timed(1.0, matmul_precision=Precision.HIGH), scored(0.1))
    assert not any(panel.cost.name.startswith("time") for panel in panels)


@pytest.mark.parametrize("other", [{"clock": ClockMode.GRAPH}, {"allocator": Allocator.SYSTEM}])
def test_a_score_has_no_clock_and_is_found_under_each(weighed: Any, other: dict[str, Any]) -> None:
    assert points(weighed(timed(1.0, **other), scored(0.1))) == {0.1: 1.0}


def test_what_a_model_says_is_weighed_against_the_calls_of_that_model(weighed: Any) -> None:
    small, large = Model(config="small"), Model(config="large")
    found = weighed(
        timed(9.0),
        timed(1.0, Workload.MODEL_PREFILL, model=small),
        timed(2.0, Workload.MODEL_PREFILL, model=large),
        scored(20.0, Workload.MODEL_QUALITY, PERPLEXITY, model=large.model_copy(update={"learnt": 600})),
        scored(30.0, Workload.MODEL_QUALITY, PERPLEXITY, model=small),
    )
    assert points(found) == {20.0: 2.0, 30.0: 1.0}


def test_attention_alone_is_not_weighed_against_a_model_around_it(weighed: Any) -> None:
    model = Model(config="small")
    found = weighed(timed(1.0), timed(9.0, Workload.MODEL_PREFILL, model=model), scored(0.1))
    assert points(found) == {0.1: 1.0}
    assert weighed(timed(1.0), scored(30.0, Workload.MODEL_QUALITY, PERPLEXITY, model=model)) == []
