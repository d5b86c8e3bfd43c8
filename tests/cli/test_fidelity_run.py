"""A run of fidelity, for real: planned, checked, measured, gone on with, and reported."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from attnbench.schema.errand import Pass
from attnbench.store.run_folder import RunFolder

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str], str]

SUITE = """
name: kept
axes: {N: [64, 128], B: [1, max], H: 2, D: 16, causal: true}
workloads: [fidelity, forward]
methods:
  - plain:Plain
  - faulty:WrongValues
  - linear.full
  - {name: lsh.reformer_pytorch, params: {bucket_size: 8, rounds: [1, 4]}}
budget: {seconds: 0.2, timeout: 60}
replicates: 2
report: {tables: [summary, fidelity], plots: [fidelity]}
"""
METHODS = SUITE[SUITE.index("  - linear.full") : SUITE.index("budget")]
ONLY = SUITE.replace("fidelity, forward", "fidelity").replace("[1, max]", "1")


def passes(folder: Path) -> Counter[Pass]:
    return Counter(record.job.phase for record in RunFolder(folder).records())


def test_fidelity_is_measured_and_reported_with_failures_as_rows(
    attnbench: Run, suite: Write, only_run: Callable[[], Path]
) -> None:
    done = attnbench("run", suite(ONLY))
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(only_run() / "table.csv").set_index(["method", "params", "N"]).sort_index()
    assert table["status"].groupby("method").agg(set).to_dict() == {
        "faulty:WrongValues": {"incorrect"},
        "linear.full": {"unsupported"},
        "lsh.reformer_pytorch": {"ok"},
        "plain:Plain": {"ok"},
    }
    plain = table.loc["plain:Plain"]
    assert plain["mass_recall"].tolist() == pytest.approx([1, 1])
    assert (plain["output_error"] < 1e-5).all()
    hashing = table.loc["lsh.reformer_pytorch"]["mass_recall"].unstack()
    assert (hashing.loc["bucket_size=8 rounds=1"] < hashing.loc["bucket_size=8 rounds=4"]).all()
    assert "fidelity is the output's error" in " ".join(done.stdout.split())
    assert {file.name for file in (only_run() / "fidelity").iterdir()} == {
        f"fidelity.{form}" for form in ("png", "svg", "pdf", "txt")
    }


def test_a_run_of_fidelity_goes_on_with_what_it_lacks(attnbench: Run, suite: Write, only_run: Callable[[], Path]) -> None:
    attnbench("run", suite(ONLY.replace(METHODS, "")))
    whole, file = passes(only_run()), only_run() / "records.jsonl"
    assert whole == {Pass.CHECK: 2 + 1, Pass.FIDELITY: 2 * 2 + 2}, (
        "one is checked and measured at two lengths; the other is wrong, and once is enough"
    )
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-2]))
    done = attnbench("run", "--resume", str(only_run()))
    assert done.returncode == 0, done.stderr
    assert passes(only_run())[Pass.FIDELITY] == whole[Pass.FIDELITY]


def test_a_plan_says_what_fidelity_is_not_measured_of(attnbench: Run, suite: Write) -> None:
    done = attnbench("plan", suite(SUITE))
    assert done.returncode == 0, done.stderr
    assert "fidelity needs a batch that is stated" in done.stdout
