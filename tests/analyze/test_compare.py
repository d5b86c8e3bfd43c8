"""Comparisons: which cells of two sides belong together, what is said of each, and of all."""

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
from tests.analyze.conftest import known, writer

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)
KNOWN = quantities([])
TIMES = Figures(KNOWN["time"], KNOWN["time"])
PAIRED = Terms(margin=0.05, paired=True)
OOM = "no number (oom_host: no room)"


def slower(factor: float) -> list[float]:
    return [value * factor for value in STEADY]


def test_cells_of_one_key_are_compared_and_the_others_are_told() -> None:
    old = [writer.summary(writer.cell(N=N), STEADY) for N in (64, 128)]
    new = [writer.summary(writer.cell(N=N), STEADY) for N in (128, 256)]
    found = compare(same_cells(old, new), PAIRED, TIMES)
    assert [(c.pair.any.cell.problem.N, c.verdict, c.reason, is_lost(c)) for c in found] == [
        (128, Verdict.SAME, "", False),
        (256, Verdict.ABSENT, "no such cell on the old side", False),
        (64, Verdict.ABSENT, "no such cell on the new side", True),
    ]


def test_a_cell_without_a_number_on_a_side_says_why_and_of_one_run_none_is_lost_or_gained() -> None:
    ok, cell = writer.summary(writer.cell("a"), STEADY), writer.cell("b")
    failed = writer.summary(cell, (), writer.failed(cell, Status.OOM_HOST, reason="no room"))
    pairs = [Pair(ok, failed), Pair(failed, ok), Pair(failed, failed)]
    assert [(each.verdict, each.reason) for each in compare(pairs, PAIRED, TIMES)] == [
        (Verdict.LOST, "oom_host: no room"),
        (Verdict.GAINED, "before, oom_host: no room"),
        (Verdict.ABSENT, "oom_host: no room"),
    ]
    terms = Terms(margin=0.05, paired=True, of_methods=True)
    found = compare([*pairs, Pair(None, ok)], terms, TIMES)
    assert [(each.verdict, each.reason) for each in found] == [
        (Verdict.FAILS, f"the method has {OOM}"),
        (Verdict.RUNS, f"the baseline has {OOM}"),
        (Verdict.ABSENT, f"the baseline has {OOM}; the method has {OOM}"),
        (Verdict.ABSENT, "no baseline has a number here"),
    ]
    assert exit_of(found) is Exit.UNCLEAR
    assert exit_of([*found, *compare([Pair(ok, ok)], terms, TIMES)]) is Exit.FINE


def test_replicates_are_paired_only_where_the_terms_say_so() -> None:
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    old, new = writer.summary(writer.cell(), drift), writer.summary(writer.cell(), [1.2 * value for value in drift])
    (paired,) = compare([Pair(old, new)], PAIRED, TIMES)
    (unpaired,) = compare([Pair(old, new)], Terms(margin=0.05), TIMES)
    assert (paired.verdict, unpaired.verdict) == (Verdict.SLOWER, Verdict.UNCLEAR)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (100, 120, Verdict.SLOWER),
        (120, 100, Verdict.FASTER),
        (100, 104, Verdict.SAME),
        (1, 1.5, Verdict.SAME),
        (8, 9.1, Verdict.SLOWER),
    ],
)
def test_memory_is_read_once_and_judged_by_the_margin_and_a_megabyte(old: float, new: float, want: Verdict) -> None:
    cell, counter = writer.cell(), MainCounter("host_rss_peak", "profiler")

    def weighed(mebibytes: float, source: str = "profiler") -> CellSummary:
        read = Counter(bytes=int(mebibytes * 2**20), source=source)
        return writer.summary(cell, STEADY, writer.weighed(cell, host_rss_peak=read))

    sides = Pair(weighed(old), weighed(new))
    (beside,) = compare([sides], PAIRED, TIMES, counter)
    assert (known(beside.memory).verdict, beside.verdict, is_regression(beside)) == (want, Verdict.SAME, want is Verdict.SLOWER)
    memory = quantities([weighed(old)])["memory"]
    (alone,) = compare([sides], PAIRED, Figures(memory, memory))
    assert (alone.verdict, known(alone.ratio).interval) == (want, None)
    assert known(alone.ratio).value == pytest.approx(new / old)
    # counters of two sources are never compared
    (apart,) = compare([Pair(weighed(old), weighed(new, "sampled"))], PAIRED, TIMES, counter)
    assert apart.memory is None


def test_of_what_should_be_much_less_is_worse() -> None:
    old, new = writer.summary(writer.cell(), STEADY), writer.summary(writer.cell(), slower(1.25))
    (found,) = compare([Pair(old, new)], PAIRED, Figures(KNOWN["tokens"], KNOWN["tokens"]))
    assert known(found.ratio).value == pytest.approx(0.8)
    assert found.verdict is Verdict.SLOWER
    assert is_regression(found)


def test_a_figure_that_is_missing_or_nothing_has_no_ratio() -> None:
    cell = writer.cell()
    timed = writer.summary(cell, STEADY)
    (missing,) = compare([Pair(timed, timed)], PAIRED, Figures(KNOWN["loss"], KNOWN["loss"]))
    assert (missing.verdict, missing.reason) == (Verdict.ABSENT, "no held-out loss was recorded")
    nothing = CellSummary(cell, OK, scores={"output_error": {0: 0.0}})
    (none,) = compare([Pair(nothing, nothing)], PAIRED, Figures(KNOWN["output_error"], KNOWN["output_error"]))
    assert none.reason == "output error is 0 or less on a side, and has no ratio"


def judged(*news: float | str | None) -> list[Comparison]:
    """Cells that took a second, and now take so many, are `lost`, `noisy` or `new`, or are no longer planned."""
    pairs = []
    for i, new in enumerate(news):
        cell = writer.cell(N=64 * (i + 1))
        fails = [writer.failed(cell, Status.OOM_HOST)] if new == "lost" else []
        medians = [1.0, 1.4, 0.7, 1.2, 0.8] if new == "noisy" else slower(new) if isinstance(new, float) else STEADY
        now = None if new is None else writer.summary(cell, () if fails else medians, *fails)
        pairs.append(Pair(None if new == "new" else writer.summary(cell, STEADY), now))
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
        pytest.param(["new"], Exit.UNCLEAR, id="of new cells there is nothing to judge"),
        pytest.param([], Exit.UNCLEAR, id="nothing to judge is not fine"),
    ],
)
def test_one_exit_code_stands_for_all_cells(news: list[float | str | None], want: Exit) -> None:
    found = judged(*news)
    assert exit_of(found) is want
    assert unclear(found) == ({writer.cell(N=64).key} if "noisy" in news else set()), "that can be asked again"


def test_what_needs_a_look_comes_first() -> None:
    found = worst_first(judged(1.01, 0.5, 1.3, "lost", 2.0))
    assert [c.pair.any.cell.problem.N // 64 for c in found] == [4, 5, 3, 2, 1]


@pytest.mark.parametrize(
    ("most", "want"), [(2, [2]), (5, [5]), (6, [6]), (10, [5, 10]), (20, [5, 10, 20]), (25, [5, 10, 25]), (40, [5, 10, 20, 40])]
)
def test_looks_double_up_to_the_most_and_together_keep_to_the_level_of_one(most: int, want: list[int]) -> None:
    assert looks(most) == want
    assert level_of(len(want)) * len(want) == pytest.approx(LEVEL)
