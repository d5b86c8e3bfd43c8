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

METHODS = tuple(f"made.up_{i}" for i in range(25))
LENGTHS = tuple(2**i for i in range(9, 14))
REPLICATES = 100
MOST_BYTES = 2**30
"""Of a process that reads them."""


def cells() -> list[Cell]:
    """250."""
    workloads = (Workload.FORWARD, Workload.FORWARD_BACKWARD)
    return [Cell(method=m, problem=Problem(N=N), workload=w) for N in LENGTHS for w in workloads for m in METHODS]


def written(folder: Path, slower: float) -> Path:
    """A run of 50,000 records as workers write them: fifty samples, thirty facts, ten counters each."""
    folder.mkdir()
    facts: dict[str, Scalar | None] = {f"fact_{i}": i * 1.5 for i in range(30)}
    memory = {f"counter_{i}": Counter(bytes=None, source="none", reason="not read on a CPU") for i in range(10)}
    memory["host_rss_peak"] = Counter(bytes=2**26, source="VmHWM")
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
        for cell in cells():
            for phase in (Pass.TIME, Pass.MEMORY):
                values = tuple(slower * (1e-3 + 1e-6 * ((i * 7919) % 50)) for i in range(50))
                samples = {"time": Series(unit="s", values=values)} if phase is Pass.TIME else {}
                outcome = Measured(samples=samples, facts=facts, memory=memory if phase is Pass.MEMORY else {})
                line = Record(job=Job(cell=cell, phase=phase), outcome=outcome, environment="e", started="x").line()
                file.writelines(line.replace('"replicate":0', f'"replicate":{r}') + "\n" for r in range(REPLICATES))
    return folder


@pytest.mark.slow
def test_a_hundred_thousand_records_are_compared_and_reported_within_a_gibibyte(tmp_path: Path) -> None:
    runs = [written(tmp_path / name, slower) for name, slower in (("old", 1.0), ("new", 1.1))]
    assert sum(len((run / "records.jsonl").read_bytes().splitlines()) for run in runs) == 100_000
    for arguments in (["compare", *map(str, runs), "--out", str(tmp_path / "c.csv")], ["report", str(runs[0])]):
        assert peak_bytes(arguments) < MOST_BYTES
    assert (tmp_path / "c.csv").read_text().count("SLOWER") == len(cells())
    assert json.loads((runs[0] / "run.json").read_text())["id"] == "old"


def peak_bytes(arguments: list[str]) -> int:
    """Of the command's own process."""
    process = subprocess.Popen([sys.executable, "-m", "attnbench", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    # it has been waited for already
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024
