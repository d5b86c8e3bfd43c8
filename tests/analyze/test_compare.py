import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.compare import (
    Comparison,
    Exit,
    Figures,
    Pair,
    Terms,
    compare,
    exit_of,
    is_lost,
    is_regression,
    level_of,
    looks,
    same_cells,
    unclear,
    worst_first,
)
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.quantities import quantities
from attnbench.analyze.verdict import LEVEL, Verdict
from attnbench.schema.outcome import Counter, Status
from tests.analyze.conftest import Writer, known

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)
PEAK = MainCounter("torch_profiler_peak", "profiler")
TIMES = Figures(*2 * (quantities([])["time"],))
PAIRED = Terms(margin=0.05, paired=True)


def slower(factor: float) -> list[float]:
    return [value * factor for value in STEADY]


def test_cells_of_one_key_are_compared_and_the_others_are_told(writer: Writer) -> None:
    old = [writer.summary(writer.cell(N=N), STEADY) for N in (64, 128)]
    new = [writer.summary(writer.cell(N=N), STEADY) for N in (128, 256)]
    pairs = same_cells(old, new)
    assert [(p.old and p.old.cell.problem.N, p.new and p.new.cell.problem.N) for p in pairs] == [
        (128, 128),
        (None, 256),
        (64, None),
    ]
    found = compare(pairs, PAIRED, TIMES)
    assert [(c.verdict, c.reason) for c in found] == [
        (Verdict.SAME, ""),
        (Verdict.ABSENT, "no such cell on the old side"),
        (Verdict.ABSENT, "no such cell on the new side"),
    ]
    assert [is_lost(c) for c in found] == [False, False, True]


def test_a_lost_and_a_gained_cell_say_why(writer: Writer) -> None:
    cell = writer.cell()
    ok = writer.summary(cell, STEADY)
    failed = writer.summary(cell, (), writer.failed(cell, Status.INCORRECT, reason="o differs"))
    lost, gained, neither = compare([Pair(ok, failed), Pair(failed, ok), Pair(failed, failed)], PAIRED, TIMES)
    assert (lost.verdict, lost.reason) == (Verdict.LOST, "incorrect: o differs")
    assert (gained.verdict, gained.reason) == (Verdict.GAINED, "before, incorrect: o differs")
    assert (neither.verdict, neither.reason) == (Verdict.ABSENT, "incorrect: o differs")


def test_of_the_methods_of_one_run_none_is_lost_or_gained_and_the_side_without_a_number_is_named(writer: Writer) -> None:
    ok, cell = writer.summary(writer.cell("a"), STEADY), writer.cell("b")
    failed = writer.summary(cell, (), writer.failed(cell, Status.OOM_HOST, reason="no room"))
    terms = Terms(margin=0.05, paired=True, of_methods=True)
    found = compare([Pair(ok, failed), Pair(failed, ok), Pair(failed, failed), Pair(None, ok)], terms, TIMES)
    assert [(each.verdict, each.reason) for each in found] == [
        (Verdict.FAILS, "the method has no number (oom_host: no room)"),
        (Verdict.RUNS, "the baseline has no number (oom_host: no room)"),
        (Verdict.ABSENT, "the baseline has no number (oom_host: no room); the method has no number (oom_host: no room)"),
        (Verdict.ABSENT, "no baseline has a number here"),
    ]
    assert exit_of(found) is Exit.UNCLEAR
    assert exit_of([*found, *compare([Pair(ok, ok)], terms, TIMES)]) is Exit.FINE


def test_replicates_are_paired_only_where_the_terms_say_so(writer: Writer) -> None:
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    old, new = writer.summary(writer.cell(), drift), writer.summary(writer.cell(), [1.2 * value for value in drift])
    (paired,) = compare([Pair(old, new)], PAIRED, TIMES)
    (unpaired,) = compare([Pair(old, new)], Terms(margin=0.05), TIMES)
    assert (paired.verdict, unpaired.verdict) == (Verdict.SLOWER, Verdict.UNCLEAR)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [(100, 120, Verdict.SLOWER), (120, 100, Verdict.FASTER), (100, 104, Verdict.SAME), (1, 1.5, Verdict.SAME)],
)
def test_memory_is_judged_by_the_margin_and_a_megabyte(writer: Writer, old: float, new: float, want: Verdict) -> None:
    cell = writer.cell()

    def weighed(mebibytes: float) -> Counter:
        return Counter(bytes=int(mebibytes * 2**20), source="profiler")

    sides = [writer.summary(cell, STEADY, writer.weighed(cell, torch_profiler_peak=weighed(size))) for size in (old, new)]
    (found,) = compare([Pair(*sides)], PAIRED, TIMES, PEAK)
    assert (known(found.memory).verdict, found.verdict) == (want, Verdict.SAME)
    assert is_regression(found) == (want is Verdict.SLOWER)


def test_counters_of_two_sources_are_never_compared(writer: Writer) -> None:
    cell = writer.cell()
    counters = [Counter(bytes=2**30, source="profiler"), Counter(bytes=2**20, source="sampled")]
    sides = [writer.summary(cell, STEADY, writer.weighed(cell, torch_profiler_peak=counter)) for counter in counters]
    (found,) = compare([Pair(*sides)], PAIRED, TIMES, PEAK)
    assert found.memory is None


