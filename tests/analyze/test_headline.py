"""What may be said of a section: who is best at a length, where it leads the baseline, and when that cannot be told."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.headline import NEAR, Standing, Statement, ranked, statement
from attnbench.analyze.quantities import TIME, main_quantity
from attnbench.analyze.sections import Section
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import LOSS
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from tests.analyze.conftest import compared, known

LENGTHS = (512, 1024, 2048, 4096)
BASE = "softmax.sdpa"
# mean 2 %, p = 0.034 by the paired t test
DOUBTFUL = tuple(math.exp(d) for d in (0.00, 0.02, 0.02, 0.04, 0.02))
NOISY = (1.1, 0.9, 1.0, 1.2, 0.95)
Times = Mapping[str, Mapping[int, Sequence[float]]]
"""By method and length the replicates; none where the cell failed."""
Losses = Mapping[str, Sequence[float]]
"""By method the losses of the seeds."""


def section(times: Times, workload: Workload = Workload.FORWARD, causal: bool = True, named: Sequence[str] = ()) -> Section:
    cells = [summary(method, N, values, workload, causal) for method, row in times.items() for N, values in row.items()]
    return compared(Section(workload, causal, "float32", tuple(cells)), named)


def summary(method: str, N: int, values: Sequence[float], workload: Workload, causal: bool) -> CellSummary:
    training = Training(task=Task.COPY) if workload is Workload.TRAIN else None
    cell = Cell(method=method, problem=Problem(N=N, causal=causal), workload=workload, training=training)
    by_replicate = dict(enumerate(values))
    if not values:
        return CellSummary(cell, "oom_host", "memory limit reached")
    if workload is Workload.TRAIN:
        return CellSummary(cell, OK, scores={LOSS: by_replicate})
    return CellSummary(cell, OK, medians=by_replicate)


def alike(value: float, lengths: Sequence[int] = LENGTHS, replicates: int = 5) -> dict[int, list[float]]:
    return {N: [value] * replicates for N in lengths}


def rising(*values: float, replicates: int = 5) -> dict[int, list[float]]:
    """One value a length; 0 is a failure."""
    return {N: [value] * replicates if value else [] for N, value in zip(LENGTHS, values, strict=False)}


def led(found: Statement) -> tuple[str, str, tuple[int, ...]]:
    """The best, whom it leads, and where."""
    return known(found.best).labels[0], known(found.reach).over, known(found.reach).led


def test_the_best_is_held_against_the_strongest_exact_one_where_it_leads_it() -> None:
    found = statement(section({"softmax.a": rising(1, 2, 4, 8), "x": rising(1.5, 1.5, 1.5, 1.5), "y": rising(3, 3, 3, 3)}))
    assert led(found) == ("x", "softmax.a", (1024, 2048, 4096))
    assert known(known(found.reach).start).bracket == (512, 1024)
    assert known(found.best).alone


A, X, Y = "softmax.a", "x", "y"


@pytest.mark.parametrize(
    ("times", "named", "want"),
    [
        pytest.param(
            {A: rising(1, 2, 4, 8), X: rising(2, 2, 2, 2), Y: rising(3, 3, 3, 3)},
            (Y,),
            (X, Y, LENGTHS),
            id="a baseline that the suite names comes before the exact one",
        ),
        pytest.param({X: rising(3, 3, 3, 3), Y: rising(2, 2, 2, 2)}, (), (Y, X, LENGTHS), id="neither of two is exact"),
        pytest.param(
            {A: rising(1, 2, 0, 0), X: rising(0.9, 1, 2, 4), Y: rising(3, 3, 3, 6)},
            (),
            (X, A, (512, 1024)),
            id="a baseline that fails early is led as far as it ran",
        ),
    ],
)
def test_whom_the_best_leads_and_where(times: Times, named: Sequence[str], want: tuple[str, str, tuple[int, ...]]) -> None:
    assert led(statement(section(times, named=named))) == want


def test_a_lead_ends_before_a_length_at_which_it_cannot_be_told() -> None:
    found = statement(section({"softmax.a": alike(1.0), "x": {**rising(0.5, 0.5, 0, 0.5), 2048: NOISY}}))
    assert led(found) == ("x", "softmax.a", (4096,))
    assert known(found.reach).start is None, "no crossing: it may lead at 2048 too"


def test_a_best_that_never_led_the_baseline_is_not_said_to() -> None:
    found = statement(section({"softmax.a": rising(0.1, 0.1, 0, 0), "x": rising(1, 1, 2, 4), "y": rising(0, 0, 3, 6)}))
    assert found.reach is None
    assert known(found.best).labels == ("x",)


def test_where_the_best_cannot_be_told_from_the_baseline_it_leads_nowhere() -> None:
    found = statement(section({"softmax.a": alike(1.0), "x": dict.fromkeys(LENGTHS, NOISY), "y": alike(3.0)}))
    assert found.reach is None
    assert (set(known(found.best).labels), known(found.best).behind) == ({"softmax.a", "x"}, ("y",))


def test_the_fewest_replicates_count() -> None:
    three = {512: [1.0] * 5, 1024: [1.0] * 3}
    assert statement(section({"softmax.a": alike(2.0, (512, 1024)), "x": three})).replicates == 3


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        ({}, ()),
        ({"a": rising(0, 0), "b": rising(0, 0)}, ()),
        ({"a": rising(1, 1), "b": rising(0, 0)}, ("a",)),
        ({"a": rising(1, 0), "b": rising(0, 1)}, ("a", "b")),
    ],
)
def test_without_two_methods_at_one_length_there_is_no_best(times: Times, labels: tuple[str, ...]) -> None:
    found = statement(section(times))
    assert (found.labels, found.best) == (labels, None)


# training


def learning(losses: Losses, named: Sequence[str] = ()) -> Statement:
    return statement(section({method: {128: values} for method, values in losses.items()}, Workload.TRAIN, named=named))


@pytest.mark.parametrize(
    ("losses", "standing"),
    [
        # sure, but too small to be worth a word
        ([0.54, 0.54, 0.541], Standing.REACHES),
        ([0.46, 0.46, 0.461], Standing.REACHES),
        # mean 0.04, interval beyond 0.05
        ([0.53, 0.55, 0.54], Standing.UNTOLD),
        # fewer seeds than the other has, and than three
        ([0.9, 0.9], Standing.UNTOLD),
    ],
)
def test_a_standing_goes_by_the_interval_and_what_is_worth_a_word(losses: list[float], standing: Standing) -> None:
    assert learning({BASE: [0.5] * 3, "x": losses}).standings == {"x": standing}


def test_a_loss_of_nothing_is_a_loss_too() -> None:
    assert learning({BASE: [0.0] * 3, "x": [0.0] * 3}).standings == {"x": Standing.REACHES}


def test_a_named_model_comes_before_the_exact_one_and_without_either_the_least_loss_is_the_measure() -> None:
    found = learning({BASE: [0.1] * 3, "x": [0.5] * 3, "y": [0.5] * 3}, ["y"])
    assert (found.base, found.standings) == ("y", {BASE: Standing.BELOW, "x": Standing.REACHES})
    found = learning({"x": [0.5] * 3, "y": [0.2] * 3, BASE: []})
    assert (found.base, found.standings) == ("y", {"x": Standing.ABOVE})


@pytest.mark.parametrize("truth", [0.0, 2 * NEAR, -2 * NEAR, 6 * NEAR])
def test_what_is_said_of_a_loss_is_rarely_wrong(truth: float) -> None:
    true = {0.0: Standing.REACHES, -2 * NEAR: Standing.BELOW}.get(truth, Standing.ABOVE)
    # what is below has reached it, too
    right = {true, Standing.UNTOLD} | ({Standing.REACHES} if true is Standing.BELOW else set())
    source, wrong = random.Random(str(truth)), 0
    for _ in range(400):
        base = [0.5 + source.gauss(0, 0.05) for _ in range(3)]
        wrong += (
            learning({BASE: base, "x": [loss + truth + source.gauss(0, 0.05) for loss in base]}).standings["x"] not in right
        )
    # 5 % of 400, and three standard errors
    assert wrong <= 33


# which section comes first


TWO = {"softmax.a": rising(1, 1), "x": rising(2, 2)}


def test_the_backward_pass_comes_before_the_rest() -> None:
    made = {workload: section(TWO, workload) for workload in Workload if main_quantity(workload) == TIME}
    order = [found.workload for found, _ in ranked(list(made.values()), causal_first=True)]
    whole = [Workload.FORWARD_BACKWARD, Workload.FORWARD, Workload.BACKWARD, Workload.PREFILL, Workload.GENERATE]
    in_models = [Workload.MODEL_PREFILL, Workload.MODEL_TRAIN, Workload.MODEL_DECODE]
    assert order == [*whole, *in_models, Workload.DECODE, Workload.VERIFY, Workload.DECODE_TOTAL]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            section({BASE: {128: [0.5] * 3}, "x": {128: [0.5] * 3}}, Workload.TRAIN),
            section(TWO),
            id="what was learnt, how fast",
        ),
        pytest.param(
            section(TWO),
            section({"softmax.a": rising(1, 1), "x": rising(0, 0)}, Workload.FORWARD_BACKWARD),
            id="something to compare, nothing to compare",
        ),
        pytest.param(section({**TWO, "y": rising(3, 3)}), section(TWO), id="more methods, fewer methods"),
    ],
)
def test_the_more_telling_section_comes_first(before: Section, after: Section) -> None:
    assert [found for found, _ in ranked([after, before], causal_first=True)] == [before, after]


@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_that_the_suite_names_first_comes_first(causal: bool) -> None:
    masked, unmasked = section(TWO), section(TWO, causal=False)
    (first, _), _ = ranked([unmasked, masked], causal_first=causal)
    assert first is (masked if causal else unmasked)
