"""A folder that somebody else made: what lies in it is not run because a command is given there."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str], str]

PLUGINS = Path(__file__).parents[1] / "plugins"
SUITE = "name: s\naxes: {N: 64, H: 1, D: 8}\nmethods: [plain:Plain]\nbudget: {seconds: 0.05}\nreplicates: 1\n"


def booby_trapped(folder: Path) -> Path:
    """Modules called like others, and a checkout that names programs; the file that any of them would leave."""
    mark = folder / "was-here"
    for name in ("torch", "random", "typer", "json", "statistics", "numpy"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write('{name} ')\nraise SystemExit(3)\n")
    monitor = folder / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\necho monitor >> {mark}\n")
    monitor.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "config", "core.fsmonitor", str(monitor)], check=True)
    return mark


@pytest.mark.parametrize("command", [("doctor",), ("plan", "s.yaml"), ("run", "s.yaml"), ("run", "s.yaml", "--fresh")])
def test_a_folder_s_own_modules_and_its_git_programs_are_not_started(
    command: tuple[str, ...], suite: Write, tmp_path: Path
) -> None:
    suite(SUITE)
    mark = booby_trapped(tmp_path)
    # the command itself: python -m, or a PYTHONPATH with an empty part, would look here first of all
    script, env = Path(sys.executable).with_name("attnbench"), {**os.environ, "PYTHONPATH": str(PLUGINS)}
    done = subprocess.run([script, *command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()


def test_one_s_own_attention_is_found_in_the_folder(attnbench: Run, suite: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from plain import Plain\n\nclass Mine(Plain):\n    pass\n")
    done = attnbench("run", suite(SUITE.replace("plain:Plain", "mine:Mine")), PYTHONPATH=os.environ["PYTHONPATH"])
    assert done.returncode == 0, done.stderr
    assert "mine:Mine" in done.stdout
