"""A run to store, records that can be told apart by their note, and other processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Surroundings
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.store.run_folder import RunFolder

Numbered = Callable[[int], Record]
Start = Callable[..., tuple[subprocess.Popen[str], str]]


def refusing(number: int) -> Callable[..., int]:
    """What a system call does that fails."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.fixture
def run_info() -> RunInfo:
    """The smallest run."""
    suite = Suite.model_validate({"name": "s", "axes": {"N": [8]}, "methods": ["m"]}, strict=False)
    here = Surroundings(device="cpu", facts={}, memory_bytes=1, roof={})
    about = {"id": "i", "command": "c", "started": "t", "environment": {}, "environment_digest": "d"}
    return RunInfo(**about, suite=suite, surroundings=here, methods={}, cells=())  # type: ignore[arg-type]


@pytest.fixture
def numbered() -> Numbered:
    """A record with a number in its note, and letters of two, three and four bytes in its reason."""

    def _record(number: int) -> Record:
        failed = Failed(status=Status.ERROR, reason="3 µs ≤ 𝜏")
        job = Job(cell=Cell(method="m", problem=Problem(N=8)))
        return Record(job=job, outcome=failed, environment="d", started="t", note=str(number))

    return _record


@pytest.fixture
def cache(place: None, tmp_path: Path) -> Path:
    """A cache folder of its own."""
    return tmp_path / "cache" / "attnbench"


@pytest.fixture
def folder(tmp_path: Path, run_info: RunInfo) -> RunFolder:
    """A new run folder without records."""
    return RunFolder.create(tmp_path / "results", run_info)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program and wait for its first line; the process, which is killed at the end, and the line."""
    with ExitStack() as stack:

        def _start(code: str, *words: str) -> tuple[subprocess.Popen[str], str]:
            command = [sys.executable, "-c", code, *words]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, process.stdout.readline().rstrip()

        yield _start
