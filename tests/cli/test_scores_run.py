"""Runs of fidelity, of numerics and of cheats, for real: planned, checked, measured and reported."""

import pandas as pd
import pytest

from tests.cli.conftest import Find, Run, Write

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
# what is measured, and what of it is shown, is also tested without a process for each cell: tests/workloads, tests/report
pytestmark = pytest.mark.slow


def test_fidelity_is_measured_and_reported_with_failures_as_rows(here: Run, suite: Write, only_run: Find) -> None:
    done = here("run", suite(SUITE.replace("fidelity, forward", "fidelity").replace("[1, max]", "1")))
    assert done.returncode == 0, done.stderr
    folder, said = only_run(), done.stdout
    table = pd.read_csv(folder / "table.csv").set_index(["method", "params", "N"]).sort_index()
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
    assert "output error, mean of replicates" in " ".join(said.split())
    assert {file.name for file in (folder / "fidelity").iterdir()} == {
        f"fidelity.{form}" for form in ("png", "svg", "pdf", "txt")
    }


def test_a_plan_says_what_fidelity_is_not_measured_of(here: Run, suite: Write) -> None:
    done = here("plan", suite(SUITE))
    assert done.returncode == 0, done.stderr
    assert "fidelity needs a batch that is stated" in done.stdout


DIGITS = """
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


def test_numerics_are_measured_and_reported_with_failures_as_rows(here: Run, suite: Write, only_run: Find) -> None:
    done = here("run", suite(DIGITS))
    assert done.returncode == 0, done.stderr
    assert "rounding, mean of replicates" in " ".join(done.stdout.split())
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


CHEATS = """
name: cheats
axes: {N: 1024, H: 2, D: 16, causal: true}
methods: ["plain:Plain", softmax.sdpa, "cheats:ReplaysByPointer", "cheats:InHalfPrecision", "cheats:ForgesSamples"]
budget: {seconds: 1, timeout: 20}
replicates: 1
"""


def test_cheats_are_shown_and_neither_ranked_nor_named_in_the_sentence_of_result(
    roofed: Run, suite: Write, only_run: Find
) -> None:
    done = roofed("run", suite(CHEATS))
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(only_run() / "table.csv").set_index("method")
    assert table["status"].to_dict() == {
        "plain:Plain": "ok",
        "softmax.sdpa": "ok",
        "cheats:ReplaysByPointer": "impossible",
        "cheats:InHalfPrecision": "incorrect",
        "cheats:ForgesSamples": "unfair",
    }
    cheats = table[table["status"] != "ok"]
    assert cheats["time_s"].isna().all()
    assert cheats["reason"].str.contains("is not ranked|of the .* in which they were taken").all()
    said = " ".join(done.stdout.split())
    assert "cheats:" not in said[: said.index("Speed only")]
    assert "impossible: cheats:ReplaysByPointer at 1k" in said
