"""Synthetic runs as exports take them, and histories of such runs."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.report.exports.exchange import Source
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Measured, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic


@dataclass(frozen=True)
class Maker:
    """Runs of one suite on different days, each of a commit of its own."""

    def commit(self, day: int) -> str:
        return hashlib.sha1(str(day).encode()).hexdigest()

    def run(self, made: "Synthetic", day: int = 1, commit: str | None = None) -> RunInfo:
        git = {"commit": commit or self.commit(day), "dirty": False}
        return made.run().model_copy(
            update={"id": f"202601{day:02}-030405-abcdef", "started": f"2026-01-{day:02}T03:04:05+00:00", "git": git}
        )

    def source(self, made: "Synthetic", day: int = 1, commit: str | None = None, factor: float = 1.0) -> Source:
        """With times that are `factor` of the usual ones."""
        run, records = self.run(made, day, commit), [_slower(record, factor) for record in made.records()]
        return Source(Findings.of(run, records), records)

    def folder(self, path: Path, made: "Synthetic", day: int = 1, commit: str | None = None) -> Path:
        """A run folder on the disk."""
        path.mkdir(parents=True)
        (path / "run.json").write_text(self.run(made, day, commit).model_dump_json(), encoding="utf-8")
        (path / "records.jsonl").write_text("".join(f"{record.line()}\n" for record in made.records()), encoding="utf-8")
        return path


def _slower(record: Record, factor: float) -> Record:
    outcome = record.outcome
    if not isinstance(outcome, Measured) or "time" not in outcome.samples:
        return record
    times = Series(unit="s", values=tuple(value * factor for value in outcome.samples["time"].values))
    return record.model_copy(update={"outcome": outcome.model_copy(update={"samples": {**outcome.samples, "time": times}})})


@pytest.fixture
def maker() -> Maker:
    """Runs and histories."""
    return Maker()


@pytest.fixture
def tiny(synthetic: "type[Synthetic]", law: "type[Law]") -> "Synthetic":
    """Two methods at two lengths; the first one runs out of memory at the second."""
    laws = (
        law("softmax.naive", 9e-3, 2.0, stop_at=1024, reason="memory limit of 17.2 GB reached"),
        law("linear.chunked", 2e-3, 1.0, {"chunk": 64}),
    )
    return synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,), replicates=2)


@pytest.fixture
def hopeless(synthetic: "type[Synthetic]", law: "type[Law]") -> "Synthetic":
    """No cell has a time."""
    laws = (law("softmax.naive", 1.0, 2.0, stop_at=1, status=Status.CRASHED, reason="killed by signal 11"),)
    return synthetic(laws, lengths=(512,), workloads=(Workload.FORWARD,), causal=(True,))


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Packages in a virtual environment of their own, by its folder; made once for each set of packages."""
    made: dict[tuple[str, ...], Path] = {}

    def _make(*packages: str) -> Path:
        if packages not in made:
            folder = tmp_path_factory.mktemp("tool")
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *packages], check=True)
            made[packages] = folder
        return made[packages]

    return _make
