"""Runs of each kind, for real: decoding, compiled, fidelity, numerics, cheats; and a cell of a run once more."""

import json
import shlex
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from attnbench import read
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Measured
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, fine, wait_for_records

# what is measured, and what of it is shown, is also tested without a process for each cell: tests/workloads, tests/report
pytestmark = pytest.mark.slow

DECODE = """
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


def test_a_run_killed_in_a_search_for_the_batch_goes_on(start: Start, attnbench: Run, suite: Write, only_run: Find) -> None:
    process = start("run", suite(DECODE))
    wait_for_records(only_run, 3, lambda record: record.job.phase is Pass.FIT)
    process.kill()
    process.communicate()
    folder = only_run()
    assert sum(trials(folder).values()) < 4 * len(TRIALS)
    fine(attnbench("run", "--resume", str(folder)))
    assert set(trials(folder).values()) == {1}, "no trial is made twice"
    assert Counter(B for _, B in trials(folder)) == dict.fromkeys(TRIALS, 4)

    table = pd.read_csv(folder / "table.csv")
    mine = table[table["method"] == "tokens:Roomy"]
    assert set(zip(mine["batch"], mine["B"], mine["status"], strict=True)) == {("fixed", 1, "ok"), ("largest", 6, "ok")}
    assert set(mine[mine["batch"] == "largest"]["batch_bound"]) == {"oom_host"}
    others = table[table["method"] != "tokens:Roomy"].groupby("method")["status"].agg(set).to_dict()
    assert others == {"tokens:Forgetful": {"incorrect"}, "plain:Plain": {"unsupported"}}


COMPILED = """
name: both
axes: {N: 64, H: 2, D: 16, causal: true, compile: [false, true]}
methods: [softmax.naive, softmax.sdpa]
budget: {seconds: 1, timeout: 200}
replicates: 1
"""


def test_a_suite_puts_a_method_beside_itself_compiled(attnbench: Run, suite: Write, only_run: Find) -> None:
    fine(attnbench("run", suite(COMPILED)))
    found = {r.job.cell.method: r.outcome for r in RunFolder(only_run()).records() if r.job.phase == "time"}
    compiled = found["softmax.naive+compile"]
    assert isinstance(found["softmax.naive"], Measured)
    assert isinstance(compiled, Measured)
    assert compiled.facts["graphs"] not in {0, None}
    table = (only_run() / "table.md").read_text(encoding="utf-8")
    assert "softmax.naive+compile" in table
    assert "its tier is library: only eager methods are compiled" in table


SCORED = """
name: scored
axes: {N: 64, B: 2, H: 2, D: 16, dtype: [float32, bfloat16], causal: true}
workloads: [fidelity, numerics]
methods:
  - plain:Plain
  - faulty:WrongValues
  - linear.full
  - linear.chunked
  - {name: lsh.reformer_pytorch, params: {bucket_size: 8, rounds: [1, 4]}}
budget: {seconds: 0.1, timeout: 60}
replicates: 1
report: {tables: [summary, fidelity, numerics], plots: [fidelity, numerics]}
"""


def test_fidelity_and_numerics_are_measured_and_reported_with_failures_as_rows(here: Run, suite: Write, only_run: Find) -> None:
    fine(here("run", suite(SCORED)))
    table = pd.read_csv(only_run() / "table.csv")
    assert table.groupby(["workload", "method"])["status"].agg(lambda found: " ".join(sorted(set(found)))).to_dict() == {
        # fidelity is of the definition, and so not of bfloat16
        ("fidelity", "plain:Plain"): "ok unsupported",
        ("fidelity", "faulty:WrongValues"): "incorrect unsupported",
        ("fidelity", "linear.full"): "unsupported",
        ("fidelity", "linear.chunked"): "ok unsupported",
        ("fidelity", "lsh.reformer_pytorch"): "ok unsupported",
        ("numerics", "plain:Plain"): "ok",
        # a thousandth is less than bfloat16 rounds
        ("numerics", "faulty:WrongValues"): "incorrect ok",
        ("numerics", "linear.full"): "unsupported",
        ("numerics", "linear.chunked"): "ok",
        ("numerics", "lsh.reformer_pytorch"): "ok unsupported",
    }
    for kind in ("fidelity", "numerics"):
        names = {f"{kind}.{form}" for form in ("png", "svg", "pdf", "txt")}
        assert {file.name for file in (only_run() / kind).iterdir()} == names


CHEATS = """
name: cheats
axes: {N: 1024, H: 2, D: 16, causal: true}
methods: ["plain:Plain", softmax.sdpa, "cheats:ReplaysByPointer", "cheats:InHalfPrecision", "cheats:ForgesSamples"]
budget: {seconds: 1, timeout: 20}
replicates: 1
"""


def test_cheats_are_shown_and_neither_ranked_nor_named_in_the_result(roofed: Run, suite: Write, only_run: Find) -> None:
    done = fine(roofed("run", suite(CHEATS)))
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


ONCE_MORE = """
name: s
axes: {N: [64, 128], H: 1, D: 8}
methods: ["plain:Plain", {name: linear.full, params: {eps: [0.01, 0.1]}}]
budget: {seconds: 0.05, timeout: 60}
replicates: 2
report: {tables: [summary], plots: []}
"""


def test_a_cell_is_measured_again_or_looked_at_under_a_profiler(here: Run, suite: Write, tmp_path: Path) -> None:
    def runs() -> set[Path]:
        return set((tmp_path / "results" / "s").iterdir())

    fine(here("run", suite(ONCE_MORE)))
    (first,) = runs()
    rows = pd.read_csv(first / "table.csv")
    assert rows.kernels.str.contains("aten::").all()
    chosen = rows[(rows.method == "plain:Plain") & (rows.N == 128)].iloc[0]
    done = fine(here(*shlex.split(chosen.rerun)[1:]))
    assert "plain:Plain" in done.stdout
    assert "linear.full" not in done.stdout
    (second,) = runs() - {first}
    assert [cell.key for cell in read(second).info.cells] == [chosen.cell]
    assert read(second).measured
    fine(here("rerun", str(first), "linear.full(eps=0.1)", "--replicates", "1"))
    (third,) = runs() - {first, second}
    frame = read(third).frame()
    assert (set(frame.params), sorted(frame.N), set(frame.n_replicates)) == ({"eps=0.1"}, [64, 128], {1})

    done = fine(here("trace", str(first), chosen.cell[:12], "--out", "timeline.json"))
    assert "aten::" in done.stdout
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert any(event.get("name", "").startswith("aten::") for event in events)
    for words, says in (
        (("trace", first, "linear.full(eps=0.1)"), "name one by its key"),
        (("trace", first, chosen.cell[:12], "--marks"), "this cell ran on a CPU"),
        (("rerun", first, "linear.ful"), "did you mean"),
        (("rerun", first, ""), "there are"),
        (("rerun", first, "zzz"), "there are"),
    ):
        refused = here(*words)
        assert (refused.returncode, says in refused.stderr) == (2, True), refused
