"""`attnbench selfcheck` in real processes: what cannot be measured is told, and a real slow-down is found."""

import json
from pathlib import Path

import pytest

from attnbench.schema.errand import Pass
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]


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
