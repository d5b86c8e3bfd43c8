"""The change points of Apache Otava and of asv, in environments of their own: on clear cases the same as ours."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnbench.analyze.change_points import segment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for series in json.load(sys.stdin):
    found, _ = compute_change_points(series, window_len=50, max_pvalue=0.001, min_magnitude=0.05)
    print(json.dumps([int(each.index) for each in found]))
"""
ASV = """
import json, sys
from asv.step_detect import detect_steps
for series in json.load(sys.stdin):
    print(json.dumps([int(step[0]) for step in detect_steps(series)[1:]]))
"""
CASES: dict[str, tuple[list[int], list[float]]] = {
    "none": ([60], [1.0]),
    "slower": ([30, 30], [1.0, 1.3]),
    "faster": ([25, 35], [1.0, 0.7]),
    "twice": ([20, 20, 20], [1.0, 1.3, 1.7]),
    "and back": ([20, 20, 20], [1.0, 1.4, 1.0]),
    "long": ([100, 150, 50], [1.0, 1.2, 0.9]),
}


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where their packages can be, whatever they pin."""
    return tmp_path_factory.mktemp("venvs")


def python_with(venv: Path, package: str) -> Path:
    """An interpreter that has a package."""
    folder = venv / package
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", package], check=True, capture_output=True)
    return python


def series() -> list[list[float]]:
    """Milliseconds with two per cent of noise."""
    rng = np.random.default_rng(1)
    return [
        [float(v) for v in np.repeat(levels, sizes) * 12.0 * np.exp(rng.normal(0, 0.02, sum(sizes)))]
        for sizes, levels in CASES.values()
    ]


def ours() -> list[list[int]]:
    return [[step.at for step in segment(np.log(np.array(each)), 0.05)] for each in series()]


def theirs(python: Path, program: str) -> list[list[int]]:
    text = json.dumps(series())
    done = subprocess.run([str(python), "-c", program], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ours_are_the_true_ones() -> None:
    assert ours() == [list(np.cumsum(sizes)[:-1]) for sizes, _ in CASES.values()]


@pytest.mark.parametrize(("package", "program"), [("apache-otava", OTAVA), ("asv", ASV)])
def test_theirs_are_the_same_to_one_run(venv: Path, package: str, program: str) -> None:
    for name, own, other in zip(CASES, ours(), theirs(python_with(venv, package), program), strict=True):
        assert len(own) == len(other), (name, own, other)
        assert all(abs(a - b) <= 1 for a, b in zip(own, other, strict=True)), (name, own, other)
