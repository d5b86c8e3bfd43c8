"""`attnbench selfcheck` in real processes: interrupted, gone on with, and a real slow-down found."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from attnbench.schema.errand import Pass
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, wait_for_records

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]


def is_timed(record: Record) -> bool:
    return record.job.phase is Pass.TIME and record.ok


def test_one_that_was_interrupted_goes_on_and_is_reported(start: Start, attnbench: Run, only_run: Find) -> None:
    words = ("--method", "plain:Plain", "--N", "96", "--replicates", "2", "--seconds", "0.05", "--verdicts", "3")
    process = start("selfcheck", *words)
    wait_for_records(only_run, 2, is_timed)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    folder = only_run()
    assert f"attnbench selfcheck --resume {folder.relative_to(folder.parents[2])}" in err

    done = attnbench("selfcheck", "--resume", str(folder))
    assert done.returncode == 0, done.stderr
    plan = RunFolder(folder).plan()
    timed = filter(is_timed, RunFolder(folder).records())
    assert Counter(record.job.replicate for record in timed) == dict.fromkeys(range(plan.processes), 1)
    assert "3 verdicts x 2 sides x 2 processes" in " ".join(done.stdout.split())
    # other commands read it as a run of one cell with very many replicates
    assert attnbench("report", str(folder)).returncode == 0


def test_methods_that_cannot_be_measured_are_told(here: Run, only_run: Find, tmp_path: Path) -> None:
    refused = here("selfcheck", "--method", "linear.chunked")
    assert refused.returncode == 2
    assert "--method linear.chunked: unsupported: it is causal only" in refused.stderr
    broken = here("selfcheck", "--method", "import_raises:Method")
    assert broken.returncode == 2
    assert "--method import_raises:Method: error:" in broken.stderr
    assert not (tmp_path / "results").exists()

    failing = here("selfcheck", "--method", "faulty:Raises", "--N", "96", "--verdicts", "20")
    assert failing.returncode == 1
    assert "error: nothing gave a time: error:" in failing.stderr
    assert len([r for r in RunFolder(only_run()).records() if r.job.phase is Pass.TIME]) == 1
    assert "Traceback" not in refused.stderr + broken.stderr + failing.stderr


def test_a_slow_down_made_on_purpose_is_found_and_has_its_size(attnbench: Run, only_run: Find) -> None:
    words = ("--N", "256", "--replicates", "5", "--seconds", "0.1", "--verdicts", "10", "--inject", "100%")
    done = attnbench("selfcheck", *words)
    assert done.returncode == 0, done.stderr
    data = json.loads((only_run() / "selfcheck.json").read_text())
    # however loud the machine is
    assert data["overall"]["low"] * 0.8 < 2.0 < data["overall"]["high"] * 1.25
    assert data["paired"][-1]["faster"]["hits"] == 0
