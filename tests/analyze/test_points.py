"""Points: what a history keeps of a run, and what a run lacks to be whole."""

import math
from collections.abc import Callable

import pytest

from attnbench.analyze.points import lacks, points
from attnbench.schema.outcome import Counter, Status
from attnbench.schema.run import RunInfo
from tests.analyze.conftest import Writer

InfoOf = Callable[..., RunInfo]


def test_a_point_holds_every_figure_of_its_cell_the_spread_of_its_times_and_the_main_counter(
    writer: Writer, info_of: InfoOf
) -> None:
    cell = writer.cell(B=2)
    records = [writer.timed(cell, [value] * 3, i) for i, value in enumerate((2.0, 4.0, 8.0))]
    records.append(writer.weighed(cell, host_rss_peak=Counter(bytes=2**20, source="VmHWM")))
    (point,) = points(info_of([cell]), records).points
    assert (point.key, point.status, point.figures["time"]) == (cell.key, "ok", 2.0)
    assert point.spread == pytest.approx(math.log(2))
    assert (point.figures["memory"], point.counter) == (2**19, "host_rss_peak (VmHWM)")
    assert (point.figures["throughput"], point.figures["host_rss_peak"]) == (0.5, 2**19)


def test_of_a_single_replicate_there_is_no_spread(writer: Writer, info_of: InfoOf) -> None:
    cell = writer.cell()
    (point,) = points(info_of([cell]), [writer.timed(cell, [2.0])]).points
    assert (point.figures["time"], point.spread, point.counter) == (2.0, None, "")
    assert "memory" not in point.figures


def test_a_failed_cell_is_a_point_with_its_reason_and_no_number(writer: Writer, info_of: InfoOf) -> None:
    cell = writer.cell()
    (point,) = points(info_of([cell]), [writer.failed(cell, Status.OOM_HOST, "too large")]).points
    assert (point.status, point.reason, point.figures) == ("oom_host", "too large", {})


def test_cells_that_were_not_run_or_only_interrupted_have_no_point_and_are_counted(writer: Writer, info_of: InfoOf) -> None:
    cells = [writer.cell(N=N) for N in (8, 16, 32)]
    records = [writer.timed(cells[0], [1.0]), writer.failed(cells[1], Status.INTERRUPTED, "SIGINT")]
    found = points(info_of(cells), records)
    assert [point.key for point in found.points] == [cells[0].key]
    assert found.unfinished == 2


def test_a_run_is_whole_when_every_cell_has_all_replicates_or_a_failure(writer: Writer, info_of: InfoOf) -> None:
    cells = [writer.cell(N=N) for N in (8, 16)]
    records = [writer.failed(cells[1]), *(writer.timed(cells[0], [1.0], i) for i in range(3))]
    assert lacks(info_of(cells, {"replicates": 3}), records) == []
    assert lacks(info_of(cells, {"replicates": 3}), records[:-1]) == ["1 cells have fewer than 3 replicates"]
    assert lacks(info_of(cells, {"replicates": 3}), records[1:]) == ["1 of 2 cells were not run"]


def test_a_comparison_goes_on_only_with_what_is_unclear_and_is_whole(writer: Writer, info_of: InfoOf) -> None:
    cell = writer.cell()
    assert lacks(info_of([cell], {"replicates": 20}, interleaved="x"), [writer.timed(cell, [1.0], i) for i in range(5)]) == []
