"""A hundred thousand records: read one by one, and never all in memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Written = Callable[[Path, float, int], Path]

CELLS = 160
MOST_BYTES = 2**30
"""Of a process that reads them."""


@pytest.mark.slow
def test_a_hundred_thousand_records_are_compared_within_a_gibibyte(tmp_path: Path, written: Written) -> None:
    runs = [written(tmp_path / name, slower, 310) for name, slower in (("old", 1.0), ("new", 1.1))]
    assert sum(map(lines, runs)) > 100_000
    assert peak_bytes(["compare", *map(str, runs), "--out", str(tmp_path / "c.csv")]) < MOST_BYTES
    assert (tmp_path / "c.csv").read_text().count("SLOWER") == CELLS


@pytest.mark.slow
def test_a_hundred_thousand_records_are_reported_within_a_gibibyte(tmp_path: Path, written: Written) -> None:
    run = written(tmp_path / "run", 1.0, 622)
    assert lines(run) == 100_000
    assert peak_bytes(["report", str(run)]) < MOST_BYTES
    assert json.loads((run / "run.json").read_text())["id"] == "run"
    assert (run / "table.csv").read_text().count(",ok,") == CELLS


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
