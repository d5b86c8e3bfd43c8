"""A hundred thousand records, never all in memory; and a trend of ten thousand indexed runs, which takes seconds."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.history import Entry, Facts, Point
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Counter, Measured, Series
from attnbench.schema.problem import Problem
from attnbench.store.history import LocalHistory
from attnbench.store.index import Index, index_file
from tests.cli.conftest import InfoOf, as_record

GIBIBYTE = 2**20
"""In KiB, as the kernel counts the memory of a process."""
RUNS, SERIES = 10_000, 200


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


# what a worker on a CPU says beside fifty samples
FACTS: dict[str, Scalar | None] = {f"fact_{i}": 0.4964159409937565 for i in range(11)}
COUNTERS = {
    **{f"counter_{i}": Counter(bytes=None, source="torch's CUDA allocator", reason="this cell ran on a CPU") for i in range(9)},
    "torch_profiler_peak": Counter(bytes=2**26, source="running sum of the memory events of torch's profiler"),
}


def written(folder: Path, info_of: InfoOf, slower: float, replicates: int) -> str:
    """Write a run of 160 cells as workers do: its folder, a factor on all times, time passes a cell; three memory passes."""
    cells = [
        Cell(method=f"made.up_{i}", problem=Problem(N=2**power), workload=workload)
        for power in range(9, 17)
        for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD)
        for i in range(10)
    ]
    folder.mkdir()
    (folder / "run.json").write_text(info_of(cells, {"name": "large", "replicates": 3}, id=folder.name).model_dump_json())
    with (folder / "records.jsonl").open("w") as file:
        for number, cell in enumerate(cells):
            values = tuple(slower * (1 + number) * (1e-3 + 1e-6 * ((i * 7919) % 50)) for i in range(50))
            samples = {"time": values, "warmup": values[:8], "first_call": values[:1]}
            series = {name: Series(unit="s", values=found) for name, found in samples.items()}
            timed = as_record(cell, Measured(samples=series, facts=FACTS)).line()
            measured = as_record(cell, Measured(memory=COUNTERS), phase=Pass.MEMORY).line()
            for line, count in ((timed, replicates), (measured, 3)):
                file.writelines(line.replace('"replicate":0', f'"replicate":{r}') + "\n" for r in range(count))
    return str(folder)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    ("command", "runs", "replicates", "file", "said"),
    [("compare", ("old", "new"), 310, "c.csv", "SLOWER"), ("report", ("run",), 622, "run/table.csv", ",ok,")],
    ids=["compared", "reported"],
)
def test_a_hundred_thousand_records_take_a_gibibyte(
    command: str, runs: Sequence[str], replicates: int, file: str, said: str, tmp_path: Path, info_of: InfoOf
) -> None:
    folders = [written(tmp_path / name, info_of, 1.1 if name == "new" else 1.0, replicates) for name in runs]
    assert sum((Path(folder) / "records.jsonl").read_bytes().count(b"\n") for folder in folders) >= 100_000
    outs = ["--out", str(tmp_path / file)] if command == "compare" else []
    assert used_by([command, *folders, *outs], tmp_path / "out").ru_maxrss < GIBIBYTE
    assert (tmp_path / file).read_text().count(said) == 160


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
