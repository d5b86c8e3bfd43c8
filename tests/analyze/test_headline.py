"""What may be said of a section: who is best at a length, against whom that is told, and when it cannot be."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from attnbench.analyze.best import Best, best
from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.headline import Ahead, Foremost, Reach, Statement, Tied, Untold, Why, is_exact, ranked, statement
from attnbench.analyze.metric import TIME, Metric, compared_by, metrics
from attnbench.analyze.sections import Section
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import OUTPUT_ERROR
from attnbench.schema.problem import Problem

LENGTHS = (512, 1024, 2048, 4096)
# mean 2 %, p = 0.034 by the paired t test
DOUBTFUL = tuple(math.exp(d) for d in (0.00, 0.02, 0.02, 0.04, 0.02))
Times = Mapping[str, Mapping[int, Sequence[float]]]
"""By method and length the replicates; none where the cell failed."""


def section(times: Times, workload: Workload = Workload.FORWARD, causal: bool = True) -> Section:
    cells = [summary(method, N, values, workload, causal) for method, row in times.items() for N, values in row.items()]
    return Section(workload, causal, "float32", tuple(cells))


def summary(method: str, N: int, values: Sequence[float], workload: Workload, causal: bool) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=N, causal=causal), workload=workload)
    by_replicate = dict(enumerate(values))
    if not values:
        return CellSummary(cell, "oom_host", "memory limit reached")
    if workload is Workload.FIDELITY:
        return CellSummary(cell, OK, scores={OUTPUT_ERROR: by_replicate})
    return CellSummary(cell, OK, medians=by_replicate)


def alike(value: float, lengths: Sequence[int] = LENGTHS, replicates: int = 5) -> dict[int, list[float]]:
    return {N: [value] * replicates for N in lengths}


def rising(*values: float, replicates: int = 5) -> dict[int, list[float]]:
    """One value a length; 0 is a failure."""
    return {N: [value] * replicates if value else [] for N, value in zip(LENGTHS, values, strict=False)}


def time(found: Section) -> Metric:
    return metrics(found.summaries)["time"]


def best_of(times: Mapping[str, Sequence[float]], N: int = 512) -> Best:
    made = section({method: {N: values} for method, values in times.items()})
    return best(made, tuple(times), N, time(made))


def pair(found: Statement) -> tuple[str, str]:
    assert isinstance(found, Ahead)
    return found.versus.of, found.versus.over


# the best of one length


def test_the_best_stands_first_and_the_others_by_rising_time() -> None:
    found = best_of({"a": [3.0] * 5, "b": [1.0] * 5, "c": [2.0] * 5})
    assert found == Best(512, ("b",), ("c", "a"), 5)
    assert found.alone
    assert found.count == 3


def test_what_the_test_does_not_tell_apart_is_named_with_the_best() -> None:
    found = best_of({"a": [1.0] * 5, "b": [1.1, 0.9, 1.0, 1.2, 0.95], "c": [2.0] * 5})
    assert (found.labels, found.behind) == (("a", "b"), ("c",))


def test_the_more_methods_the_more_it_takes_to_tell_one_apart() -> None:
    first = [1.0] * 5
    assert best_of({"a": first, "b": DOUBTFUL}).behind == ("b",)
    assert best_of({"a": first, "b": DOUBTFUL, "c": DOUBTFUL}).behind == ()
    # those that are far behind do not count against what is near
    assert best_of({"a": first, "b": DOUBTFUL, "far": [9.0] * 5}).behind == ("b", "far")


def test_a_lead_must_hold_among_all_lengths_too() -> None:
    doubtful = {512: DOUBTFUL, 1024: [1.1, 0.9, 1.0, 1.2, 0.95], 2048: [0.9, 1.1, 1.0, 0.8, 1.15]}
    made = section({"a": alike(1.0, (512, 1024, 2048)), "b": doubtful})
    assert best(made, ("a", "b"), 512, time(made)).labels == ("a", "b")


def test_below_five_replicates_the_ranges_must_lie_apart() -> None:
    assert best_of({"a": [1.0, 1.1, 1.2], "b": [1.3, 1.4, 1.5]}).behind == ("b",)
    found = best_of({"a": [1.0, 1.1, 1.2], "b": [1.05, 1.15, 1.25]})
    assert (found.labels, found.replicates) == (("a", "b"), 3)


def test_methods_without_a_figure_there_are_left_out() -> None:
    found = best_of({"a": [1.0] * 5, "b": [], "c": [2.0] * 5})
    assert found.count == 2


@pytest.mark.parametrize("methods", [2, 3, 6])
def test_of_methods_that_are_alike_one_is_rarely_called_the_best(methods: int) -> None:
    source, alone = random.Random(methods), 0
    for _ in range(300):
        times = {f"m{i}": [math.exp(source.gauss(0, 0.03)) for _ in range(5)] for i in range(methods)}
        alone += best_of(times).alone
    # 5 % of 300, and three standard errors
    assert alone <= 26


# what a section amounts to


def test_the_best_is_compared_with_the_strongest_exact_one() -> None:
    found = statement(section({"softmax.a": rising(1, 2, 4, 8), "x": rising(2, 2, 2, 2), "y": rising(3, 3, 3, 3)}))
    assert pair(found) == ("x", "softmax.a")
    assert isinstance(found, Ahead)
    assert found.best.labels == ("x",)


def test_a_baseline_that_the_suite_names_comes_before_the_exact_one() -> None:
    made = section({"softmax.a": rising(1, 2, 4, 8), "x": rising(2, 2, 2, 2), "y": rising(3, 3, 3, 3)})
    assert pair(statement(made, ("y",))) == ("x", "y")


def test_of_two_methods_either_may_be_ahead() -> None:
    slower = section({"softmax.a": rising(1, 1, 1, 1), "x": rising(2, 2, 2, 2)})
    assert pair(statement(slower)) == ("softmax.a", "x")
    neither_exact = section({"x": rising(3, 3, 3, 3), "y": rising(2, 2, 2, 2)})
    assert pair(statement(neither_exact)) == ("y", "x")


def test_a_baseline_that_nobody_passes_leads_all_others() -> None:
    found = statement(section({"softmax.a": rising(1, 1, 1, 1), "x": rising(2, 2, 2, 2), "y": rising(3, 3, 3, 3)}))
    assert isinstance(found, Foremost)
    assert (found.label, found.reach) == ("softmax.a", Reach(LENGTHS, LENGTHS))


def test_who_leads_all_does_so_as_far_as_it_leads_each() -> None:
    found = statement(section({"x": rising(2, 2, 2, 2), "y": rising(1, 3, 3, 3), "z": rising(3, 1, 3, 3)}))
    assert isinstance(found, Foremost)
    assert found.reach == Reach((2048, 4096), LENGTHS)


def test_who_fails_is_led_by_whoever_runs() -> None:
    found = statement(section({"x": rising(2, 2, 2, 2), "y": rising(3, 3, 3, 0), "z": rising(4, 4, 4, 4)}))
    assert isinstance(found, Foremost)
    assert found.best.N == 2048
    assert found.reach.led == LENGTHS


def test_several_that_cannot_be_told_apart_may_all_lead_the_baseline() -> None:
    near = dict.fromkeys(LENGTHS, DOUBTFUL) | {4096: [1.1, 0.9, 1.0, 1.2, 0.95]}
    found = statement(section({"softmax.a": rising(0.5, 2, 4, 8), "x": alike(1.0), "y": near}))
    assert isinstance(found, Tied)
    assert set(found.best.labels) == {"x", "y"}
    assert (found.over, found.reach) == ("softmax.a", Reach((1024, 2048, 4096), LENGTHS))


def test_where_the_baseline_is_among_them_nothing_is_ahead() -> None:
    noisy = [1.1, 0.9, 1.0, 1.2, 0.95]
    found = statement(section({"softmax.a": alike(1.0), "x": dict.fromkeys(LENGTHS, noisy), "y": alike(3.0)}))
    assert isinstance(found, Tied)
    assert (found.over, found.best.behind) == (None, ("y",))


def test_one_length_that_cannot_be_told_does_not_hide_what_the_others_tell() -> None:
    noisy = [8.8, 7.2, 8.0, 9.6, 7.6]
    found = statement(section({"softmax.a": rising(1, 2, 4, 8), "x": {**rising(1.5, 1.5, 1.5), 4096: noisy}}))
    assert pair(found) == ("x", "softmax.a")


def test_one_length_alone_that_is_no_longest_one_tells_nothing() -> None:
    noisy = [1.1, 0.9, 1.0, 1.2, 0.95]
    found = statement(section({"softmax.a": alike(1.0), "x": {512: [2.0] * 5, 1024: noisy, 2048: noisy}}))
    assert isinstance(found, Tied)


def test_a_baseline_that_fails_early_is_compared_where_it_ran() -> None:
    made = section({"softmax.a": rising(1, 2, 0, 0), "x": rising(0.9, 1, 2, 4), "y": rising(3, 3, 3, 6)})
    assert pair(statement(made)) == ("x", "softmax.a")
    ahead = section({"softmax.a": rising(0.1, 0.1, 0, 0), "x": rising(1, 1, 2, 4), "y": rising(0, 0, 3, 6)})
    assert pair(statement(ahead)) == ("softmax.a", "x")


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({}, Why.NOTHING),
        ({"a": rising(0, 0), "b": rising(0, 0)}, Why.NOTHING),
        ({"a": rising(1, 1), "b": rising(0, 0)}, Why.ALONE),
        ({"a": rising(1, 0), "b": rising(0, 1)}, Why.APART),
    ],
)
def test_nothing_to_compare_is_said_to_be_that(times: Times, why: Why) -> None:
    found = statement(section(times))
    assert isinstance(found, Untold)
    assert found.why is why


def test_fidelity_is_compared_among_those_that_are_not_exact() -> None:
    errors = {"softmax.a": alike(1e-7), "x": alike(0.1), "y": alike(0.5), "z": alike(0.3)}
    found = statement(section(errors, Workload.FIDELITY))
    assert isinstance(found, Foremost)
    assert (found.label, found.best.behind) == ("x", ("z", "y"))


def test_exact_is_softmax_attention_that_ran() -> None:
    made = section({"softmax.a": rising(1, 0), "softmax.b": rising(0, 0), "x": rising(1, 1)})
    assert [is_exact(made, label) for label in made.series] == [True, False, False]


# which section comes first


def first(*sections: Section, causal_first: bool = True) -> Section:
    return ranked(sections, (), causal_first=causal_first)[0][0]


def test_the_backward_pass_comes_before_the_rest() -> None:
    two = {"softmax.a": rising(1, 1), "x": rising(2, 2)}
    made = {workload: section(two, workload) for workload in Workload if compared_by(workload) == TIME}
    order = [found.workload for found, _ in ranked(list(made.values()), (), causal_first=True)]
    timed = [Workload.FORWARD_BACKWARD, Workload.FORWARD, Workload.GENERATE, Workload.DECODE, Workload.DECODE_TOTAL]
    assert order == timed


def test_where_nothing_can_be_compared_comes_last() -> None:
    alone = section({"softmax.a": rising(1, 1), "x": rising(0, 0)}, Workload.FORWARD_BACKWARD)
    two = section({"softmax.a": rising(1, 1), "x": rising(2, 2)})
    assert first(alone, two) is two


@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_that_the_suite_names_first_comes_first(causal: bool) -> None:
    two = {"softmax.a": rising(1, 1), "x": rising(2, 2)}
    masked, unmasked = section(two), section(two, causal=False)
    assert first(unmasked, masked, causal_first=causal) is (masked if causal else unmasked)


def test_of_sections_that_are_alike_the_one_with_the_most_methods_comes_first() -> None:
    two = {"softmax.a": rising(1, 1), "x": rising(2, 2)}
    small, large = section(two), section({**two, "y": rising(3, 3)})
    assert first(small, large) is large
