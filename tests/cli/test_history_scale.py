"""Ten thousand runs of two hundred cells: once they are indexed, a trend of them takes seconds and little memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry, Facts, Point
from attnbench.schema.problem import Problem
from attnbench.store.index import Index
from attnbench.store.indexed import index_file
from attnbench.store.local_history import LocalHistory

RUNS, CELLS = 10_000, 200
MACHINE = "AMD EPYC 9B14, 2 cores, 2 threads"


def fill(history: LocalHistory, cache: Path) -> None:
    """Runs an hour apart; the first half of the cells is slower from the middle on."""
    for number in range(RUNS):
        folder = history.root / "nightly" / f"run{number:05}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    rng = np.random.default_rng(1)
    cells = [Cell(method=f"m{i % 20}", problem=Problem(N=512 * 2 ** (i // 20))) for i in range(CELLS)]
    keys = [cell.key for cell in cells]
    facts: Facts = {"processor": "AMD EPYC 9B14", "cores": 2, "threads": 2, **{f"package{i}": "1.2.3" for i in range(10)}}
    cache.mkdir(parents=True)
    with Index(index_file(history)) as index:
        for number, (place, stamp) in enumerate(sorted(history.places().items())):
            started = str(np.datetime64("2026-01-01T00:00:00") + np.timedelta64(number, "h")) + "+00:00"
            entry = Entry(
                place, "nightly", f"run{number:05}", started, "AMD EPYC 9B14, 2 cores, 2 threads", facts=facts, ok=CELLS
            )
            times = 0.01 * rng.lognormal(0, 0.03, CELLS)
            times[: CELLS // 2] *= 1.1 if number >= RUNS // 2 else 1.0
            points = [
                Point(cell, key, "ok", "", float(seconds), 0.01, 3, 2.0**28, "host_rss_peak (VmHWM)")
                for cell, key, seconds in zip(cells, keys, times, strict=True)
            ]
            index.add(entry, points, stamp)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_trend_of_two_million_points_takes_ten_seconds_and_a_gibibyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fill(LocalHistory(tmp_path / "h"), tmp_path / "cache" / "attnbench")
    command = [sys.executable, "-m", "attnbench", "trend", str(tmp_path / "h"), "--html", str(tmp_path / "page.html")]
    with (tmp_path / "out").open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"})
        # of this child alone
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    text = (tmp_path / "out").read_text()
    assert child.returncode == 0, text
    assert f"{CELLS // 2} SLOWER; {CELLS // 2} of {CELLS} series without a change: " in text
    assert (tmp_path / "page.html").stat().st_size < 2e6
    # of the processor, which other work on the machine does not lengthen
    assert used.ru_utime + used.ru_stime <= 10
    assert used.ru_maxrss <= 2**20, "KiB"
