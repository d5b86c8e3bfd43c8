from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.speedup import baselines, speedup, strongest_exact
from attnbench.analyze.statistics import Estimate, Spread

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer


def test_the_baseline_is_the_fastest_exact_kernel_that_ran(writer: "Writer") -> None:
    naive = writer.summary(writer.cell("softmax.naive"), [5.0])
    sdpa = writer.summary(writer.cell("softmax.sdpa"), [2.0])
    broken = writer.summary(cell := writer.cell("softmax.broken"), [0.1], writer.failed(cell, replicate=1))
    linear = writer.summary(writer.cell("linear.full"), [1.0])
    assert strongest_exact([naive, sdpa, broken, linear]) is sdpa
    assert strongest_exact([linear]) is None


def test_the_fastest_kernel_is_that_of_least_time_per_sample_where_batches_differ(writer: "Writer") -> None:
    few = writer.summary(writer.largest("softmax.naive"), [1.0], B=10)
    many = writer.summary(writer.largest("softmax.sdpa"), [2.0], B=100)
    assert strongest_exact([few, many]) is many
    ratio = speedup(few, many)
    assert ratio is not None
    assert ratio.value == pytest.approx(5.0)


def test_in_decoding_the_one_without_a_cache_is_a_second_baseline(writer: "Writer") -> None:
    cached = writer.summary(writer.largest("softmax.sdpa"), [2.0])
    anew = writer.summary(writer.largest("softmax.recompute"), [9.0])
    linear = writer.summary(writer.largest("linear.full"), [1.0])
    assert baselines([linear, anew, cached]) == [cached, anew]


def test_the_one_without_a_cache_is_no_first_baseline_however_fast_unless_it_is_the_only(writer: "Writer") -> None:
    cached = writer.summary(writer.largest("softmax.sdpa"), [2.0])
    anew = writer.summary(writer.largest("softmax.recompute"), [1.0])
    assert baselines([anew, cached]) == [cached, anew]
    assert baselines([anew]) == [anew]
    assert baselines([writer.summary(writer.largest("linear.full"), [1.0])]) == []


def test_at_once_there_is_one_baseline(writer: "Writer") -> None:
    sdpa = writer.summary(writer.cell("softmax.sdpa"), [2.0])
    anew = writer.summary(writer.cell("softmax.recompute"), [3.0])
    assert baselines([sdpa, anew]) == [sdpa]


def test_a_speedup_pairs_replicates_of_one_number(writer: "Writer") -> None:
    base, fast = writer.summary(writer.cell("a"), [2.0, 20.0, 4.0]), writer.summary(writer.cell("b"), [1.0, 10.0, 1.0])
    found = speedup(base, fast)
    assert found is not None
    assert found.interval is not None
    assert (found.value, found.interval.low, found.interval.high) == (2.0, 2.0, 4.0)
    assert found.interval.kind is Spread.BAND


def test_a_speedup_is_per_sample(writer: "Writer") -> None:
    base, fast = writer.summary(writer.cell("a", B=1), [1.0]), writer.summary(writer.cell("b", B=4), [2.0])
    found = speedup(base, fast)
    assert found is not None
    assert found.value == pytest.approx(2.0)


def test_replicates_without_a_partner_leave_the_medians_and_no_range(writer: "Writer") -> None:
    cell = writer.cell("b")
    other = writer.summary(cell, [], writer.timed(cell, [1.0], replicate=7))
    found = speedup(writer.summary(writer.cell("a"), [3.0]), other)
    assert found is not None
    assert found == Estimate.exact(3.0)


def test_a_failed_cell_has_no_speedup(writer: "Writer") -> None:
    good, bad = writer.summary(writer.cell("a"), [1.0]), writer.summary(writer.cell("b"))
    assert speedup(good, bad) is None
    assert speedup(bad, good) is None
