from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.compare import Pair, Terms, compare, is_lost, is_regression, same_cells, worst_first
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.verdict import Verdict
from attnbench.schema.outcome import Counter, Status

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer

STEADY = (1.0, 1.001, 0.999, 1.0005, 0.9995)
PEAK = MainCounter("torch_profiler_peak", "profiler")
PAIRED = Terms(margin=0.05, paired=True)


def slower(factor: float) -> list[float]:
    return [value * factor for value in STEADY]


def test_cells_of_one_key_are_compared_and_the_others_are_told(writer: "Writer") -> None:
    old = [writer.summary(writer.cell(N=N), STEADY) for N in (64, 128)]
    new = [writer.summary(writer.cell(N=N), STEADY) for N in (128, 256)]
    pairs = same_cells(old, new)
    assert [(p.old and p.old.cell.problem.N, p.new and p.new.cell.problem.N) for p in pairs] == [
        (128, 128),
        (None, 256),
        (64, None),
    ]
    found = compare(pairs, PAIRED)
    assert [(c.verdict, c.reason) for c in found] == [
        (Verdict.SAME, ""),
        (Verdict.ABSENT, "no such cell on the old side"),
        (Verdict.ABSENT, "no such cell on the new side"),
    ]
    assert [is_lost(c) for c in found] == [False, False, True]


def test_times_are_compared_per_sample_of_the_batch(writer: "Writer") -> None:
    cell = writer.largest()
    old, new = writer.summary(cell, slower(4), B=4), writer.summary(cell, slower(6), B=6)
    (found,) = compare([Pair(old, new)], PAIRED)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.0)
    assert found.verdict is Verdict.SAME


def test_a_lost_and_a_gained_cell_say_why(writer: "Writer") -> None:
    cell = writer.cell()
    ok, failed = (
        writer.summary(cell, STEADY),
        writer.summary(cell, (), writer.failed(cell, Status.INCORRECT, reason="o differs")),
    )
    lost, gained, neither = compare([Pair(ok, failed), Pair(failed, ok), Pair(failed, failed)], PAIRED)
    assert (lost.verdict, lost.reason) == (Verdict.LOST, "incorrect: o differs")
    assert (gained.verdict, gained.reason) == (Verdict.GAINED, "before, incorrect: o differs")
    assert (neither.verdict, neither.reason) == (Verdict.ABSENT, "incorrect: o differs")


def test_replicates_are_paired_only_where_the_terms_say_so(writer: "Writer") -> None:
    drift = [1.0, 2.0, 4.0, 8.0, 16.0]
    old, new = writer.summary(writer.cell(), drift), writer.summary(writer.cell(), [1.2 * value for value in drift])
    (paired,) = compare([Pair(old, new)], PAIRED)
    (unpaired,) = compare([Pair(old, new)], Terms(margin=0.05))
    assert (paired.verdict, unpaired.verdict) == (Verdict.SLOWER, Verdict.UNCLEAR)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (100, 120, Verdict.SLOWER),
        (120, 100, Verdict.FASTER),
        (100, 104, Verdict.SAME),
        (1, 1.5, Verdict.SAME),
    ],
)
def test_memory_is_judged_by_the_margin_and_a_megabyte(writer: "Writer", old: float, new: float, want: Verdict) -> None:
    cell = writer.cell()

    def weighed(mebibytes: float) -> Counter:
        return Counter(bytes=int(mebibytes * 2**20), source="profiler")

    sides = [writer.summary(cell, STEADY, writer.weighed(cell, torch_profiler_peak=weighed(size))) for size in (old, new)]
    (found,) = compare([Pair(*sides)], PAIRED, PEAK)
    assert found.memory is not None
    assert (found.memory.verdict, found.verdict) == (want, Verdict.SAME)
    assert is_regression(found) == (want is Verdict.SLOWER)


def test_counters_of_two_sources_are_never_compared(writer: "Writer") -> None:
    cell = writer.cell()
    counters = [Counter(bytes=2**30, source="profiler"), Counter(bytes=2**20, source="sampled")]
    sides = [writer.summary(cell, STEADY, writer.weighed(cell, torch_profiler_peak=counter)) for counter in counters]
    (found,) = compare([Pair(*sides)], PAIRED, PEAK)
    assert found.memory is None


def test_what_needs_a_look_comes_first(writer: "Writer") -> None:
    cells = [writer.cell(N=N) for N in (1, 2, 3, 4, 5)]
    ok = [writer.summary(cell, STEADY) for cell in cells]
    new = [
        writer.summary(cells[0], slower(1.01)),
        writer.summary(cells[1], slower(0.5)),
        writer.summary(cells[2], slower(1.3)),
        writer.summary(cells[3], (), writer.failed(cells[3])),
        writer.summary(cells[4], slower(2.0)),
    ]
    found = worst_first(compare([Pair(*pair) for pair in zip(ok, new, strict=True)], PAIRED))
    assert [c.pair.any.cell.problem.N for c in found] == [4, 5, 3, 2, 1]
