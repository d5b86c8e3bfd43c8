"""A run of numerics, for real: planned, checked, measured and reported."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str], str]

SUITE = """
name: digits
axes: {N: 64, B: 2, H: 2, D: 8, dtype: [float32, bfloat16], causal: true}
workloads: [numerics]
methods:
  - plain:Plain
  - faulty:WrongValues
  - linear.full
  - linear.chunked
budget: {seconds: 0.1, timeout: 60}
replicates: 1
report: {tables: [summary, numerics], plots: [numerics]}
"""


def test_numerics_are_measured_and_reported_with_failures_as_rows(
    attnbench: Run, suite: Write, only_run: Callable[[], Path]
) -> None:
    done = attnbench("run", suite(SUITE))
    assert done.returncode == 0, done.stderr
    assert "numerics is the error of a row against its definition in float64" in " ".join(done.stdout.split())
    table = pd.read_csv(only_run() / "table.csv").set_index(["method", "dtype"]).sort_index()
    assert table["status"].groupby("method").agg(set).to_dict() == {
        # a thousandth is less than bfloat16 rounds
        "faulty:WrongValues": {"incorrect", "ok"},
        "linear.full": {"unsupported"},
        "linear.chunked": {"ok"},
        "plain:Plain": {"ok"},
    }
    for method in ("linear.chunked", "plain:Plain"):
        few, many = table["rounding"].to_dict()[method, "bfloat16"], table["rounding"].to_dict()[method, "float32"]
        assert 0 < many < 1e-6 < 1e-4 < few < 0.02
    assert {file.name for file in (only_run() / "numerics").iterdir()} == {
        f"numerics.{form}" for form in ("png", "svg", "pdf", "txt")
    }
