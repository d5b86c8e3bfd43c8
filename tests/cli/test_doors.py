"""At the door: `plan`, `methods`, `doctor`, `check`; how one's own class comes in; and that no command imports too much."""

import io
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from attnbench import registry
from attnbench.cli import app
from tests.cli.conftest import Find, Run, Stored, Write, fine

GOOD = "name: s\naxes: {N: 128, H: 2, D: 16}\nbudget: {seconds: 0.2}\nreplicates: 1\nreport: {tables: [summary], plots: []}\n"
ROOT = Path(__file__).parents[2]
OWN = "from plain import Plain\n\n\nclass Mine(Plain):\n    pass\n"


def names(listed: str) -> list[str]:
    return [line for line in listed.splitlines() if not line.startswith(" ")]


def test_plan_measures_nothing_and_knows_times_once_the_doctor_has_been(here: Run, suite: Write, tmp_path: Path) -> None:
    suite(GOOD + "methods: [softmax.sdpa, {name: lsh.reformer_pytorch, params: {bucket_size: [16, 48]}}]\n")
    done = fine(here("plan", "s.yaml"))
    assert "3 cells, 2 to be measured" in done.stdout
    assert "unknown" in done.stdout
    assert "attnbench doctor" in done.stdout
    assert "roof float32" in fine(here("doctor")).stdout
    (refused,) = [line for line in here("plan", "s.yaml").stdout.splitlines() if "unknown" in line]
    assert "unsupported: N=128 must be a multiple of 2 * bucket_size = 96" in refused
    assert not (tmp_path / "results").exists()


def test_plan_tells_cells_apart_by_all_that_varies_and_says_how_long_it_takes(here: Run, suite: Write) -> None:
    axes = "N: 128, H: [2, 4], D: 16, dtype: [float32, bfloat16], scale: [1, 2]"
    text = f"name: s\naxes: {{{axes}}}\nmethods: [softmax.sdpa]\nworkloads: [forward, numerics]\nreplicates: 20\n"
    done = fine(here("plan", suite(text)))
    head, _, *rows = done.stdout.splitlines()
    assert head.split()[:8] == ["N", "B", "workload", "mask", "dtype", "H", "scale", "method"]
    told = [" ".join(row.split()[2:8]) for row in rows if row.lstrip().startswith("128")]
    assert len(told) == len(set(told)) == 16
    assert "forward non-causal bfloat16 H=4 scale 2" in told
    # 8 cells of 20 replicates, of 0.7 to 16 s each
    assert "about 2 to 43 min; " in done.stdout
    assert "cells that take as long as they take come on top: 8 of numerics" in done.stdout


def test_plan_says_where_the_batch_is_searched_for(here: Run, suite: Write) -> None:
    text = GOOD.replace("N: 128", "N: 128, B: [1, max], causal: true") + "workloads: decode\nmethods: [softmax.sdpa]\n"
    done = fine(here("plan", suite(text)))
    assert [line.split()[1] for line in done.stdout.splitlines() if line.lstrip().startswith("128")] == ["1", "max"]
    assert "the searches for the largest B come on top" in done.stdout


def test_a_run_says_at_its_start_what_disturbs_the_machine(here: Run, suite: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 1.0, 1.0))
    done = fine(here("run", suite(GOOD + "methods: [softmax.sdpa]\n")))
    # other tests may be measuring beside this one
    first = next(line for line in done.stderr.splitlines() if not line.startswith("waiting for "))
    assert first.startswith("this machine is disturbed, and times will scatter: load: 99.00 over the last minute")
    assert first.endswith("attnbench doctor says more")


def test_what_stdout_has_no_letters_for_is_written_in_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, "ascii"))
    monkeypatch.setattr(sys, "argv", ["attnbench", "suites", "copy", "quick", f"{tmp_path}/3 µs ±1 ² caf\udce9.yaml"])
    with pytest.raises(SystemExit, match="0"):
        app.main()
    assert taken.getvalue().endswith(b"/3 us +-1 ? caf\xe9.yaml\n")


