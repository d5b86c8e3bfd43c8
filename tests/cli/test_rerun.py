"""A cell of a stored run is measured again by the command that its row names, or looked at under a profiler."""

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

from attnbench import read
from tests.cli.conftest import Run, Write

SUITE = """
name: s
axes: {N: [64, 128], H: 1, D: 8}
methods: ["plain:Plain", {name: linear.full, params: {eps: [0.01, 0.1]}}]
budget: {seconds: 0.05, timeout: 60}
replicates: 2
report: {tables: [summary], plots: []}
"""


@pytest.mark.slow
def test_a_cell_is_measured_again_by_the_command_in_its_row_or_by_its_method(
    attnbench: Run, suite: Write, tmp_path: Path
) -> None:
    assert attnbench("run", suite(SUITE)).returncode == 0
    (first,) = (tmp_path / "results" / "s").iterdir()
    rows = pd.read_csv(first / "table.csv")
    chosen = rows[(rows.method == "plain:Plain") & (rows.N == 128)].iloc[0]
    done = attnbench(*shlex.split(chosen.rerun)[1:])
    assert done.returncode == 0, done.stderr
    (second,) = set((tmp_path / "results" / "s").iterdir()) - {first}
    assert [cell.key for cell in read(second).info.cells] == [chosen.cell]
    assert read(second).measured
    assert "plain:Plain" in done.stdout
    assert "linear.full" not in done.stdout
    done = attnbench("rerun", str(first), "linear.full(eps=0.1)", "--replicates", "1")
    assert done.returncode == 0, done.stderr
    (third,) = set((tmp_path / "results" / "s").iterdir()) - {first, second}
    frame = read(third).frame()
    assert (set(frame.params), sorted(frame.N), set(frame.n_replicates)) == ({"eps=0.1"}, [64, 128], {1})

    assert rows.kernels.str.contains("aten::").all()
    done = attnbench("trace", str(first), chosen.cell[:12], "--out", "timeline.json")
    assert done.returncode == 0, done.stderr
    assert "aten::" in done.stdout
    assert any(
        event.get("name", "").startswith("aten::")
        for event in json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    )
    refused = attnbench("trace", str(first), "linear.full(eps=0.1)")
    assert (refused.returncode, "name one by its key" in refused.stderr) == (2, True)
    refused = attnbench("trace", str(first), chosen.cell[:12], "--marks")
    assert (refused.returncode, "this cell ran on a CPU" in refused.stderr) == (2, True)
    for cell, says in (("linear.ful", "did you mean"), ("", "there are"), ("zzz", "there are")):
        refused = attnbench("rerun", str(first), cell)
        assert refused.returncode == 2, refused.stdout
        assert says in refused.stderr
