"""Running the real command in a real process, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(plugins: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `attnbench …`; its output is captured, its folder is tmp_path."""

    def _start(*arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "attnbench", *arguments],
            cwd=tmp_path,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    return _start


@pytest.fixture
def attnbench(start: Callable[..., subprocess.Popen[str]]) -> Run:
    """Run `attnbench …` to its end."""

    def _run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = start(*arguments, **env)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return _run


@pytest.fixture
def suite(tmp_path: Path) -> Callable[[str], str]:
    """Write a suite file; gives its name."""

    def _write(text: str) -> str:
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        return "s.yaml"

    return _write


@pytest.fixture
def only_run(tmp_path: Path) -> Callable[[], Path]:
    """The one run folder there is."""

    def _find() -> Path:
        (folder,) = (tmp_path / "results").glob("*/*")
        return folder

    return _find


def records(folder: Path) -> list[Record]:
    """All records of a run folder."""
    return RunFolder(folder).records()