def test_methods_still_lists_the_others_where_one_cannot_be_imported(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ["linear.chunked", "softmax.flash_attn", "softmax.naive"]
    broken = ["import_raises:Method", "import_exits:Method", "import_needs:Method", "faulty:NeedsAPackage"]
    known = {name: registry.catalogue()[name] for name in few}
    monkeypatch.setattr(registry, "catalogue", lambda: known)
    done = fine(here("methods", *(word for impl in broken for word in ("--impl", impl))))
    assert names(done.stdout) == [*few, *broken]
    # one of the broken ones can be asked, and lacks a package
    assert done.stdout.count("tier ") == len(few) + 1
    assert done.stdout.count("arXiv") >= len(few)
    assert "pip install 'a-package-that-nobody-has>=2'" in done.stdout


def test_ones_own_class_is_checked_wherever_its_file_lies(attnbench: Run, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "random.py").write_text(OWN)
    first, *lines, last = fine(attnbench("check", "deep/random.py:Mine")).stdout.splitlines()
    assert first == "deep/random.py:Mine"
    assert last == "correct, as far as these checks go"
    for line, shape in zip(lines, ("B=1, H=2, N=64", "B=2, H=3, N=321"), strict=False):
        assert line.startswith(f"  not causal, with gradients, {shape}: correct; at most ")
    assert "  causal, padded: not checked: it takes no key mask, so there can be no padding" in lines
    assert "  causal, token by token: not checked: it does not decode token by token" in lines
    assert not (tmp_path / "results").exists()


def test_a_built_in_method_is_checked_in_every_way_that_it_can_be_called(here: Run) -> None:
    done = fine(here("check", "linear.chunked", "--param", "chunk=16", "--dtype", "float64", "--width", "16"))
    assert done.stdout.startswith("linear.chunked(chunk=16)\n")
    assert "  causal, token by token, B=1, H=2, N=64: correct; at most " in done.stdout
    assert "  not causal: not checked: " in done.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("WrongValues", r"incorrect: output off by.*every number is 1.001 times what is right; also off: gradient of q, "),
        ("WrongGradient", "incorrect: gradient of k off by.*right: output, gradient of q, gradient of v"),
        # its other calls are correct
        ("HasNoMask", r"(?s)  not causal, with gradients, B=2, H=3, N=321: correct.* later keys: the causal mask is missing"),
        ("Leaks", r"incorrect: causality \(earlier outputs, when the future changes\) off by"),
        ("RaisesInItsCheck", r"error: ValueError: this method is out of order \(faulty.py:"),
        ("Exits", "error: the process ended with exit code 3 and no answer"),
        ("Declines", "not checked"),
    ],
)
def test_what_is_not_correct_is_said_and_is_exit_code_1(name: str, says: str, here: Run) -> None:
    done = here("check", f"faulty:{name}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(says, done.stdout)
    assert done.stderr == ("nothing could be checked\n" if name == "Declines" else "not correct\n")


@pytest.mark.slow
def test_a_folder_whose_name_is_no_text_is_written_into(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    fine(attnbench("run", suite(GOOD + "methods: [plain:Plain]\n"), "--results", "\udcff"))
    assert list(tmp_path.glob("\udcff/s/*/table.md"))


@pytest.mark.slow
def test_all_commands_find_ones_own_class_in_the_folder_they_are_given_in(attnbench: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    for name in ("mine:Mine", "mine.py:Mine"):
        fine(attnbench("show", name, "--N", "8", "--out", "a.svg"))
        assert name in fine(attnbench("maxlen", name, "--limit", "2^9")).stdout
    listed = fine(attnbench("methods", "--impl", "mine:Mine", "--impl", "mine.py:Mine"))
    assert listed.stdout.count("a fixture of the tests") == 2
    (tmp_path / "mine.py").write_text(OWN.replace("    pass", '    paper = "another"'))
    assert "another" in attnbench("methods", "--impl", "mine:Mine").stdout


@pytest.mark.slow
def test_a_package_with_an_entry_point_is_listed_and_runs(attnbench: Run, suite: Write, only_run: Find, tmp_path: Path) -> None:
    source = tmp_path / "package"
    (source / "their_attention").mkdir(parents=True)
    (source / "their_attention" / "__init__.py").write_text(OWN.replace("Mine", "Theirs"))
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "their-attention"\nversion = "1.2"\n'
        '[project.entry-points."attnbench.impls"]\n"theirs.best" = "their_attention:Theirs"\n'
    )
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(tmp_path / "site"), str(source)], check=True, capture_output=True)
    path = f"{tmp_path / 'site'}{os.pathsep}{os.environ['PYTHONPATH']}"
    listed = attnbench("methods", PYTHONPATH=path).stdout
    assert names(listed) == sorted([*registry.catalogue(), "theirs.best"])
    assert listed.count("tier ") == len(registry.catalogue()) + 1
    fine(attnbench("run", suite(GOOD + "methods: [theirs.best]\n"), PYTHONPATH=path))
    (row,) = pd.read_csv(only_run() / "table.csv").to_dict("records")
    assert (row["method"], row["status"]) == ("theirs.best", "ok")


