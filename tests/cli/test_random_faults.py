"""Kills at random moments, full disks and load: a short storm, a minute beside an undisturbed run; by hand, hours."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("amount", "says"),
    [(("--kills", "15"), "15 kills"), (("--minutes", "2"), "none is told from the undisturbed run")],
    ids=["killed", "killed, full and loaded"],
)
def test_runs_under_random_faults_end_whole_and_with_the_numbers_of_undisturbed_ones(
    amount: tuple[str, str], says: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.cli.random_faults", str(tmp_path), "1", *amount]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout.splitlines()[-1]
