"""`attnbench crossover` and `attnbench maxlen`: what they say of stored runs, and that they measure what is lacking."""

import math
import re
import signal
from pathlib import Path

import pandas as pd
import pytest

from attnbench.library.maxlen import for_limits
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Pass
from attnbench.schema.suite import Suite
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, fine, keep, wait_for_records
from tests.report.conftest import Law, Synthetic


def test_a_stored_run_says_where_methods_meet_in_words_tables_and_pictures(tmp_path: Path, command: Run) -> None:
    # they meet at 1,365 tokens
    laws = (Law("softmax.sdpa", 3e-3, 2.0, stop_at=4096, reason="there is no room"), Law("linear.chunked", 4e-3, 1.0))
    made = Synthetic(laws, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,), replicates=5)
    run = keep(tmp_path / "run", made.run(), made.records())
    outs = [tmp_path / "out" / f"c.{form}" for form in ("md", "tex", "csv", "svg")]
    done = fine(command("crossover", run, *(word for out in outs for word in ("--out", out))))
    said = " ".join(done.stdout.split())
    assert "] on, linear.chunked is faster than softmax.sdpa, forward, causal, float32" in said
    assert "at N = 4,096 linear.chunked runs and softmax.sdpa does not (OOM)" in said
    assert all(out.stat().st_size > 100 for out in outs)
    row = pd.read_csv(outs[2]).iloc[0]
    assert row["N"] == pytest.approx(1365, rel=0.05)
    assert row["N_low"] < row["N"] < row["N_high"]
    assert "4096 oom_host: there is no room" in row["over_without_figure"]


MEETING = """
name: mine
axes: {N: [128, 1024], H: 1, D: 8, causal: true}
methods: ["lengths:Steep", "lengths:Level", "plain:Plain"]
budget: {seconds: 1, timeout: 60}
replicates: 9
"""
MEASURE = ("--of", "lengths:Level", "--over", "lengths:Steep", "--measure")


@pytest.mark.slow
def test_where_a_condition_leaves_no_cell_of_the_next_length_the_search_ends(here: Run, suite: Write, only_run: Find) -> None:
    apart = re.sub(r'"(lengths:\w+)"', r'{name: "\1", when: N <= 128 or N >= 1024}', MEETING)
    fine(here("crossover", suite(apart), *MEASURE, "--replicates", "2"))
    assert {cell.problem.N for cell in RunFolder(only_run()).info().cells} == {128, 1024}


@pytest.mark.slow
def test_two_methods_are_measured_and_a_length_is_added_where_they_meet(here: Run, suite: Write, only_run: Find) -> None:
    done = fine(here("crossover", suite(MEETING), *MEASURE, "--replicates", "5", "--out", "c.csv"))
    folder = only_run()
    assert folder.parent.name == "crossover-mine"
    info, records = RunFolder(folder).info(), RunFolder(folder).records()
    assert len(info.suite.axes.N) > 2
    assert {cell.method for cell in info.cells} == {"lengths:Level", "lengths:Steep"}
    timed = {(r.job.cell.key, r.job.replicate) for r in records if r.job.phase is Pass.TIME and r.ok}
    assert timed == {(cell.key, replicate) for cell in info.cells for replicate in range(5)}
    found = pd.read_csv(folder.parents[2] / "c.csv").iloc[0]
    # both wait equally long at 500, and plain attention is small beside that
    assert 400 < found["N"] < 560
    assert math.isfinite(found["N_low"])
    assert "lengths:Level is faster than lengths:Steep" in " ".join(done.stdout.split())
    assert here("crossover", str(folder), *MEASURE[:4]).stdout == done.stdout.split("c.csv")[0]
    fine(here("report", str(folder)))


LONGEST = """
name: mine
axes: {N: [128, 256], tokens: 4096, H: 2, D: 8, causal: true}
methods: ["lengths:Cramped", "lengths:Fragile", "lengths:Declines"]
budget: {seconds: 0.6, timeout: 20}
replicates: 3
"""


