"""A run that decodes, for real: the largest batch is searched for, killed, gone on with, and ends in states and plots."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from attnbench.schema.errand import Pass
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, wait_for_records

SUITE = """
name: tokens
axes: {N: [8, 16], B: [1, max], H: 2, D: 16, causal: true}
workloads: [decode, decode_total]
methods: ["tokens:Roomy", {name: "tokens:Forgetful", when: N == 8}, {name: "plain:Plain", when: N == 8}]
budget: {seconds: 0.2, timeout: 20}
replicates: 1
report: {tables: [summary, state], plots: [time, state]}
"""
TRIALS = [1, 4, 16, 10, 7, 5, 6]


def trials(folder: Path) -> Counter[tuple[str, int]]:
    """What was tried in search of the largest batch, by cell."""
    jobs = [record.job for record in RunFolder(folder).records()]
    return Counter((job.cell.key, job.B or 0) for job in jobs if job.phase is Pass.FIT)


@pytest.fixture
def run(start: Start, attnbench: Run, suite: Write, only_run: Find) -> tuple[Path, str]:
    """The folder and the output of a run that was killed in a search and went on."""
    process = start("run", suite(SUITE))
    wait_for_records(only_run, 3, lambda record: record.job.phase is Pass.FIT)
    process.kill()
    process.communicate()
    assert sum(trials(only_run()).values()) < 4 * len(TRIALS)
    done = attnbench("run", "--resume", str(only_run()))
    assert done.returncode == 0, done.stderr
    return only_run(), done.stdout


@pytest.mark.slow
def test_a_run_killed_in_a_search_goes_on_and_ends_with_rows_states_and_plots(run: tuple[Path, str]) -> None:
    folder, said = run
    assert set(trials(folder).values()) == {1}, "no trial is made twice"
    assert Counter(B for _, B in trials(folder)) == dict.fromkeys(TRIALS, 4)

    table = pd.read_csv(folder / "table.csv")
    mine = table[table["method"] == "tokens:Roomy"]
    assert set(zip(mine["batch"], mine["B"], mine["status"], strict=True)) == {("fixed", 1, "ok"), ("largest", 6, "ok")}
    assert set(mine[mine["batch"] == "largest"]["batch_bound"]) == {"oom_host"}
    state = mine[(mine["workload"] == "decode") & (mine["N"] == 16)].set_index("B")["state_bytes_of_batch"]
    assert state.to_dict() == {B: B * 4 * 2 * 2 * 15 * 16 for B in (1, 6)}
    others = table[table["method"] != "tokens:Roomy"].groupby("method")["status"].agg(set).to_dict()
    assert others == {"tokens:Forgetful": {"incorrect"}, "plain:Plain": {"unsupported"}}

    assert "decode, causal, float32, largest B that fits" in said
    assert "time per token, median of replicates; time per sequence, median of replicates" in " ".join(said.split())
    assert "State of one sequence: decode_total, causal, float32, B=1" in (folder / "table.md").read_text(encoding="utf-8")
    for workload in ("decode", "decode_total"):
        assert {file.name for file in (folder / workload).glob("*.png")} == {"time.png", "state.png"}
