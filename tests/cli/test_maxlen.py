"""`attnbench maxlen`, for real: faults are rows, an earlier search can be read again, nothing recorded is lost."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from attnbench.cli.errors import UsageError
from attnbench.cli.maxlen import Options, maxlen
from attnbench.cli.maxlen_live import for_limits
from attnbench.schema.errand import Pass
from attnbench.schema.suite import Suite
from attnbench.store.run_folder import RunFolder

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]
Find = Callable[[], Path]

SUITE = """
name: mine
axes: {N: [128, 256], tokens: 4096, H: 2, D: 8, causal: true}
methods: ["lengths:Cramped", "lengths:Fragile", "lengths:Declines"]
budget: {seconds: 0.6, timeout: 20}
replicates: 3
"""


@pytest.fixture
def searched(attnbench: Run, suite: Callable[[str], str], only_run: Find) -> tuple[Path, str]:
    """The folder of a search, and what was said."""
    done = attnbench("maxlen", suite(SUITE), "--impl", "plain:Plain", "--limit", "2^9", "--out", "longest.csv")
    assert done.returncode == 0, done.stderr
    return only_run(), done.stdout + done.stderr


def test_the_longest_of_each_method_is_found_and_faults_are_rows(searched: tuple[Path, str], attnbench: Run) -> None:
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

    again = attnbench("maxlen", str(folder), "--out", "again.md")
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("again.md")[0].strip() in said
    assert "lengths:Cramped" in (folder.parents[2] / "again.md").read_text(encoding="utf-8")


def test_an_interrupted_search_keeps_what_it_tried(
    start: Start, attnbench: Run, suite: Callable[[str], str], only_run: Find
) -> None:
    process, end = start("maxlen", suite(SUITE), "--impl", "plain:Plain", "--method", "plain:Plain"), time.monotonic() + 120
    while not _tried(only_run):
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "what was tried is kept" in err
    assert "at least" in attnbench("maxlen", str(only_run())).stdout


def _tried(only_run: Find) -> bool:
    try:
        return len([r for r in RunFolder(only_run()).records() if r.job.phase is Pass.FIT]) >= 2
    except ValueError:
        return False


def options(*what: str, **changes: object) -> Options:
    given: dict[str, object] = {
        "what": what, "methods": (), "memory": None, "limit": "2^22", "batch": False, "impls": (), "device": "cpu",
        "results": Path("results"), "outs": (), "fresh": False, **changes,
    }  # fmt: skip
    return Options(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (options("softmax.spda"), "softmax.spda: neither a suite nor a method; did you mean 'softmax.sdpa'"),
        (options("quick", "scaling"), "at most one suite"),
        (options("quick", methods=("linear.chunky",)), "--method linear.chunky: no such method; did you mean 'linear.chunked'"),
        (options("quick", impls=("nocolon",)), "module:Class"),
        (options("quick", outs=(Path("x.png"),)), "--out x.png: the name must end in one of .md, .tex, .csv"),
    ],
)
def test_bad_input_is_refused_in_words_before_anything_is_started(asked: Options, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        maxlen(asked)


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
