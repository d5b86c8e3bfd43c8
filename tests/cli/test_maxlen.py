"""`attnbench maxlen`, for real: faults are rows, an earlier search can be read again, nothing recorded is lost."""

import signal
from pathlib import Path

import pandas as pd
import pytest

from attnbench.library.maxlen import for_limits
from attnbench.schema.errand import Pass
from attnbench.schema.suite import Suite
from tests.cli.conftest import Find, Refused, Run, Start, Write, wait_for_records

STORED = str(Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores" / "vq")
SUITE = """
name: mine
axes: {N: [128, 256], tokens: 4096, H: 2, D: 8, causal: true}
methods: ["lengths:Cramped", "lengths:Fragile", "lengths:Declines"]
budget: {seconds: 0.6, timeout: 20}
replicates: 3
"""


@pytest.fixture
def searched(here: Run, suite: Write, only_run: Find) -> tuple[Path, str]:
    """The folder of a search, and what was said."""
    done = here("maxlen", suite(SUITE), "--impl", "plain:Plain", "--limit", "2^9", "--out", "longest.csv")
    assert done.returncode == 0, done.stderr
    return only_run(), done.stdout + done.stderr


def test_the_longest_of_each_method_is_found_and_faults_are_rows(searched: tuple[Path, str], here: Run) -> None:
    folder, said = searched
    assert folder.parent.name == "maxlen-mine"
    table = pd.read_csv(folder.parents[2] / "longest.csv").set_index("method")
    assert table["N"].fillna(0).to_dict() == {
        "lengths:Cramped": 288,
        "lengths:Fragile": 400,
        "lengths:Declines": 0,
        "plain:Plain": 512,
    }
    assert table["status"].to_dict() == dict.fromkeys(table.index, "ok") | {"lengths:Declines": "unsupported"}
    ended = {
        "lengths:Cramped": "oom_host",
        "lengths:Fragile": "error",
        "lengths:Declines": "unsupported",
        "plain:Plain": "limit",
    }
    assert table["ended_by"].to_dict() == ended
    assert set(table["B"]) == {1}, "tokens say nothing of the batch here"
    assert table["memory_bytes"].to_dict()["plain:Plain"] > 0
    assert "Largest N that fits: forward, causal, float32" in said
    assert "memory (OOM at 304)" in said
    assert "this is too long" in said
    assert "it takes nothing" in said

    again = here("maxlen", str(folder), "--out", "again.md")
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("again.md")[0].strip() in said
    assert "lengths:Cramped" in (folder.parents[2] / "again.md").read_text(encoding="utf-8")


def test_an_interrupted_search_keeps_what_it_tried(start: Start, run: Run, suite: Write, only_run: Find) -> None:
    process = start("maxlen", suite(SUITE), "--impl", "plain:Plain", "--method", "plain:Plain")
    wait_for_records(only_run, 2, lambda record: record.job.phase is Pass.FIT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "what was tried is kept" in err
    assert "at least" in run("maxlen", str(only_run())).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("softmax.spda",), "softmax.spda: neither a suite nor a method; did you mean 'softmax.sdpa'"),
        (("quick", "scaling"), "at most one suite"),
        (("quick", "--method", "linear.chunky"), "--method linear.chunky: no such method; did you mean 'linear.chunked'"),
        (("quick", "--impl", "nocolon"), "module:Class"),
        (("quick", "--out", "x.png"), "--out x.png: the name must end in one of .md, .tex, .csv"),
        ((STORED, "--limit", "2^10", "--method", "vq.full", "--memory", "8GiB"), "leave out --method, --memory, --limit"),
        ((STORED, "--batch", "--device", "cpu", "--impl", "plain:Plain"), "leave out --batch, --impl, --device"),
    ],
)
def test_bad_input_is_refused_in_words_before_anything_is_started(words: tuple[str, ...], says: str, refused: Refused) -> None:
    assert says in refused("maxlen", *words)


def test_a_limit_below_the_shortest_length_is_refused(here: Run) -> None:
    low = here("maxlen", "quick", "--method", "softmax.sdpa", "--limit", "256")
    assert (low.returncode, "a search begins at N = 512" in low.stderr) == (2, True)
    assert "Traceback" not in low.stderr


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


LEARNS = """
name: learns
axes: {{N: [64, 128], B: 2, H: 1, D: 8, causal: true}}
workloads: [{workloads}]
training: {{task: copy, layers: 1, updates: 2}}
methods: ["plain:Plain", "lengths:Level"]
budget: {{seconds: 0.2, timeout: 20}}
replicates: 2
report: {{tables: [summary], plots: []}}
"""


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("crossover", ("--of", "plain:Plain", "--over", "lengths:Level", "--measure"), "this one only trains"),
        ("maxlen", (), "what is learnt has the length of its task"),
    ],
)
def test_nothing_is_searched_for_in_a_suite_that_only_trains(
    name: str, words: tuple[str, ...], says: str, here: Run, suite: Write, tmp_path: Path
) -> None:
    done = here(name, suite(LEARNS.format(workloads="train")), *words)
    assert done.returncode == 2, done.stderr
    assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "results").exists()


def test_beside_a_training_what_is_timed_is_searched_through(here: Run, suite: Write, tmp_path: Path) -> None:
    done = here("maxlen", suite(LEARNS.format(workloads="train, forward")), "--limit", "2^8", "--out", "l.csv")
    assert done.returncode == 0, done.stdout + done.stderr
    table = pd.read_csv(tmp_path / "l.csv")
    assert set(table["workload"]) == {"forward"}
    assert dict(zip(table["method"], table["N"], strict=True)) == {"plain:Plain": 256, "lengths:Level": 256}
