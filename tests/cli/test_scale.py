"""A hundred thousand records, never all in memory; and a trend of ten thousand indexed runs, which takes seconds."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Facts, Point
from attnbench.schema.problem import Problem
from attnbench.store.history import LocalHistory
from attnbench.store.index import Index, index_file
from tests.cli.conftest import Written

GIBIBYTE = 2**20
"""In KiB, as the kernel counts the memory of a process."""
RUNS, SERIES, CELLS = 10_000, 200, 160


def used_by(arguments: list[str], out: Path) -> resource.struct_rusage:
    """What the command's own process used, which succeeds; its output goes into a file."""
    with out.open("w") as file:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        child = subprocess.Popen([sys.executable, "-m", "attnbench", *arguments], stdout=file, stderr=file, env=env)
        # of this child alone
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, out.read_text()
    return used


@pytest.mark.slow
@pytest.mark.alone
def test_a_hundred_thousand_records_are_compared_within_a_gibibyte(tmp_path: Path, written: Written) -> None:
    runs = [written(tmp_path / name, slower, 310) for name, slower in (("old", 1.0), ("new", 1.1))]
    assert sum(map(lines, runs)) > 100_000
    assert used_by(["compare", *map(str, runs), "--out", str(tmp_path / "c.csv")], tmp_path / "out").ru_maxrss < GIBIBYTE
    assert (tmp_path / "c.csv").read_text().count("SLOWER") == CELLS


@pytest.mark.slow
@pytest.mark.alone
def test_a_hundred_thousand_records_are_reported_within_a_gibibyte(tmp_path: Path, written: Written) -> None:
    run = written(tmp_path / "run", 1.0, 622)
    assert lines(run) == 100_000
    assert used_by(["report", str(run)], tmp_path / "out").ru_maxrss < GIBIBYTE
    assert json.loads((run / "run.json").read_text())["id"] == "run"
    assert (run / "table.csv").read_text().count(",ok,") == CELLS


def lines(run: Path) -> int:
    """Of its records."""
    return (run / "records.jsonl").read_bytes().count(b"\n")


def fill(history: LocalHistory, cache: Path) -> None:
    """Runs an hour apart; the first half of the cells is slower from the middle on."""
    for number in range(RUNS):
        folder = history.root / "nightly" / f"run{number:05}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    rng = np.random.default_rng(1)
    cells = [Cell(method=f"m{i % 20}", problem=Problem(N=512 * 2 ** (i // 20))) for i in range(SERIES)]
    keys = [cell.key for cell in cells]
    facts: Facts = {"processor": "AMD EPYC 9B14", "cores": 2, "threads": 2, **{f"package{i}": "1.2.3" for i in range(10)}}
    cache.mkdir(parents=True)
    with Index(index_file(history)) as index:
        for number, (place, stamp) in enumerate(sorted(history.places().items())):
            started = str(np.datetime64("2026-01-01T00:00:00") + np.timedelta64(number, "h")) + "+00:00"
            entry = Entry(
                place, "nightly", f"run{number:05}", started, "AMD EPYC 9B14, 2 cores, 2 threads", facts=facts, ok=SERIES
            )
            times = 0.01 * rng.lognormal(0, 0.03, SERIES)
            times[: SERIES // 2] *= 1.1 if number >= RUNS // 2 else 1.0
            points = [
                Point(cell, key, "ok", "", {"time": float(seconds), "memory": 2.0**28}, 0.01, "host_rss_peak (VmHWM)")
                for cell, key, seconds in zip(cells, keys, times, strict=True)
            ]
            index.add(entry, points, stamp)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_a_trend_of_two_million_points_takes_seconds_and_a_gibibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fill(LocalHistory(tmp_path / "h"), tmp_path / "cache" / "attnbench")
    used = used_by(["trend", str(tmp_path / "h"), "--html", str(tmp_path / "page.html")], tmp_path / "out")
    assert f"{SERIES // 2} SLOWER; {SERIES // 2} of {SERIES} series without a change: " in (tmp_path / "out").read_text()
    assert (tmp_path / "page.html").stat().st_size < 2e6
    # of the processor, which other work on the machine does not lengthen much; processors differ by a factor of two
    assert used.ru_utime + used.ru_stime <= 20
    assert used.ru_maxrss <= GIBIBYTE
