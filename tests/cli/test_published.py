"""`attnbench published`: one page of what others printed and what runs came to; the page of the documentation is its output."""

import io
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.problem import Problem
from attnbench.suite.expand import expand
from attnbench.suite.load import load
from tests.cli.conftest import InfoOf, Run, Stored, as_record, fine, keep, times

ROOT = Path(__file__).parents[2]
PROBLEMS = [Problem(N=N, causal=True) for N in (512, 1024, 2048)]
METHODS = ("softmax.naive", "linear.chunked")
CELLS = [Cell(method=m, problem=p, workload=Workload.FORWARD_BACKWARD) for m in METHODS for p in PROBLEMS]
LOADED = cache(load)


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All suites that ship take most of a second to read, and stay as they are."""
    monkeypatch.setattr("attnbench.library.reading.load", LOADED)


@pytest.fixture
def write(info_of: InfoOf, tmp_path: Path) -> Stored:
    """Write a run of `transformers_are_rnns` in which softmax's time grows as N^slope."""
    shipped = LOADED("transformers_are_rnns").suite

    def _write(name: str, day: int, slope: float = 2.0, ran: int | None = None, **run: Any) -> Path:
        run = {"command": "attnbench run transformers_are_rnns", "cells": CELLS, "suite": shipped, **run}
        started = {"id": f"202601{day:02}-030405-abcdef", "started": f"2026-01-{day:02}T03:04:05+00:00"}
        facts = {"processor": "AMD EPYC 9B14", "cores": 2}
        suite = run["suite"].model_dump(mode="json")
        info = info_of(run["cells"], suite, command=run["command"], environment=facts, **started)
        records = []
        for cell in run["cells"][:ran]:
            seconds = 1e-6 * cell.problem.N ** (slope if cell.method == "softmax.naive" else 1.0)
            records += [as_record(cell, times(seconds * (1 + 0.001 * replicate)), replicate) for replicate in range(3)]
        return keep(tmp_path / "runs" / name, info, records)

    return _write


def test_the_page_of_the_documentation_is_up_to_date(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = fine(run("published", "results/reference"))
    # to renew it: attnbench published results/reference --out docs/published.md
    assert done.stdout == (ROOT / "docs/published.md").read_text(encoding="utf-8")


def test_of_several_runs_the_newest_of_many_cells_counts(write: Stored, run: Run, tmp_path: Path) -> None:
    write("old", 1, slope=3.0)
    write("deep/new", 3)
    write("limits", 4, slope=5.0, command="attnbench maxlen transformers_are_rnns")
    write("rerun", 5, slope=3.0, command="attnbench rerun results/many softmax.naive", cells=CELLS[:1])
    # all were planned, and it was interrupted after the first
    write("begun", 6, slope=3.0, ran=1)
    page = run("published", str(tmp_path / "runs")).stdout
    assert "run 20260103-030405-abcdef." in page
    assert page.count("-030405-abcdef") == 1
    (line,) = [line for line in page.split("\n") if "softmax's time grows as N^2" in line and line.startswith("|")]
    assert "N^2.00" in line
    assert "reproduced (1.8 to 2.2)" in line


def test_a_run_of_the_whole_suite_goes_before_newer_and_larger_ones(write: Stored, run: Run, tmp_path: Path) -> None:
    suite = LOADED("transformers_are_rnns").suite.resolved("cpu")
    cells = expand(suite)
    more = (*cells, *(cell.reshaped(H=16, kv_heads=16) for cell in cells))
    write("old", 1, cells=cells, suite=suite)
    write("whole", 2, cells=cells, suite=suite)
    write("lacks", 3, cells=cells[1:], suite=suite)
    larger = suite.model_copy(update={"axes": suite.axes.model_copy(update={"H": (8, 16)})})
    write("larger", 4, cells=more, suite=larger)
    assert "run 20260102-030405-abcdef." in run("published", str(tmp_path / "runs")).stdout


def test_a_page_is_of_what_can_be_read(write: Stored, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("good", 1)
    (tmp_path / "runs/bad").mkdir()
    (tmp_path / "runs/bad/run.json").write_text("{")
    (write("cut", 2) / "records.jsonl").rename(tmp_path / "runs/cut/records.jsonl.gz")
    out = tmp_path / "new/page.md"
    done = run("published", str(tmp_path / "runs"), "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert done.stderr.count("left out: ") == 2
    page = out.read_text(encoding="utf-8")
    assert page.startswith("# Published and reproduced\n")
    assert "run 20260101-030405-abcdef." in page
    # without a run, and on a terminal that is not UTF-8
    taken = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, encoding="ascii"))
    fine(run("published"))
    printed = taken.getvalue().decode("ascii")
    assert "| slope 2 |" in " ".join(printed.split())
    (line,) = [line for line in printed.split("\n") if line.startswith("| all ")]
    figures, *others = (cell.strip() for cell in line.split("|")[2:-1])
    assert others == ["0", "0", "0", figures, "0"]
