"""`attnbench crossover`: what it says of a stored run, what it refuses, and that it measures what it lacks."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import attnbench as door
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, InfoOf, Refused, Run, Write, as_record, memory, times

LENGTHS = (512, 1024, 2048, 4096)
ROUNDS = (1, 4)


def cells() -> list[Cell]:
    found = []
    for N in LENGTHS:
        for causal in (True, False):
            problem = Problem(N=N, causal=causal)
            found += [Cell(method=name, problem=problem) for name in ("softmax.sdpa", "linear.chunked")]
            found += [Cell(method="lsh.reformer", params={"rounds": r}, problem=problem) for r in ROUNDS if causal]
    return found


def record(cell: Cell, replicate: int, phase: Pass) -> Record:
    """The quadratic one is overtaken at 1,448 where it is causal and never else, and has no room at 4,096."""
    N, quadratic = cell.problem.N, cell.method == "softmax.sdpa"
    off = 1 + 0.01 * ((3 * replicate + N // 512 + quadratic) % 5 - 2)
    seconds = off * (1e-6 * N * N / (1448 if cell.problem.causal else 9000) if quadratic else 1e-6 * N)
    if quadratic and N == 4096:
        return as_record(cell, Failed(status=Status.OOM_HOST, reason="there is no room"), replicate, phase)
    outcome = times(seconds) if phase is Pass.TIME else memory(N * N if quadratic else 1000 * N)
    return as_record(cell, outcome, replicate, phase)


@pytest.fixture
def stored(tmp_path: Path, info_of: InfoOf) -> Path:
    """A run of five replicates."""
    info = info_of(cells(), {"replicates": 5})
    folder = RunFolder.create(tmp_path / "results", info)
    for cell in info.cells:
        for replicate in range(5):
            folder.append(record(cell, replicate, Pass.TIME))
        folder.append(record(cell, 0, Pass.MEMORY))
    return folder.path


def said(stored: Path, of: str | None = None, over: str | None = None, metric: str = "time") -> str:
    return " ".join(str(door.crossover(stored, of=of, over=over, metric=metric)).split())


def test_a_line_a_section_says_from_where_on_with_an_interval(stored: Path) -> None:
    text = said(stored, "linear.chunked", "softmax.sdpa")
    assert "from N = 1,450 [" in text
    assert "] on, linear.chunked is faster than softmax.sdpa, forward, causal, float32" in text
    assert "at N = 4,096 linear.chunked runs and softmax.sdpa does not (OOM)" in text
    ahead = "softmax.sdpa stays ahead of linear.chunked, forward, non-causal, float32"
    assert f"none up to N = 2,048, the longest length compared: {ahead}" in text
    assert (
        "from the shortest length compared (512) on, linear.chunked is faster than softmax.sdpa, forward, non-causal"
        not in text
    )


def test_by_default_every_method_meets_the_strongest_exact_one(stored: Path) -> None:
    text = said(stored)
    assert text.count("is faster than softmax.sdpa") + text.count("softmax.sdpa stays ahead of") == 4
    assert "lsh.reformer(rounds=4)" in text


def test_what_is_asked_for_is_written(stored: Path, tmp_path: Path, command: Run) -> None:
    outs = [tmp_path / "out" / f"c.{form}" for form in ("md", "tex", "csv", "svg")]
    command("crossover", stored, "--of", "linear.chunked", *(word for out in outs for word in ("--out", out)))
    assert all(out.stat().st_size > 100 for out in outs)
    table = pd.read_csv(outs[2])
    assert table["N"].iloc[0] == pytest.approx(1448, rel=0.02)
    assert table["N_low"].iloc[0] < table["N"].iloc[0] < table["N_high"].iloc[0]
    assert "4096 oom_host: there is no room" in table["over_without_figure"].iloc[0]


@pytest.mark.parametrize(
    ("of", "over", "metric", "words"),
    [
        ("linear.chunky", None, "time", r"of='linear\.chunky': .*did you mean 'linear\.chunked'"),
        (None, "lsh.reformer", "time", r"over='lsh\.reformer': name one of 'lsh\.reformer\(rounds=1\)'"),
        ("softmax.sdpa", "softmax.sdpa", "time", "both name softmax.sdpa"),
        (None, None, "tiem", "metric='tiem': .*it has: time, tokens, throughput, memory, host_rss_peak"),
        (None, None, "state", "metric='state': no cell of the run has that"),
    ],
)
def test_names_that_the_run_does_not_have_are_refused(
    stored: Path, of: str | None, over: str | None, metric: str, words: str
) -> None:
    with pytest.raises(door.UsageError, match=words):
        door.crossover(stored, of=of, over=over, metric=metric)


@pytest.mark.parametrize("given", [{"resolution": "5%"}, {"max_points": 2}, {"minutes": 1.0}, {"replicates": 7}])
def test_what_says_how_to_measure_is_refused_where_a_run_is_only_read(stored: Path, given: dict[str, Any]) -> None:
    with pytest.raises(door.UsageError, match=f"{next(iter(given))}: they say how a suite is measured"):
        door.crossover(stored, **given)


def test_a_file_of_no_known_form_and_a_suite_without_measuring_are_refused(stored: Path, refused: Refused) -> None:
    assert refused("crossover", stored, "--out", "c.xls").startswith("--out c.xls: the name must end in one of .md")
    assert "attnbench crossover quick --of METHOD --over METHOD --measure" in refused("crossover", "quick")


@pytest.mark.parametrize(
    ("suite", "of", "over", "metric", "words"),
    [
        ("quick", "linear.chunked", None, "time", "--measure needs both methods"),
        ("quick", "linear.chunky", "softmax.sdpa", "time", r"of='linear\.chunky': no such method"),
        ("quick", "linear.chunked", "softmax.sdpa", "tiem", "metric='tiem'"),
        ("results", "linear.chunked", "softmax.sdpa", "time", "--measure takes a suite; results is a folder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_started(
    suite: str, of: str, over: str | None, metric: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    with pytest.raises(door.UsageError, match=words):
        door.crossover(suite, of=of, over=over, metric=metric, measure=True, device="cpu")


SUITE = """
name: mine
axes: {N: [128, 1024], H: 1, D: 8, causal: true}
methods: ["lengths:Steep", "lengths:Level", "plain:Plain"]
budget: {seconds: 1, timeout: 60}
replicates: 9
"""


@pytest.mark.slow
def test_where_a_condition_leaves_no_cell_of_the_next_length_the_search_ends(here: Run, suite: Write) -> None:
    apart = re.sub(r'"(lengths:\w+)"', r'{name: "\1", when: N <= 128 or N >= 1024}', SUITE)
    done = here("crossover", suite(apart), "--of", "lengths:Level", "--over", "lengths:Steep", "--measure", "--replicates", "2")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_two_methods_are_measured_and_a_length_is_added_where_they_meet(here: Run, suite: Write, only_run: Find) -> None:
    arguments = ["--of", "lengths:Level", "--over", "lengths:Steep", "--measure", "--replicates", "5", "--out", "c.csv"]
    done = here("crossover", suite(SUITE), *arguments)
    assert done.returncode == 0, done.stderr
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

    again = here("crossover", str(folder), "--of", "lengths:Level", "--over", "lengths:Steep")
    assert again.stdout == done.stdout.split("c.csv")[0]
    report = here("report", str(folder))
    assert report.returncode == 0, report.stderr
