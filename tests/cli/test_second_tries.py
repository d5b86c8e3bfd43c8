"""What chance ends is tried again, for real: a stray kill, one slow call."""

from collections import Counter
from pathlib import Path

import pytest

from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Run, Write

SUITE = """
name: s
axes: {N: 64, H: 1, D: 8}
methods: ["unlucky:Unlucky"]
budget: {seconds: 0.1, timeout: 60}
replicates: 2
report: {tables: [summary], plots: []}
"""
UNLUCKY = """
import os
import signal
import time
from pathlib import Path

from plain import Plain

CALLS = Path(__file__).with_name("calls")


class Unlucky(Plain):
    seen = False

    def forward(self, q, k, v):
        if not Unlucky.seen:
            Unlucky.seen = True
            with CALLS.open("a") as calls:
                calls.write("x")
            if CALLS.stat().st_size == {killed}:
                os.kill(os.getpid(), signal.SIGKILL)
        elif {slow} and q.shape[0] > 1 and not CALLS.with_name("slept").exists():
            CALLS.with_name("slept").touch()
            time.sleep(0.3)
        return super().forward(q, k, v)
"""


def of(tmp_path: Path) -> RunFolder:
    (folder,) = (tmp_path / "results" / "s").iterdir()
    return RunFolder(folder)


@pytest.mark.slow
@pytest.mark.parametrize("killed", range(1, 6))
def test_whatever_process_a_stray_kill_ends_its_job_is_done_by_another(
    attnbench: Run, suite: Write, tmp_path: Path, killed: int
) -> None:
    (tmp_path / "unlucky.py").write_text(UNLUCKY.format(killed=killed, slow=False))
    done = attnbench("run", suite(SUITE))
    assert done.returncode == 0, done.stderr
    records = of(tmp_path).records()
    (lost,) = (record for record in records if not record.ok)
    assert isinstance(lost.outcome, Failed)
    assert (lost.outcome.status, lost.job.attempt) == (Status.CRASHED, 0)
    good = Counter(record.job.phase for record in records if record.ok)
    assert (good[Pass.TIME], good[Pass.MEMORY]) == (2, 1)
    assert (lost.job.phase, lost.job.cell.key, 1) in {(r.job.phase, r.job.cell.key, r.job.attempt) for r in records if r.ok}


@pytest.mark.slow
def test_two_stray_kills_while_a_method_is_asked_leave_it_in_the_run(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    dies = """if not (CALLS.exists() and CALLS.stat().st_size > 1):
    CALLS.open("a").write("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "unlucky.py").write_text(UNLUCKY.format(killed=0, slow=False) + dies)
    done = attnbench("run", suite(SUITE), "--replicates", "1")
    assert done.returncode == 0, done.stderr
    assert all(record.ok for record in of(tmp_path).records())


@pytest.mark.slow
def test_one_slow_call_puts_no_cell_over_its_budget(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    (tmp_path / "unlucky.py").write_text(UNLUCKY.format(killed=0, slow=True))
    done = attnbench("run", suite(SUITE.replace("N: 64", "N: 64, B: 2")))
    assert done.returncode == 0, done.stderr
    assert all(record.ok for record in of(tmp_path).records())
    assert (tmp_path / "slept").exists()
