"""Synthetic runs as exports take them, and histories of such runs."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from attnbench.report.exports.exchange import Export, Source
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Measured, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from tests.cli.conftest import keep
from tests.report.conftest import Law, Synthetic

Tool = Callable[..., subprocess.CompletedProcess[str]]


def commit_of(day: int) -> str:
    """The commit that runs of a day are of."""
    return hashlib.sha1(str(day).encode()).hexdigest()


def run_of(made: Synthetic, day: int = 1, commit: str | None = None) -> RunInfo:
    git = {"commit": commit or commit_of(day), "dirty": False}
    own = {"id": f"202601{day:02}-030405-abcdef", "started": f"2026-01-{day:02}T03:04:05+00:00", "git": git}
    return made.run().model_copy(update=own)


def source_of(
    made: Synthetic,
    day: int = 1,
    commit: str | None = None,
    factor: float = 1.0,
    records: Sequence[Record] | None = None,
    **about: Any,
) -> Source:
    """The run of a day with these records or its own, times being `factor` of what they were; `about` are fields of the run."""
    run = run_of(made, day, commit).model_copy(update=about)
    found = [slower(record, factor) for record in (made.records() if records is None else records)]
    return Source(Findings.of(run, found), found)


def folder_of(path: Path, made: Synthetic, day: int = 1) -> Path:
    """A run folder on the disk."""
    return keep(path, run_of(made, day), made.records())


def slower(record: Record, factor: float) -> Record:
    outcome = record.outcome
    if not isinstance(outcome, Measured) or "time" not in outcome.samples:
        return record
    times = Series(unit="s", values=tuple(value * factor for value in outcome.samples["time"].values))
    return record.model_copy(update={"outcome": outcome.model_copy(update={"samples": {**outcome.samples, "time": times}})})


def content(export: Export) -> Any:
    """Read the JSON of an export of one file."""
    (text,) = export.files.values()
    return json.loads(text)


def write(export: Export, folder: Path) -> None:
    for name, each in export.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(each)


@pytest.fixture
def tiny() -> Synthetic:
    """Two methods at two lengths; the first one runs out of memory at the second."""
    laws = (
        Law("softmax.naive", 9e-3, 2.0, stop_at=1024, reason="memory limit of 17.2 GB reached"),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}),
    )
    return Synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,), replicates=2)


@pytest.fixture
def hopeless() -> Synthetic:
    """No cell has a time."""
    laws = (Law("softmax.naive", 1.0, 2.0, stop_at=1, status=Status.CRASHED, reason="killed by signal 11"),)
    return Synthetic(laws, lengths=(512,), workloads=(Workload.FORWARD,), causal=(True,))


@pytest.fixture(params=["small", "hostile"])
def either(request: pytest.FixtureRequest) -> Synthetic:
    """A small run, and one whose names are hostile."""
    made: Synthetic = request.getfixturevalue(request.param)
    return made


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Run a command of a package in a virtual environment of its own, which is made once for each package."""
    made: dict[str, Path] = {}

    def _run(package: str, command: str, *words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        if package not in made:
            folder = tmp_path_factory.mktemp("tool")
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin" / "pip"), "install", "-q", package], check=True)
            made[package] = folder / "bin"
        called = [str(made[package] / command), *words]
        done = subprocess.run(called, cwd=cwd, env=env or None, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return _run
