"""A run under kills, full disks and load has the numbers of an undisturbed one: a minute of it, or by hand an hour."""

import subprocess
import sys
from pathlib import Path

import pytest

HOUR = Path(__file__).with_name("hour_of_faults.py")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_under_random_faults_has_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(HOUR), str(tmp_path), "1", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none is told from the undisturbed run" in done.stdout.splitlines()[-1]