def test_what_needs_a_look_comes_first(writer: Writer) -> None:
    cells = [writer.cell(N=N) for N in (1, 2, 3, 4, 5)]
    ok = [writer.summary(cell, STEADY) for cell in cells]
    new = [
        writer.summary(cells[0], slower(1.01)),
        writer.summary(cells[1], slower(0.5)),
        writer.summary(cells[2], slower(1.3)),
        writer.summary(cells[3], (), writer.failed(cells[3])),
        writer.summary(cells[4], slower(2.0)),
    ]
    found = worst_first(compare([Pair(*pair) for pair in zip(ok, new, strict=True)], PAIRED, TIMES))
    assert [c.pair.any.cell.problem.N for c in found] == [4, 5, 3, 2, 1]


def test_of_what_should_be_much_less_is_worse(writer: Writer) -> None:
    rate = quantities([])["tokens"]
    old, new = writer.summary(writer.cell(), STEADY), writer.summary(writer.cell(), slower(1.25))
    (found,) = compare([Pair(old, new)], PAIRED, Figures(rate, rate))
    assert known(found.ratio).value == pytest.approx(0.8)
    assert found.verdict is Verdict.SLOWER
    assert is_regression(found)


@pytest.mark.parametrize(("old", "new", "want"), [(8, 9, Verdict.SLOWER), (9, 8, Verdict.FASTER), (8, 8.1, Verdict.SAME)])
def test_what_is_read_once_is_judged_by_its_size(writer: Writer, old: float, new: float, want: Verdict) -> None:
    cell = writer.cell()
    counters = [Counter(bytes=int(size * 2**20 * 4), source="profiler") for size in (old, new)]
    sides = [writer.summary(cell, STEADY, writer.weighed(cell, host_rss_peak=counter)) for counter in counters]
    memory = quantities(sides)["memory"]
    (found,) = compare([Pair(*sides)], PAIRED, Figures(memory, memory))
    assert (found.verdict, known(found.ratio).interval) == (want, None)
    assert known(found.ratio).value == pytest.approx(new / old)


def test_a_figure_that_is_missing_or_nothing_has_no_ratio(writer: Writer) -> None:
    cell = writer.cell()
    known = quantities([])
    sides = Pair(writer.summary(cell, STEADY), writer.summary(cell, STEADY))
    (missing,) = compare([sides], PAIRED, Figures(known["loss"], known["loss"]))
    assert (missing.verdict, missing.reason) == (Verdict.ABSENT, "no held-out loss was recorded")
    nothing = CellSummary(cell, OK, scores={"output_error": {0: 0.0}})
    (none,) = compare([Pair(nothing, nothing)], PAIRED, Figures(known["output_error"], known["output_error"]))
    assert none.reason == "output error is 0 or less on a side, and has no ratio"


def judged(writer: Writer, *news: float | str | None) -> list[Comparison]:
    """Cells that took a second, and now take so many, are `lost`, are `noisy`, or are no longer planned."""
    pairs = []
    for i, new in enumerate(news):
        cell = writer.cell(N=64 * (i + 1))
        fails = [writer.failed(cell, Status.OOM_HOST)] if new == "lost" else []
        medians = [1.0, 1.4, 0.7, 1.2, 0.8] if new == "noisy" else slower(new) if isinstance(new, float) else []
        pairs.append(Pair(writer.summary(cell, STEADY), None if new is None else writer.summary(cell, medians, *fails)))
    return compare(pairs, PAIRED, TIMES)


@pytest.mark.parametrize(
    ("news", "want"),
    [
        pytest.param([1.001], Exit.FINE, id="what changes nothing passes"),
        pytest.param([1.2, 0.5], Exit.REGRESSION, id="one slower cell is one whatever became faster"),
        pytest.param(["lost"], Exit.LOST, id="a cell that used to run fails"),
        pytest.param([None, 1.0], Exit.LOST, id="a cell is no longer planned"),
        pytest.param(["lost", 1.3], Exit.REGRESSION, id="a proven regression is said before lost cells"),
        pytest.param(["noisy", 1.0], Exit.UNCLEAR, id="what cannot be told"),
        pytest.param([], Exit.UNCLEAR, id="nothing to judge is not fine"),
    ],
)
def test_one_exit_code_stands_for_all_cells(writer: Writer, news: list[float | str | None], want: Exit) -> None:
    assert exit_of(judged(writer, *news)) is want


def test_of_cells_that_are_new_there_is_nothing_to_judge(writer: Writer) -> None:
    assert exit_of(compare([Pair(None, writer.summary(writer.cell(), STEADY))], PAIRED, TIMES)) is Exit.UNCLEAR


def test_what_is_unclear_can_be_asked_again(writer: Writer) -> None:
    assert unclear(judged(writer, "noisy", 1.0)) == {writer.cell(N=64).key}


@pytest.mark.parametrize(
    ("most", "want"), [(2, [2]), (5, [5]), (6, [6]), (10, [5, 10]), (20, [5, 10, 20]), (25, [5, 10, 25]), (40, [5, 10, 20, 40])]
)
def test_looks_double_up_to_the_most(most: int, want: list[int]) -> None:
    assert looks(most) == want


def test_all_looks_together_keep_to_the_level_of_one() -> None:
    assert level_of(3) * 3 == pytest.approx(LEVEL)
