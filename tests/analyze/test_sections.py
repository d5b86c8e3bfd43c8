"""Sections: which cells are compared with each other, and what may be said of a section: who is best, and where it leads."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.headline import NEAR, Standing, Statement, ranked, statement
from attnbench.analyze.quantities import TIME, main_quantity
from attnbench.analyze.sections import Section, longest, sections, stops
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import LOSS, Status
from attnbench.schema.problem import Problem
from attnbench.schema.suite import Axes
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import compared, known, writer

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
    forward = [f"forward, {mask}, {dtype}" for mask in ("causal", "non-causal") for dtype in ("float32", "bfloat16")]
    assert titles == [*forward, "forward + backward, non-causal, float32"]


@pytest.mark.parametrize(
    ("axis", "values", "want"),
    [
        ("H", (4, 8), ["float32, H=4", "float32, H=8"]),
        ("kv_heads", (8, 2), ["float32, kv_heads=8", "float32, kv_heads=2"]),
        ("padding", (0.0, 0.25), ["float32, no padding", "float32, padding 0.25"]),
        ("M", (64, 32), ["float32, M=64", "float32, M=32"]),
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
    # one that is listed twice is one
    assert conditions(swept, Axes(N=(512, 1024), B=(1, 2, 1))) == conditions(swept, Axes(N=(512, 1024), B=(1, 2)))
    budgets = conditions([few, many, long], Axes(N=(512, 1024), tokens=(512, 1024, 512)))
    assert budgets == {"float32, tokens=512": [few, long], "float32, tokens=1024": [many, long]}


@pytest.mark.parametrize("B", [("max",), (1, "max")])
def test_a_batch_that_is_searched_for_is_a_section_that_says_so(B: tuple[Any, ...]) -> None:
    cells = {1: writer.cell(causal=True), "max": writer.largest(workload=Workload.FORWARD)}
    names = {1: "float32, B=1", "max": "float32, largest B that fits"}
    assert conditions([cells[each] for each in B], Axes(N=(1024,), B=B)) == {names[each]: [cells[each]] for each in B}


def test_methods_are_compared_at_the_longest_length_that_the_most_reach_and_lines_end_where_they_fail() -> None:
    lengths = {"a": (512, 1024, 2048), "b": (512, 1024)}
    cells = [writer.summary(writer.cell(method, N=N), [1.0]) for method, each in lengths.items() for N in each]
    (section,) = sections(cells, Axes(N=(512, 1024, 2048)))
    assert section.common_length == 1024
    assert longest(section.series["a"]) is section.at("a", 2048)
    (without_numbers,) = sections([writer.summary(writer.cell())], AXES)
    assert without_numbers.common_length is None
    assert longest(without_numbers.series["linear.full"]) is None
    refused, first, *rest = (writer.cell(N=N) for N in (500, 512, 1024, 2048))
    failed = [writer.summary(cell, [], writer.failed(cell, Status.OOM_HOST)) for cell in (refused, *rest)]
    assert stops([failed[0], writer.summary(first, [1.0]), *failed[1:]]) == {"oom_host": [1024, 2048]}


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


# what may be said of a section

LENGTHS = (512, 1024, 2048, 4096)
BASE, A, X, Y = "softmax.sdpa", "softmax.a", "x", "y"
NOISY = (1.1, 0.9, 1.0, 1.2, 0.95)
Times = Mapping[str, Mapping[int, Sequence[float]]]
"""By method and length the replicates; none where the cell failed."""


def section(times: Times, workload: Workload = Workload.FORWARD, causal: bool = True, named: Sequence[str] = ()) -> Section:
    training = Training(task=Task.COPY) if workload is Workload.TRAIN else None
    cells = []
    for method, row in times.items():
        for N, values in row.items():
            cell = Cell(method=method, problem=Problem(N=N, causal=causal), workload=workload, training=training)
            numbers = {"scores": {LOSS: dict(enumerate(values))}} if training else {"medians": dict(enumerate(values))}
            cells.append(CellSummary(cell, OK, **numbers) if values else CellSummary(cell, "oom_host"))
    return compared(Section(workload, causal, "float32", tuple(cells)), named)


def rising(*values: float, replicates: int = 5) -> dict[int, Sequence[float]]:
    """One value a length; 0 is a failure."""
    return {N: [value] * replicates if value else [] for N, value in zip(LENGTHS, values, strict=False)}


def flat(value: float) -> dict[int, Sequence[float]]:
    return rising(*[value] * 4)


@pytest.mark.parametrize(
    ("times", "named", "want", "bracket"),
    [
        # the baseline is the strongest exact one, or one that the suite names, or of two of which neither is exact the other
        ({A: rising(1, 2, 4, 8), X: flat(1.5), Y: flat(3)}, (), (X, A, LENGTHS[1:]), (512, 1024)),
        ({A: rising(1, 2, 4, 8), X: flat(2), Y: flat(3)}, (Y,), (X, Y, LENGTHS), None),
        ({X: flat(3), Y: flat(2)}, (), (Y, X, LENGTHS), None),
        # a lead ends before a length at which it cannot be told; it may lead there too, so that is no crossing
        ({A: flat(1), X: {**rising(0.5, 0.5, 0, 0.5), 2048: NOISY}}, (), (X, A, LENGTHS[3:]), None),
    ],
)
def test_whom_the_best_leads_and_where(
    times: Times, named: Sequence[str], want: tuple[str, str, tuple[int, ...]], bracket: tuple[int, int] | None
) -> None:
    found = statement(section(times, named=named))
    best, reach = known(found.best), known(found.reach)
    assert best.alone
    assert (best.labels[0], reach.over, reach.led) == want
    assert (reach.start and reach.start.bracket) == bracket


def test_a_best_that_never_led_the_baseline_or_cannot_be_told_from_it_is_not_said_to_lead() -> None:
    never: Times = {A: rising(0.1, 0.1, 0, 0), X: rising(1, 1, 2, 4), Y: rising(0, 0, 3, 6)}
    alike: Times = {A: flat(1), X: dict.fromkeys(LENGTHS, NOISY), Y: flat(3)}
    for times, best in ((never, {X}), (alike, {A, X})):
        found = statement(section(times))
        assert found.reach is None
        assert (set(known(found.best).labels), known(found.best).behind) == (best, (Y,))


def test_the_fewest_replicates_count() -> None:
    assert statement(section({A: rising(2, 2), X: {**rising(1, 1), 1024: [1.0] * 3}})).replicates == 3


# training


def learning(losses: Mapping[str, Sequence[float]], named: Sequence[str] = ()) -> Statement:
    return statement(section({method: {128: values} for method, values in losses.items()}, Workload.TRAIN, named=named))


@pytest.mark.parametrize(
    ("losses", "named", "base", "standings"),
    [
        # sure, but too small to be worth a word
        ({BASE: [0.5] * 3, X: [0.54, 0.54, 0.541]}, (), BASE, {X: Standing.REACHES}),
        ({BASE: [0.5] * 3, X: [0.46, 0.46, 0.461]}, (), BASE, {X: Standing.REACHES}),
        # mean 0.04, interval beyond 0.05
        ({BASE: [0.5] * 3, X: [0.53, 0.55, 0.54]}, (), BASE, {X: Standing.UNTOLD}),
        # fewer seeds than the other has, and than three
        ({BASE: [0.5] * 3, X: [0.9, 0.9]}, (), BASE, {X: Standing.UNTOLD}),
        # a loss of nothing is a loss too
        ({BASE: [0.0] * 3, X: [0.0] * 3}, (), BASE, {X: Standing.REACHES}),
        # a named model comes before the exact one, and without either the least loss is the measure
        ({BASE: [0.1] * 3, X: [0.5] * 3, Y: [0.5] * 3}, (Y,), Y, {BASE: Standing.BELOW, X: Standing.REACHES}),
        ({X: [0.5] * 3, Y: [0.2] * 3, BASE: []}, (), Y, {X: Standing.ABOVE}),
    ],
)
def test_a_standing_goes_by_the_interval(
    losses: Mapping[str, Sequence[float]], named: Sequence[str], base: str, standings: dict[str, Standing]
) -> None:
    found = learning(losses, named)
    assert (found.base, found.standings) == (base, standings)


@pytest.mark.parametrize("truth", [0.0, 2 * NEAR, -2 * NEAR, 6 * NEAR])
def test_what_is_said_of_a_loss_is_rarely_wrong(truth: float) -> None:
    true = {0.0: Standing.REACHES, -2 * NEAR: Standing.BELOW}.get(truth, Standing.ABOVE)
    # what is below has reached it, too
    right = {true, Standing.UNTOLD} | ({Standing.REACHES} if true is Standing.BELOW else set())
    source, wrong = random.Random(str(truth)), 0
    for _ in range(400):
        base = [0.5 + source.gauss(0, 0.05) for _ in range(3)]
        other = [loss + truth + source.gauss(0, 0.05) for loss in base]
        wrong += learning({BASE: base, X: other}).standings[X] not in right
    assert wrong <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95), "5 %, and three standard errors"


# which section comes first

TWO = {A: rising(1, 1), X: rising(2, 2)}


def test_the_backward_pass_comes_before_the_rest() -> None:
    made = {workload: section(TWO, workload) for workload in Workload if main_quantity(workload) == TIME}
    order = [found.workload for found, _ in ranked(list(made.values()), causal_first=True)]
    whole = [Workload.FORWARD_BACKWARD, Workload.FORWARD, Workload.BACKWARD, Workload.PREFILL, Workload.GENERATE]
    in_models = [Workload.MODEL_PREFILL, Workload.MODEL_TRAIN, Workload.MODEL_DECODE]
    assert order == [*whole, *in_models, Workload.DECODE, Workload.VERIFY, Workload.DECODE_TOTAL]


LEARNT = section({BASE: {128: [0.5] * 3}, X: {128: [0.5] * 3}}, Workload.TRAIN)
ALONE = section({A: rising(1, 1), X: rising(0, 0)}, Workload.FORWARD_BACKWARD)


@pytest.mark.parametrize(
    ("before", "after", "causal_first"),
    [
        pytest.param(LEARNT, section(TWO), True, id="what was learnt, how fast"),
        pytest.param(section(TWO), ALONE, True, id="something to compare, nothing to compare"),
        pytest.param(section({**TWO, Y: rising(3, 3)}), section(TWO), True, id="more methods, fewer methods"),
        pytest.param(section(TWO), section(TWO, causal=False), True, id="the suite names the mask first"),
        pytest.param(section(TWO, causal=False), section(TWO), False, id="the suite names no mask first"),
    ],
)
def test_the_more_telling_section_comes_first(before: Section, after: Section, causal_first: bool) -> None:
    assert [found for found, _ in ranked([after, before], causal_first=causal_first)] == [before, after]
