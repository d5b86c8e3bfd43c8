"""A hundred thousand records: read one by one, and never all in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Counter, Measured, Series
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite

METHODS = tuple(f"made.up_{i}" for i in range(10))
LENGTHS = tuple(2**i for i in range(9, 17))
WORKLOADS = (Workload.FORWARD, Workload.FORWARD_BACKWARD)
MOST_BYTES = 2**30
"""Of a process that reads them."""
# what a worker on a CPU says beside fifty samples
FACTS: dict[str, Scalar | None] = {
    **{"clock": "wall", "stop": "budget", "warmup_calls": 20, "loop_seconds": 0.4964159409937565, "batch": 3, "threads": 2},
    **{"deterministic": False, "others_percent": 0.145, "load_1min": 1.697265625, "steal_percent": 0.0},
    **{"cgroup_throttled": None, "governor": None},
}
MEMORY = {
    **{f"counter_{i}": Counter(bytes=None, source="torch's CUDA allocator", reason="this cell ran on a CPU") for i in range(9)},
    "torch_profiler_peak": Counter(bytes=2**26, source="running sum of the memory events of torch's profiler"),
}


def cells() -> list[Cell]:
    """160."""
    return [Cell(method=m, problem=Problem(N=N), workload=w) for N in LENGTHS for w in WORKLOADS for m in METHODS]


def written(folder: Path, slower: float, replicates: int) -> Path:
    """A run as workers write it, of so many time passes a cell and three memory passes."""
    folder.mkdir()
    suite = Suite(name="large", device="cpu", axes=Axes(N=LENGTHS), methods=tuple(Method(name=m) for m in METHODS))
    info = RunInfo(
        id=folder.name,
        suite=suite,
        command="attnbench run large",
        started="2026-01-02T03:04:05+00:00",
        environment={},
        environment_digest="e",
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=2**34, roof={}),
        methods={},
        cells=tuple(cells()),
    )
    (folder / "run.json").write_text(info.model_dump_json())
    with (folder / "records.jsonl").open("w") as file:
        for number, cell in enumerate(cells()):
            for phase, count in ((Pass.TIME, replicates), (Pass.MEMORY, 3)):
                outcome = timed(slower * (1 + number)) if phase is Pass.TIME else Measured(memory=MEMORY)
                line = Record(job=Job(cell=cell, phase=phase), outcome=outcome, environment="e", started="x").line()
                file.writelines(line.replace('"replicate":0', f'"replicate":{r}') + "\n" for r in range(count))
    return folder


def timed(scale: float) -> Measured:
    values = tuple(scale * (1e-3 + 1e-6 * ((i * 7919) % 50)) for i in range(50))
    samples = {"time": values, "warmup": values[:8], "first_call": values[:1]}
    return Measured(samples={name: Series(unit="s", values=found) for name, found in samples.items()}, facts=FACTS)


@pytest.mark.slow
def test_a_hundred_thousand_records_are_compared_within_a_gibibyte(tmp_path: Path) -> None:
    runs = [written(tmp_path / name, slower, 310) for name, slower in (("old", 1.0), ("new", 1.1))]
    assert sum(map(lines, runs)) > 100_000
    assert peak_bytes(["compare", *map(str, runs), "--out", str(tmp_path / "c.csv")]) < MOST_BYTES
    assert (tmp_path / "c.csv").read_text().count("SLOWER") == len(cells())


@pytest.mark.slow
def test_a_hundred_thousand_records_are_reported_within_a_gibibyte(tmp_path: Path) -> None:
    run = written(tmp_path / "run", 1.0, 622)
    assert lines(run) == 100_000
    assert peak_bytes(["report", str(run)]) < MOST_BYTES
    assert json.loads((run / "run.json").read_text())["id"] == "run"
    assert (run / "table.csv").read_text().count(",ok,") == len(cells())


def lines(run: Path) -> int:
    """Of its records."""
    return (run / "records.jsonl").read_bytes().count(b"\n")


def peak_bytes(arguments: list[str]) -> int:
    """Of the command's own process."""
    process = subprocess.Popen([sys.executable, "-m", "attnbench", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    # it has been waited for already
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024
