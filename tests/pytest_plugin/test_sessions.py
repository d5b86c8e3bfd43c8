"""The fixture in real sessions of pytest, as its users have them; every warning is an error."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench import Problem

TESTS = Path(__file__).parents[1]
# as fast as it goes: how good the numbers are is not asked here
QUICK = ("--benchmark-max-time=0.02", "--benchmark-min-rounds=3")
# what a processor says of itself differs from one moment to the next, and pytest-benchmark warns of it
MACHINE = """
import pytest

@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_generate_machine_info():
    return {"node": "here"}
"""

Run = subprocess.CompletedProcess[str]
Ran = tuple[Run, dict[str, Any]]


def start(folder: Path, *arguments: str) -> Run:
    """A pytest of its own."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nmarkers = cuda\n")
    (folder / "conftest.py").write_text(MACHINE)
    # a worker of xdist tells its children so, and pytest-benchmark would disable itself
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join([str(TESTS / "plugins"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**outside, "PYTHONPATH": path, "COLUMNS": "250"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


WATCH = """
import sys, pytest
for argument in ("--help", "--fixtures", "--collect-only"):
    pytest.main(["-p", "no:cacheprovider", argument])
    print(argument, "torch" in sys.modules, "attnbench" in sys.modules)
"""


def test_pytest_starts_without_torch_and_knows_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_it(attention_benchmark):\n    attention_benchmark('softmax.sdpa', N=64)\n")
    done = subprocess.run([sys.executable, "-c", WATCH], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    for argument in ("--help", "--fixtures", "--collect-only"):
        assert f"\n{argument} False True\n" in done.stdout, done.stdout + done.stderr
    assert re.search(r"attention_benchmark -- .*\n +Check and time an attention", done.stdout)


def test_without_pytest_benchmark_nothing_happens_until_a_test_asks(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_it(attention_benchmark):\n    pass\n\ndef test_another():\n    pass\n")
    done = start(tmp_path, "-p", "no:benchmark")
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "attention_benchmark needs pytest-benchmark: pip install pytest-benchmark" in done.stdout


MIXED = """
SHAPE = {"N": 128, "H": 2, "D": 16, "device": "cpu"}

def test_right(attention_benchmark):
    attention_benchmark("plain:Plain", **SHAPE)

def test_wrong(attention_benchmark):
    attention_benchmark("faulty:WrongValues", **SHAPE)

def test_raising(attention_benchmark):
    attention_benchmark("faulty:Raises", **SHAPE)

def test_refused(attention_benchmark):
    attention_benchmark("faulty:Declines", **SHAPE)

def test_missing(attention_benchmark):
    attention_benchmark("faulty:NeedsAPackage", **SHAPE)

def test_forgotten(attention_benchmark):
    pass
"""
NAMES = ("test_a_method[softmax.sdpa-forward-128]", "test_a_method[linear.chunked-forward-128]")
OURS = [f"test_methods.py::{name}" for name in NAMES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One benchmark of each kind, those that our page shows, and our own."""
    made = tmp_path_factory.mktemp("sessions")
    (made / "test_mixed.py").write_text(MIXED)
    page = (TESTS.parent / "docs" / "pytest.md").read_text(encoding="utf-8")
    (made / "test_page.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    shutil.copy(TESTS / "benchmarks" / "test_methods.py", made)
    return made


@pytest.fixture(scope="module")
def mixed(folder: Path) -> Ran:
    """All of them, of our own a few, saved: how the session ended, and what it wrote."""
    options = ("-rs", *QUICK, "--benchmark-autosave", "--benchmark-json=out.json")
    done = start(folder, *options, "test_mixed.py", "test_page.py", *OURS)
    return done, json.loads((folder / "out.json").read_text())


@pytest.fixture(scope="module")
def twice(folder: Path, mixed: Ran) -> Ran:
    """Our own, run again: the second run, and what it wrote."""
    second = start(folder, *QUICK, "--benchmark-compare", "--benchmark-json=now.json", *OURS)
    assert second.returncode == 0, second.stdout + second.stderr + mixed[0].stdout
    return second, json.loads((folder / "now.json").read_text())


def test_a_second_run_is_compared_with_the_first_and_methods_of_one_shape_stand_in_one_table(twice: Ran) -> None:
    said, report = twice[0].stdout, twice[1]
    assert "2 passed" in said
    for name in NAMES:
        assert re.search(rf"^{re.escape(name)} \(0001_", said, re.MULTILINE), said
        assert f"{name} (NOW)" in said
    assert {b["group"] for b in report["benchmarks"]} == {"forward causal float32 B=1 H=2 N=128 D=64 cpu"}
    assert said.count("- benchmark 'forward causal float32 B=1 H=2 N=128 D=64 cpu'") == 1, said


def test_the_json_says_what_was_timed_and_what_memory_it_took(twice: Ran) -> None:
    one = {benchmark["name"]: benchmark for benchmark in twice[1]["benchmarks"]}[NAMES[1]]
    info = one["extra_info"]
    assert (info["status"], info["method"], info["params"], info["tier"]) == ("ok", "linear.chunked", {"chunk": 64}, "eager")
    assert info["shape"] == Problem(N=128, H=2, causal=True).model_dump(mode="json")
    assert (info["workload"], info["device"], info["clock"], info["torch"]) == ("forward", "cpu", "wall", torch.__version__)
    assert one["options"]["timer"] == "wall"
    assert one["stats"]["rounds"] >= 3
    memory = info["memory"]
    assert memory["input_bytes"]["bytes"] == 3 * 2 * 128 * 64 * 4
    assert memory["torch_profiler_peak"]["bytes"] > 0
    assert info["peak_bytes"] == memory[info["peak_counter"]]["bytes"]
    # a number that is none says why, and is not 0
    assert "bytes" not in memory["torch_allocated_peak"]
    assert memory["torch_allocated_peak"]["reason"] == "this cell ran on a CPU"


def test_what_is_wrong_or_raises_fails_and_what_cannot_run_is_skipped_in_its_own_words(mixed: Ran) -> None:
    said = mixed[0].stdout
    # the one error is pytest-benchmark's own warning of a fixture that was asked for and not used
    assert "2 failed, 7 passed, 2 skipped, 1 error in" in said, said
    assert "Benchmark fixture was not used at all" in said
    assert re.search(r"faulty:WrongValues is incorrect: .* off by .* where .* is allowed, at N=64", said)
    assert "ValueError: this method is out of order" in said
    assert "faulty:Declines: only float64 is written" in said
    pip = "pip install 'a-package-that-nobody-has>=2'"
    assert f"faulty:NeedsAPackage needs a-package-that-nobody-has>=2: {pip}" in said


def test_what_the_page_shows_runs_and_what_was_not_timed_stands_in_the_json_with_its_reason(mixed: Ran) -> None:
    report = mixed[1]
    shown = [b["name"] for b in report["benchmarks"] if "test_page.py" in b["fullname"]]
    assert shown == ["test_forward[softmax.sdpa]", "test_forward[linear.chunked]", "test_mine"]
    assert [b["name"] for b in report["benchmarks"] if "test_mixed.py" in b["fullname"]] == ["test_right"]
    left_out = {one["method"]: one for one in report["attnbench"]["left_out"]}
    assert {method: one["status"] for method, one in left_out.items()} == {
        "faulty:WrongValues": "incorrect",
        "faulty:Raises": "error",
        "faulty:Declines": "unsupported",
        "faulty:NeedsAPackage": "missing",
    }
    assert left_out["faulty:Raises"]["reason"] == "ValueError: this method is out of order"
    assert left_out["faulty:Raises"]["fullname"] == "test_mixed.py::test_raising"
