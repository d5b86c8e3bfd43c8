"""Kills at random moments, of whichever process: a short storm; the program itself may be given two hundred."""

import subprocess
import sys
from pathlib import Path

import pytest

STORM = Path(__file__).with_name("random_kills.py")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_runs_that_are_killed_at_random_moments_and_resumed_end_whole(tmp_path: Path) -> None:
    """Parent killed with -9, server killed, child killed: while methods are asked, torch is imported, cells are measured."""
    done = subprocess.run([sys.executable, str(STORM), str(tmp_path), "15", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 kills" in done.stdout.splitlines()[-1]
