"""Folders of commands that measure for a purpose: each is listed as what it is, with its own words and tables."""

import random
from pathlib import Path
from typing import Any

import pytest

from attnbench.report.site.pages import margin_of
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Counter, Failed, Measured, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.run_folder import RunFolder
from tests.report.site.conftest import Lab

pytestmark = pytest.mark.usefixtures("plain")
SHELF = "amd-epyc-9b14-2-cores-2-threads"


def text_of(file: Path) -> str:
    return " ".join(file.read_text(encoding="utf-8").split())


def index_of(lab: Lab, out: Path) -> str:
    lab.build(out)
    return text_of(out / "index.html")


def side(lab: Lab, name: str, **changes: Any) -> Path:
    own = {"id": f"turns-{name}", "interleaved": "turns", "command": "attnbench gate quick --base main --margin 25%"}
    return lab.run(f"quick/{name}", **{**own, **changes})


def test_two_commits_measured_in_turns_are_one_card_with_the_judgement_beside_the_runs_of_the_suite(
    lab: Lab, out: Path
) -> None:
    lab.run("quick/a")
    side(lab, "base", git={"commit": "a" * 40, "dirty": False})
    side(lab, "new", git={"commit": "b" * 40, "dirty": True})
    index = index_of(lab, out)
    assert "Comparisons of two commits" in index
    assert index.index('<h2 id="_run">Runs</h2>') < index.index('<h2 id="_comparison">')
    assert f'id="quick/{SHELF}"' in index
    assert f'id="_comparison/quick/{SHELF}"' in index
    assert "bbbbbbbbbb+ against aaaaaaaaaa: 6 SAME." in index
    assert "with a margin of 25%." in index
    assert index.count('<li class="card"') == 2
    base, new = (out / "quick" / SHELF / f"turns-{name}" for name in ("base", "new"))
    assert "Comparison of two commits" in text_of(new / "comparison.html")
    assert 'href="../../../index.html"' in text_of(new / "comparison.html")
    assert (new / "comparison.csv").read_text().count("\n") == 7
    assert (base / "index.html").is_file()
    assert (new / "index.html").is_file()


@pytest.mark.parametrize("broken", [False, True], ids=["the other is not there", "the other cannot be read"])
def test_one_side_alone_is_shown_and_said_to_be_one(lab: Lab, out: Path, broken: bool) -> None:
    side(lab, "new")
    if broken:
        records = side(lab, "base") / "records.jsonl"
        records.unlink()
        records.mkdir()
    left_out = [(each.place, each.why) for each in lab.build(out).left_out]
    assert left_out == [("quick/base", "cannot read records.jsonl: Is a directory")] * broken
    assert "The other side of this comparison is not here." in text_of(out / "index.html")


@pytest.mark.parametrize(
    ("command", "margin"),
    [
        ("attnbench gate quick --base main --margin 25%", 0.25),
        ("attnbench compare --live main --margin=0.1", 0.1),
        ("attnbench gate quick --base main", 0.05),
        ("attnbench gate quick --margin much", 0.05),
        ("attnbench gate quick --margin 0", 0.05),
        ("attnbench gate 'quick --margin 25%", 0.05),
    ],
)
def test_the_margin_is_the_one_that_was_asked_for(command: str, margin: float) -> None:
    assert margin_of(command) == pytest.approx(margin)


def test_a_crossover_that_was_measured_is_no_run_of_the_suite_and_has_no_trend(lab: Lab, out: Path) -> None:
    for day in (1, 2):
        command = "attnbench crossover quick --of a --over b --measure"
        lab.run(f"crossover-quick/{day}", suite="crossover-quick", day=day, command=command)
    index = index_of(lab, out)
    assert '<h2 id="_crossover">Crossovers</h2>' in index
    assert '<h2 id="_run">' not in index
    assert 'id="_crossover/crossover-quick"' in index
    assert not list(out.rglob("trend.html"))


def test_a_search_for_the_longest_sequence_has_its_table(lab: Lab, out: Path) -> None:
    made = lab.small()
    info = lab.info(made, "maxlen-quick", 1, command="attnbench maxlen quick --limit 4096")
    first = [cell for cell in info.cells if cell.problem.N == 512]
    records, full = list[Record](), Failed(status=Status.OOM_HOST, reason="memory limit of 17.2 GB reached")
    for cell in first:
        for N, fits in ((512, True), (1024, cell.method == "linear.chunked")):
            outcome = Measured(facts={"B": 1, "seconds": 0.125}) if fits else full
            records.append(made.record(cell.reshaped(N=N), outcome, phase=Pass.FIT))
    lab.write("maxlen-quick/a", info.model_copy(update={"cells": tuple(first)}), records)
    index = index_of(lab, out)
    assert '<h2 id="_limits">Longest sequences, largest batches</h2>' in index
    assert "Largest N that fits: forward, causal, float32: softmax.sdpa at least 512; linear.chunked(chunk=64)" in index
    (page,) = (out / "maxlen-quick").rglob("index.html")
    assert "memory (OOM at 1,024)" in text_of(page)
    assert sorted(file.name for file in page.parent.iterdir()) == ["index.html", "maxlen.csv", "maxlen.md", "maxlen.tex"]


def test_a_selfcheck_has_its_own_words_and_tables_and_is_left_out_without_its_plan(lab: Lab, out: Path) -> None:
    made, noise = lab.small(), random.Random("selfcheck/a")
    info = lab.info(made, "selfcheck", 1, command="attnbench selfcheck --verdicts 4")
    cell = info.cells[0]
    plan = Selfcheck(sides=(cell, cell), verdicts=4, replicates=3)
    records = []
    for number in range(plan.processes):
        times = Series(unit="s", values=tuple(noise.uniform(0.010, 0.011) for _ in range(5)))
        memory = {"host_rss_peak": Counter(bytes=1, source="VmHWM")}
        records.append(made.record(cell, Measured(samples={"time": times}, memory=memory), number))
    folder = lab.write("selfcheck/a", info.model_copy(update={"cells": (cell,)}), records)
    RunFolder(folder).keep_plan(plan)
    (folder / "selfcheck.json").write_text("{}")
    lab.run("a")
    index = index_of(lab, out)
    assert '<h2 id="_selfcheck">Selfchecks</h2>' in index
    assert "selfcheck of softmax.sdpa: forward, causal, float32" in index
    assert "nothing differs between the sides, so whatever is found to differ is a false alarm" in index
    (page,) = (out / "selfcheck").rglob("index.html")
    assert "<h1>selfcheck of softmax.sdpa</h1>" in text_of(page)
    assert "false alarms, margin 5%" in text_of(page)
    assert sorted(file.name for file in page.parent.iterdir()) == ["index.html", "selfcheck.json", "selfcheck.md"]
    (folder / "plan.json").unlink()
    why = "it is not the folder of a selfcheck: plan.json: No such file or directory"
    assert [(each.place, each.why) for each in lab.build(out).left_out] == [("selfcheck/a", why)]
