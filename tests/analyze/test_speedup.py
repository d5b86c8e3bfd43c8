"""Against whom methods are held, and how much faster they are."""

from collections.abc import Mapping, Sequence

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.sections import Section, sections, sections_of
from attnbench.analyze.speedup import baseline, baselines, speedup, strongest_exact, without_cache
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Description
from attnbench.schema.suite import Axes
from attnbench.training.reading import ANEW, STEP_BY_STEP
from tests.analyze.conftest import compared, known, writer
from tests.report.conftest import Synthetic

SDPA, NAIVE, RECOMPUTE, LINEAR = "softmax.sdpa", "softmax.naive", "softmax.recompute", "linear.full"
COMPILED = f"{SDPA}+compile"
LENGTHS = (512, 1024, 2048)


def section_of(summaries: Sequence[CellSummary], named: Sequence[str] = ()) -> Section:
    (found,) = sections(summaries, Axes(N=LENGTHS))
    return compared(found, named)


def test_the_baseline_is_the_exact_kernel_of_least_time_per_sample_that_ran() -> None:
    naive, sdpa, linear = (writer.summary(writer.cell(name), [t]) for name, t in ((NAIVE, 5.0), (SDPA, 2.0), (LINEAR, 1.0)))
    broken = writer.summary(cell := writer.cell("softmax.broken"), [0.1], writer.failed(cell, replicate=1))
    assert strongest_exact(section_of([naive, sdpa, broken, linear]), 1024) is sdpa
    assert strongest_exact(section_of([linear]), 1024) is None
    few = writer.summary(writer.largest(NAIVE), [1.0], B=10)
    many = writer.summary(writer.largest(SDPA), [2.0], B=100)
    assert strongest_exact(section_of([few, many]), 1024) is many
    assert known(speedup(few, many)).value == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("searched", "seconds", "want"),
    [
        pytest.param(True, {LINEAR: 1.0, RECOMPUTE: 9.0, SDPA: 2.0}, [SDPA, RECOMPUTE], id="one without a cache is second"),
        pytest.param(True, {RECOMPUTE: 1.0, SDPA: 2.0}, [SDPA, RECOMPUTE], id="and no first, however fast"),
        pytest.param(True, {RECOMPUTE: 1.0}, [RECOMPUTE], id="unless it is the only one"),
        pytest.param(True, {LINEAR: 1.0}, [], id="without any exact one there is none"),
        pytest.param(False, {SDPA: 2.0, RECOMPUTE: 3.0}, [SDPA], id="at once there is no second"),
    ],
)
def test_in_decoding_a_speedup_over_a_cache_and_over_none_are_two_numbers(
    searched: bool, seconds: dict[str, float], want: list[str]
) -> None:
    cells = [(writer.largest if searched else writer.cell)(method) for method in seconds]
    summaries = [writer.summary(cell, [time]) for cell, time in zip(cells, seconds.values(), strict=True)]
    found = baselines(section_of(summaries), 1024)
    assert [each.cell.method for each in found] == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param({COMPILED: 1.0, SDPA: 2.0, RECOMPUTE: 9.0}, [SDPA, COMPILED], id="the strongest with a cache and without"),
        pytest.param({COMPILED: 1.0, RECOMPUTE: 9.0}, [COMPILED], id="where none has a cache there is no second"),
        pytest.param({SDPA: 2.0, "lsh.reformer": 1.0}, [SDPA], id="what is not exact is no baseline"),
    ],
)
def test_a_model_generates_without_a_cache_where_its_record_says_so(seconds: dict[str, float], want: list[str]) -> None:
    cells = []
    for method, time in seconds.items():
        cell = writer.cell(method, causal=True).model_copy(update={"workload": Workload.GENERATE})
        way = STEP_BY_STEP if method == SDPA else ANEW
        cells.append(CellSummary(cell, OK, medians={0: time}, facts={"generation": way}))
    assert [each.cell.method for each in baselines(section_of(cells), 1024)] == want
    assert [without_cache(cell) for cell in cells] == [method != SDPA for method in seconds]


def test_what_is_called_softmax_and_computes_something_else_is_no_baseline() -> None:
    seconds = {SDPA: 3.0, "softmax.fox": 2.0, "softmax.new": 4.0, "mine:Exact": 1.0}
    cells = [writer.summary(writer.cell(method), [time]) for method, time in seconds.items()]
    say: dict[str, bool | None] = {SDPA: True, "softmax.fox": False, "mine:Exact": True, "softmax.new": None}
    run = Synthetic([]).run()
    about = {
        name: Description(method=name, tier="", paper="", causality="", summary="", version="", is_softmax=exact)
        for name, exact in say.items()
    }
    for left, best in (((), "mine:Exact"), (("mine:Exact",), SDPA), (("mine:Exact", SDPA), "softmax.new")):
        (section,) = sections_of(run.model_copy(update={"methods": about}), [s for s in cells if s.cell.method not in left])
        assert known(strongest_exact(section, 1024)).cell.method == best
    (section,) = sections_of(run, cells)
    assert known(strongest_exact(section, 1024)).cell.method == "softmax.fox", "of a run that did not ask, by its name"


def test_a_speedup_pairs_replicates_of_one_number_and_is_of_the_medians_where_none_has_a_partner() -> None:
    cell = writer.cell("b")
    base, fast = writer.summary(writer.cell("a"), [2.0, 20.0, 4.0]), writer.summary(cell, [1.0, 10.0, 1.0])
    assert speedup(base, fast) == Estimate(2.0, Interval(2.0, 4.0, Spread.BAND))
    assert speedup(base, writer.summary(cell, [], writer.timed(cell, [1.0], replicate=7))) == Estimate.exact(4.0)
    failed = writer.summary(cell)
    assert speedup(base, failed) is speedup(failed, base) is None


@pytest.mark.parametrize(
    ("times", "named", "want"),
    [
        ({SDPA: {512: 3, 1024: 3}, NAIVE: {512: 1, 1024: 4}, LINEAR: {512: 1, 1024: 1, 2048: 1}}, (), SDPA),
        ({SDPA: {512: 3, 1024: 3}, NAIVE: {512: 1, 1024: 4}, LINEAR: {512: 1, 1024: 1, 2048: 1}}, (NAIVE,), NAIVE),
        ({LINEAR: {512: 1, 1024: 1, 2048: 1}}, (), None),
        # none is exact at the length that the most reach: the longest length of one counts
        ({SDPA: {512: 3}, "a": {512: 1, 1024: 1, 2048: 1}, "b": {1024: 1, 2048: 1}}, (), SDPA),
    ],
)
def test_the_baseline_of_a_section_is_named_or_the_strongest_exact_one_where_the_most_methods_ran(
    times: Mapping[str, Mapping[int, float]], named: tuple[str, ...], want: str | None
) -> None:
    cells = [writer.summary(writer.cell(method, N), [t]) for method, row in times.items() for N, t in row.items()]
    assert baseline(section_of(cells, named)) == want