def test_the_longest_is_found_and_can_be_read_again(here: Run, suite: Write, only_run: Find, tmp_path: Path) -> None:
    done = fine(here("maxlen", suite(LONGEST), "--impl", "plain:Plain", "--limit", "2^9", "--out", "longest.csv"))
    assert only_run().parent.name == "maxlen-mine"
    table = pd.read_csv(tmp_path / "longest.csv").set_index("method")
    found = table[["N", "status", "ended_by"]].fillna(0).to_dict("index")
    assert {method: tuple(row.values()) for method, row in found.items()} == {
        "lengths:Cramped": (288, "ok", "oom_host"),
        "lengths:Fragile": (400, "ok", "error"),
        "lengths:Declines": (0, "unsupported", "unsupported"),
        "plain:Plain": (512, "ok", "limit"),
    }
    assert set(table["B"]) == {1}, "tokens say nothing of the batch here"
    assert table["memory_bytes"].to_dict()["plain:Plain"] > 0
    for words in (
        "Largest N that fits: forward, causal, float32",
        "memory (OOM at 304)",
        "this is too long",
        "it takes nothing",
    ):
        assert words in done.stdout
    again = fine(here("maxlen", str(only_run()), "--out", "again.md"))
    assert again.stdout.split("again.md")[0].strip() in done.stdout
    assert "lengths:Cramped" in (tmp_path / "again.md").read_text(encoding="utf-8")


def test_an_interrupted_search_keeps_what_it_tried(start: Start, run: Run, suite: Write, only_run: Find) -> None:
    process = start("maxlen", suite(LONGEST), "--impl", "plain:Plain", "--method", "plain:Plain")
    wait_for_records(only_run, 2, lambda record: record.job.phase is Pass.FIT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "what was tried is kept" in err
    assert "at least" in run("maxlen", str(only_run())).stdout


def test_a_batch_is_searched_for_in_place_of_whatever_the_suite_says_on_every_device() -> None:
    suite = Suite.model_validate({
        "name": "s", "axes": {"N": 128, "B": (1, 4, "max")}, "methods": ("a",),
        "on": {"cpu": {"axes": {"tokens": 7}}, "cuda": {"axes": {"B": 9, "H": 3}}},
    })  # fmt: skip
    batch = for_limits(suite, batch=True)
    assert [batch.resolved(device).axes.B for device in ("cpu", "cuda")] == [("max",), ("max",)]
    assert batch.resolved("cuda").axes.H == (3,)
    lengths = for_limits(suite, batch=False)
    assert [lengths.resolved(device).axes.B for device in ("cpu", "cuda")] == [(1, 4), (9,)]
    assert lengths.resolved("cpu").axes.tokens == ()
    assert (lengths.name, lengths.resolved("cpu").replicates) == ("maxlen-s", 1)


def test_a_method_may_be_named_with_its_parameters(here: Run, tmp_path: Path) -> None:
    fine(here("maxlen", "lsh.reformer(rounds=1, bucket_size=8)", "--limit", "512", "--out", "l.csv"))
    rows = pd.read_csv(tmp_path / "l.csv")
    assert set(rows["method"] + " " + rows["params"]) == {"lsh.reformer bucket_size=8 rounds=1"}


def test_beside_a_training_what_is_timed_is_searched_through(here: Run, suite: Write, tmp_path: Path) -> None:
    text = (
        "name: learns\naxes: {N: [64, 128], B: 2, H: 1, D: 8, causal: true}\nworkloads: [train, forward]\n"
        "training: {task: copy, layers: 1, updates: 2}\nmethods: ['plain:Plain']\nbudget: {seconds: 0.2, timeout: 20}\n"
    )
    fine(here("maxlen", suite(text), "--limit", "2^8", "--out", "l.csv"))
    (row,) = pd.read_csv(tmp_path / "l.csv").to_dict("records")
    assert (row["workload"], row["method"], row["N"]) == ("forward", "plain:Plain", 256)
