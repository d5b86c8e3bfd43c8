"""Sections: which cells are compared with each other, what the others differ in, and at which length."""

from collections.abc import Sequence
from typing import Any

import pytest

from attnbench.analyze.sections import longest, sections, stops
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import Status
from attnbench.schema.suite import Axes
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import writer

AXES = Axes(N=(1024,))


def conditions(cells: Sequence[Cell], axes: Axes = AXES) -> dict[str, list[Cell]]:
    """The cells of each section."""
    found = sections([writer.summary(cell) for cell in cells], axes)
    assert len({section.conditions for section in found}) == len(found)
    return {section.conditions: [summary.cell for summary in section.summaries] for section in found}


def test_workload_mask_and_dtype_make_a_section() -> None:
    cells = [writer.cell(causal=causal, dtype=dtype) for causal in (False, True) for dtype in ("float32", "bfloat16")]
    cells += [cells[0].model_copy(update={"workload": Workload.FORWARD_BACKWARD})]
    titles = [s.title for s in sections([writer.summary(c) for c in cells], AXES)]
    assert titles == [
        "forward, causal, float32",
        "forward, causal, bfloat16",
        "forward, non-causal, float32",
        "forward, non-causal, bfloat16",
        "forward_backward, non-causal, float32",
    ]


@pytest.mark.parametrize(
    ("axis", "values", "want"),
    [
        ("H", (4, 8), ["float32, H=4", "float32, H=8"]),
        ("kv_heads", (8, 2), ["float32, kv_heads=8", "float32, kv_heads=2"]),
        ("padding", (0.0, 0.25), ["float32", "float32, padding 0.25"]),
    ],
)
def test_other_axes_are_named_where_they_vary(axis: str, values: tuple[float, ...], want: list[str]) -> None:
    assert list(conditions([writer.cell("linear.full", 1024, "cpu", **{axis: value}) for value in values])) == want


def test_a_swept_batch_makes_sections_and_one_that_follows_the_length_belongs_to_its_token_budget() -> None:
    swept = [writer.cell(N=N, B=B) for N in (512, 1024) for B in (1, 2)]
    follows = [writer.cell(N=N, B=2048 // N) for N in (512, 1024)]
    assert list(conditions(swept, Axes(N=(512, 1024), B=(1, 2)))) == ["float32, B=1", "float32, B=2"]
    assert list(conditions(follows, Axes(N=(512, 1024), tokens=(2048,)))) == ["float32"]
    few, many, long = (writer.cell(N=N, B=B) for N, B in ((512, 1), (512, 2), (1024, 1)))
    budgets = conditions([few, many, long], Axes(N=(512, 1024), tokens=(512, 1024)))
    assert budgets == {"float32, tokens=512": [few, long], "float32, tokens=1024": [many, long]}


@pytest.mark.parametrize("B", [("max",), (1, "max")])
def test_a_batch_that_is_searched_for_is_a_section_that_says_so(B: tuple[Any, ...]) -> None:
    cells = {1: writer.cell(causal=True), "max": writer.largest(workload=Workload.FORWARD)}
    names = {1: "float32, B=1", "max": "float32, largest B that fits"}
    found = conditions([cells[each] for each in B], Axes(N=(1024,), B=B))
    assert found == {names[each]: [cells[each]] for each in B}


def test_methods_are_compared_at_the_longest_length_that_the_most_reach_and_lines_end_where_they_fail() -> None:
    lengths = {"a": (512, 1024, 2048), "b": (512, 1024)}
    cells = [writer.summary(writer.cell(method, N=N), [1.0]) for method, each in lengths.items() for N in each]
    (section,) = sections(cells, Axes(N=(512, 1024, 2048)))
    assert section.common_length == 1024
    assert longest(section.series["a"]) is section.at("a", 2048)
    (without_numbers,) = sections([writer.summary(writer.cell())], AXES)
    assert without_numbers.common_length is None
    assert longest(without_numbers.series["linear.full"]) is None
    first, *rest = (writer.cell(N=N) for N in (512, 1024, 2048))
    failed = [writer.summary(cell, [], writer.failed(cell, Status.OOM_HOST)) for cell in rest]
    assert stops([writer.summary(first, [1.0]), *failed]) == {"oom_host": [1024, 2048]}


def test_a_model_is_described_by_what_differs_between_models_and_not_from_cells_without_one() -> None:
    def train(layers: int) -> Cell:
        training = Training(task=Task.COPY, layers=layers, recompute=layers == 2)
        return writer.cell(causal=True).model_copy(update={"workload": Workload.TRAIN, "training": training})

    plain = writer.cell(causal=True)
    one = sections([writer.summary(cell) for cell in (plain, train(1))], AXES)
    assert [s.conditions for s in one] == ["float32", "float32"]
    assert list(conditions([plain, train(1), train(2)])) == [
        "float32",
        "float32, layers=1, no gradient checkpointing",
        "float32, layers=2, gradient checkpointing",
    ]
