"""A run under kills, full disks and load has the numbers of an undisturbed one: a minute of it, or by hand an hour."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_under_random_faults_has_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cli.hour_of_faults", str(tmp_path), "1", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none is told from the undisturbed run" in done.stdout.splitlines()[-1]
