"""The other commands, and what bad input gets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnbench import registry
from tests.cli.conftest import Run, Write

GOOD = "name: s\naxes: {N: 128, H: 2, D: 16}\nbudget: {seconds: 0.2}\n"
FEW = ["linear.chunked", "softmax.flash_attn", "softmax.naive"]
BROKEN = ["import_raises:Method", "import_exits:Method", "import_needs:Method", "faulty:NeedsAPackage"]


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Bad input ends with code 2 and words, never with a traceback."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_version_is_printed(attnbench: Run) -> None:
    assert attnbench("--version").stdout.startswith("attnbench ")


MANY = ", ".join(map(str, range(1, 1100)))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "run",
            GOOD + "methods:\n  - softmax.naive\n  - softmax.spda\n",
            ["s.yaml:6:5: methods.1.name: no method 'softmax.spda'; did you mean 'softmax.sdpa'"],
        ),
        (
            "plan",
            GOOD + "methods:\n  - softmax.sdpa\n  - plain:Plan\n",
            ["s.yaml:6:5: methods.1.name: plain has no 'Plan'; did you mean 'Plain'?"],
        ),
        ("run", GOOD + "methods:\n  - {name: linear.chunked, params: {chnk: 3}}\n", ["s.yaml:5:", "did you mean 'chunk'"]),
        ("plan", "name: s\naxes: {NN: 3, dtype: half}\nmethods: []\n", ["s.yaml:2:8:", "s.yaml:2:15:", "s.yaml:3:"]),
        ("run", f"name: s\naxes: {{N: 128, D: [{MANY}]}}\nmethods: [softmax.sdpa]\n", ["add --yes to measure them all"]),
        (
            "run",
            GOOD.replace("N: 128", "N: [64, 128]") + "methods: [softmax.sdpa]\nreplicates: 600000\n",
            ["suite 's' has 2 cells x 600,000 replicates, 1,200,000 processes; at most 1,000,000 make sense"],
        ),
    ],
    ids=["method", "class", "parameter", "several", "cells", "processes"],
)
def test_what_is_wrong_with_a_suite_is_told_with_its_place_and_what_was_meant(
    name: str, text: str, words: list[str], here: Run, suite: Write
) -> None:
    said = refused(here(name, suite(text)))
    assert [each for each in words if each not in said] == []


def test_a_suite_that_is_not_there_is_refused_with_those_that_ship(here: Run) -> None:
    words = refused(here("run", "scalin"))
    assert "did you mean 'scaling'?" in words
    assert "quick" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "quick", "--device", "tpu"), "--device tpu: 'tpu' is not a device; write auto, cpu, cuda or cuda:1"),
        (("plan", "quick", "--device", "tpu"), "--device tpu: 'tpu' is not a device"),
        (("maxlen", "softmax.sdpa", "--device", "tpu"), "--device tpu: 'tpu' is not a device"),
        (("methods", "--impl", "nobody:Knows"), "nobody:Knows: there is no module 'nobody', here or installed"),
        (("maxlen", "nobody:Knows"), "nobody:Knows: there is no module 'nobody', here or installed"),
        (("selfcheck", "--device", "tpu"), "--device tpu: 'tpu' is not a device"),
        (("selfcheck", "--seconds", "1e10"), "--seconds 10000000000.0: input should be less than or equal to 172800"),
        (("selfcheck", "--verdicts", "100000", "--replicates", "1000"), "that is 200,000,000 processes; at most 1,000,000"),
        (("run", "quick", "--replicates", "1000000000000"), "--replicates"),
        (("gate", "quick", "--base", "HEAD", "--max-replicates", "1000000000000"), "--max-replicates"),
        (("crossover", "quick", "--measure", "--replicates", "1000000000000"), "--replicates"),
        (("show", "softmax.naive", "--width", "1000000000000"), "--width"),
        (("record", "run", "--method", "m", "--out", "a.safetensors", "--sequences", "1000000000000"), "--sequences"),
        # lanes that there are not
        (("run", "s.yaml", "--lanes", "999"), "--lanes 999: this process may use "),
        (("run", "s.yaml", "--devices", "cuda:0", "--device", "cpu"), "--device cpu: several devices are GPUs; leave it out"),
        (("run", "s.yaml", "--lanes", "2", "--devices", "cuda:0"), "--lanes 2: lanes share the cores of a CPU"),
        (
            ("run", "s.yaml", "--devices", "cpu"),
            "--devices cpu: write cuda:0,cuda:1 or all; on a CPU, --lanes 2 shares its cores out",
        ),
        # options that would say nothing
        (("run", "s.yaml", "--dry-run"), "--dry-run goes with --on slurm"),
        (("run", "s.yaml", "--wait", "--on", "ray"), "--wait goes with --on slurm"),
        (("run", "s.yaml", "--array", "3"), "--array goes with --on slurm"),
        (("run", "s.yaml", "--address", "auto", "--on", "slurm"), "--address goes with --on ray"),
        (("run", "s.yaml", "--lanes", "2", "--on", "ray"), "--lanes goes with a run on this machine"),
        (("run", "s.yaml", "--shard", "1/2", "--on", "slurm"), "--shard goes with a run on this machine or --on ray"),
        (("run", "s.yaml", "--on", "kubernetes"), "--on kubernetes: there are: ray, slurm"),
        # shares that are none
        *(
            (
                ("run", "s.yaml", f"--shard={share}"),
                f"--shard {share}: write the number of the share and how many there are, as 3/8",
            )
            for share in ("0/2", "3/2", "x", "1/", "-1/2", "1/2/3")
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name(
    arguments: tuple[str, ...], words: str, here: Run, suite: Write, tmp_path: Path
) -> None:
    suite(GOOD + "methods: [softmax.sdpa]\n")
    assert words in refused(here(*arguments))
    assert not (tmp_path / "results").exists()


def test_a_share_without_a_bundle_is_refused(here: Run, suite: Write) -> None:
    text = GOOD.replace("N: 128", "N: [64, 80, 96]") + "methods: [softmax.sdpa]\n"
    assert "--shard 4/4: the suite has only 3 bundles to share out" in refused(here("run", suite(text), "--shard", "4/4"))


def test_a_name_of_bytes_that_are_no_text_is_refused(attnbench: Run) -> None:
    words = refused(attnbench("run", "quick", "--impl", "\udcff.py:Mine"))
    assert "write it as module:Class or path/to/file.py:Class" in words


@pytest.mark.slow
def test_a_folder_whose_name_is_no_text_is_written_into(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    done = attnbench("run", suite(GOOD + "methods: [plain:Plain]\nreplicates: 1\nreport: {plots: []}\n"), "--results", "\udcff")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("\udcff/s/*/table.md"))


OWN = "from plain import Plain\n\n\nclass Mine(Plain):\n    pass\n"


@pytest.mark.slow
def test_all_commands_find_ones_own_class_in_the_folder_they_are_given_in(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    for name in ("mine:Mine", "mine.py:Mine"):
        drawn = attnbench("show", name, "--N", "8", "--out", "a.svg")
        assert drawn.returncode == 0, drawn.stderr
        longest = attnbench("maxlen", name, "--limit", "2^9")
        assert longest.returncode == 0, longest.stderr
        assert name in longest.stdout
    listed = attnbench("methods", "--impl", "mine:Mine", "--impl", "mine.py:Mine")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("a fixture of the tests") == 2
    (tmp_path / "mine.py").write_text(OWN.replace("    pass", '    paper = "another"'))
    assert "another" in attnbench("methods", "--impl", "mine:Mine").stdout


@pytest.mark.parametrize(
    ("impl", "words"),
    [
        ("nobody:Knows", "--impl nobody:Knows: there is no module 'nobody', here or installed"),
        ("import_raises:Method", "--impl import_raises:Method: "),
        ("absent.py:Mine", "there is no file absent.py"),
        ("no_colon", "module:Class"),
    ],
)
def test_what_is_added_and_is_no_method_is_refused_before_anything_is_measured(
    impl: str, words: str, here: Run, suite: Write, tmp_path: Path
) -> None:
    said = refused(here("run", suite(GOOD + "methods: [softmax.sdpa]\n"), "--impl", impl))
    assert words in said
    assert not (tmp_path / "results").exists()


def test_a_device_that_is_not_there_is_told(here: Run, suite: Write) -> None:
    done = here("run", suite(GOOD + "methods: [softmax.sdpa]\n"), "--device", "cuda:77")
    assert done.returncode == 1
    assert re.search(
        r"error: device 'cuda:77' cannot be used: torch \S+ (is built without CUDA|finds (no GPU|only cuda:0))", done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("devices", "words"), [("all", "--devices all: no GPU can be found"), ("cuda:0,cuda:1", "cannot be used")]
)
def test_several_devices_that_are_not_there_are_told(devices: str, words: str, here: Run, suite: Write, tmp_path: Path) -> None:
    done = here("run", suite(GOOD + "methods: [softmax.sdpa]\n"), "--devices", devices)
    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_run_says_at_its_start_what_disturbs_the_machine(here: Run, suite: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 1.0, 1.0))
    done = here("run", suite(GOOD + "methods: [softmax.sdpa]\nreplicates: 1\nreport: {tables: [summary], plots: []}\n"))
    assert done.returncode == 0, done.stderr
    # other tests may be measuring beside this one
    first = next(line for line in done.stderr.splitlines() if not line.startswith("waiting for "))
    assert first.startswith("this machine is disturbed, and times will scatter: load: 99.00 over the last minute")
    assert first.endswith("attnbench doctor says more")


@pytest.mark.parametrize(
    ("words", "says"), [(("--resume", "."), ". is not a run folder"), (("--results", "file"), "cannot create file")]
)
def test_a_folder_that_is_no_run_or_cannot_be_made_is_told(
    words: tuple[str, str], says: str, here: Run, suite: Write, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file")
    done = here("run", suite(GOOD + "methods: [softmax.sdpa]\n"), *words)
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    "words",
    [("report",), ("plot",), ("export", "--to", "pyperf"), ("history", "add", "--to", "kept")],
    ids=lambda words: words[0],
)
def test_whoever_reads_a_run_is_told_that_a_folder_is_none(words: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    done = run(*words, str(tmp_path))
    assert (done.returncode, "is not a run folder" in done.stderr) == (1, True), done.stderr


def test_plan_shows_cells_and_measures_nothing(here: Run, suite: Write, tmp_path: Path) -> None:
    text = GOOD + "methods: [softmax.sdpa, {name: lsh.reformer_pytorch, params: {bucket_size: [16, 48]}}]\n"
    done = here("plan", suite(text))
    assert done.returncode == 0, done.stderr
    assert "3 cells, 2 to be measured" in done.stdout
    assert "unknown" in done.stdout
    assert "attnbench doctor" in done.stdout
    assert not (tmp_path / "results").exists()


def test_plan_tells_cells_apart_by_all_that_varies_and_says_how_long_it_takes(here: Run, suite: Write) -> None:
    axes = "N: 128, H: [2, 4], D: 16, dtype: [float32, bfloat16], scale: [1, 2]"
    text = f"name: s\naxes: {{{axes}}}\nmethods: [softmax.sdpa]\nworkloads: [forward, numerics]\nreplicates: 20\n"
    done = here("plan", suite(text))
    assert done.returncode == 0, done.stderr
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
    done = here("plan", suite(text))
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.lstrip().startswith("128")] == ["1", "max"]
    assert "the searches for the largest B come on top" in done.stdout


def test_plan_knows_times_once_the_doctor_has_been(here: Run, suite: Write) -> None:
    looked = here("doctor")
    assert looked.returncode == 0, looked.stderr
    assert "roof float32" in looked.stdout
    done = here("plan", suite(GOOD + "methods: [softmax.sdpa]\n"))
    assert "unknown" not in done.stdout


def test_methods_still_lists_the_others_where_one_cannot_be_imported(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: registry.catalogue()[name] for name in FEW}
    monkeypatch.setattr(registry, "catalogue", lambda: known)
    done = here("methods", *(word for impl in BROKEN for word in ("--impl", impl)))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith(" ")] == [*FEW, *BROKEN]
    # one of the broken ones can be asked, and lacks a package
    assert done.stdout.count("tier ") == len(FEW) + 1
    assert done.stdout.count("arXiv") >= len(FEW)
    assert "pip install 'a-package-that-nobody-has>=2'" in done.stdout


@pytest.mark.slow
def test_methods_lists_every_method_with_tier_and_paper(attnbench: Run) -> None:
    listed = attnbench("methods").stdout
    assert [line for line in listed.splitlines() if not line.startswith(" ")] == list(registry.catalogue())
    assert listed.count("tier ") == len(registry.catalogue())
    assert listed.count("arXiv") >= 5


@pytest.mark.slow
def test_a_third_party_package_with_one_entry_point_is_listed_and_runs(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    source = tmp_path / "package"
    (source / "their_attention").mkdir(parents=True)
    module = "from plain import Plain\n\n\nclass Theirs(Plain):\n    pass\n"
    (source / "their_attention" / "__init__.py").write_text(module)
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "their-attention"\nversion = "1.2"\n'
        '[project.entry-points."attnbench.impls"]\n"theirs.best" = "their_attention:Theirs"\n'
    )
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(tmp_path / "site"), str(source)], check=True, capture_output=True)
    path = f"{tmp_path / 'site'}{os.pathsep}{os.environ['PYTHONPATH']}"
    assert "theirs.best" in attnbench("methods", PYTHONPATH=path).stdout
    done = attnbench("run", suite(GOOD + "methods: [theirs.best]\nreplicates: 1\n"), PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    (table,) = (tmp_path / "results").glob("*/*/table.csv")
    assert "theirs.best" in table.read_text()
    assert ",ok," in table.read_text()
