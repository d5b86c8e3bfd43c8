"""Another run measures on the device: every command that measures waits and says for whom, or is told to leave at once."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.cli.terminal import BUSY
from tests.cli.conftest import Run, Start, Write, committed

Measuring = Callable[..., subprocess.Popen[bytes]]

SUITE = """
name: s
axes: {N: [64, 128], H: 1, D: 8}
methods: ["plain:Plain", "lengths:Level"]
budget: {seconds: 0.05}
replicates: 1
report: {plots: []}
"""
COMMANDS = {
    "run": ("run", "s.yaml"),
    "doctor": ("doctor",),
    "check": ("check", "plain:Plain", "--N", "64"),
    "selfcheck": ("selfcheck", "--method", "plain:Plain", "--verdicts", "1", "--replicates", "2"),
    "maxlen": ("maxlen", "s.yaml", "--method", "plain:Plain", "--limit", "256"),
    "crossover": ("crossover", "s.yaml", "--measure", "--of", "plain:Plain", "--over", "lengths:Level"),
    "gate": ("gate", "s.yaml", "--base", "HEAD"),
    "compare": ("compare", "--live", "HEAD", "--suite", "s.yaml"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_whoever_does_not_want_to_wait_leaves_at_once_with_a_code_of_its_own(
    name: str, here: Run, suite: Write, measuring: Measuring, tmp_path: Path
) -> None:
    suite(SUITE)
    committed(tmp_path, "a suite")
    other = measuring()
    done = here(*COMMANDS[name], "--no-wait")
    assert done.returncode == BUSY, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: process {other.pid} (attnbench; since 20")
    assert not (tmp_path / "results").exists(), "nothing was begun"


@pytest.mark.slow
def test_a_run_that_waits_says_for_whom_and_goes_on_once_the_other_is_gone(
    start: Start, suite: Write, measuring: Measuring, tmp_path: Path
) -> None:
    other = measuring()
    process = start("run", suite(SUITE), TMPDIR=str(tmp_path))
    assert process.stderr is not None
    said = next(line for line in process.stderr if line.startswith("waiting for "))
    assert said.startswith(f"waiting for process {other.pid} (attnbench; since 20")
    other.kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