@pytest.mark.slow
def test_the_attention_of_contributing_runs_beside_others(attnbench: Run, suite: Write, only_run: Find, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "my_attention.py").write_text(textwrap.dedent(found.group(1)), encoding="utf-8")
    text = GOOD.replace("D: 16", "D: 16, causal: [true, false]") + "workloads: [forward, forward_backward]\n"
    fine(attnbench("run", suite(text + "methods: [softmax.sdpa]\n"), "--impl", "my_attention:MeanOfValues"))
    table = pd.read_csv(only_run() / "table.csv")
    mine = table[table["method"] == "my_attention:MeanOfValues"]
    assert set(zip(mine["causal"], mine["status"], strict=True)) == {(True, "unsupported"), (False, "ok")}


REFERENCE = ROOT / "results" / "reference" / "epyc-2-cores"
HEAVY = {"torch", "pandas", "matplotlib", "attnbench_impls"}
LIGHTEST_FIRST = [
    (("--help",), HEAVY | {"pydantic", "rich", "numpy"}, "Measure a suite"),
    (("history", "list", "results"), HEAVY | {"fsspec"}, "4 ok"),
    (("trend", "results", "--json", "trend.json"), HEAVY | {"fsspec"}, "No change was found"),
    (("crossover", "{run}"), HEAVY, "stays ahead of"),
    (("export", "{run}", "--to", "bencher", "--out", "-"), HEAVY, "latency"),
    (("published", str(REFERENCE)), {"torch"}, "# Published and reproduced"),
    (("plot", "{run}", "--kind", "scaling", "--format", "svg"), {"torch"}, "scaling.svg"),
    (("report", "{run}"), {"torch"}, "index.html"),
    (("site", "results", "site"), {"torch"}, "1 run of 1 suite"),
]
"""With what a command may not load, nor any before it, and with words that it says: the lightest come first."""
# one process for all: what is not there after a command was loaded by none of those before it
ALL_IN_ONE = """
import json, sys
from attnbench.cli.app import main
heavy = set(sys.argv[1].split())
for words in json.loads(sys.argv[2]):
    sys.argv = ["attnbench", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code, (words, left.code)
    print("\\nloaded:", *sorted(heavy & set(sys.modules)))
"""


def test_commands_load_nothing_heavy_that_they_do_not_need(stored: Stored, tmp_path: Path) -> None:
    run = stored(tmp_path / "results", "one")
    words = [[word.format(run=run) for word in command] for command, _, _ in LIGHTEST_FIRST]
    heavy = " ".join(set[str]().union(*(modules for _, modules, _ in LIGHTEST_FIRST)))
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-W", "error", "-c", ALL_IN_ONE, heavy, json.dumps(words)]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    *found, rest = re.split(r"\nloaded:(.*)\n", done.stdout)
    assert rest == ""
    for (command, modules, says), said, loaded in zip(LIGHTEST_FIRST, found[::2], found[1::2], strict=True):
        assert says in said
        assert not modules & set(loaded.split()), command
