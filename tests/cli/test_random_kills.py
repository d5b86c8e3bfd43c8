"""Kills at random moments, full disks and load: a short storm, a minute beside an undisturbed run; by hand, hours."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORM = Path(__file__).with_name("random_kills.py")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_runs_that_are_killed_at_random_moments_and_resumed_end_whole(tmp_path: Path) -> None:
    """Parent killed with -9, server killed, child killed: while methods are asked, torch is imported, cells are measured."""
    done = subprocess.run([sys.executable, str(STORM), str(tmp_path), "15", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 kills" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_a_run_under_random_faults_has_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cli.hour_of_faults", str(tmp_path), "2", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none is told from the undisturbed run" in done.stdout.splitlines()[-1]
