"""A folder that somebody else made: what lies in it is not run, and a pickle is never opened."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.report.exports.formats import FORMATS
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import PLUGINS, Run, Stored, Write, fine

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


SLOW = [pytest.param(words, marks=pytest.mark.slow) for words in ("doctor", "run s.yaml", "run s.yaml --fresh")]


@pytest.mark.parametrize("words", ["plan s.yaml", *SLOW])
def test_a_folder_s_own_modules_and_its_git_programs_are_not_started(words: str, suite: Write, tmp_path: Path) -> None:
    suite(SUITE)
    mark = booby_trapped(tmp_path)
    # the command itself: python -m, or a PYTHONPATH with an empty part, would look here first of all
    script, env = Path(sys.executable).with_name("attnbench"), {**os.environ, "PYTHONPATH": str(PLUGINS)}
    line = [str(script), *words.split()]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize(
    ("links", "words", "code"),
    [
        ([".table.csv.partial", "table.csv", "table.md", "index.html", "forward"], "report {run}", 1),
        (["figures"], "plot {run} --kind scaling --format png", 2),
        (["otava"], "export {run} --to otava", 2),
    ],
    ids=["report", "plot", "export"],
)
def test_nothing_is_written_where_the_links_of_a_run_s_folder_lead(
    links: list[str], words: str, code: int, run: Run, stored: Stored, tmp_path: Path
) -> None:
    folder, mine = stored(tmp_path, "one", plots=("time",)), tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("dear")
    *to_a_file, to_a_folder = links
    for name in to_a_file:
        (folder / name).symlink_to(mine / "letter")
    (folder / to_a_folder).symlink_to(mine)
    done = run(*words.format(run=folder).split())
    assert done.returncode == code
    assert f"{to_a_folder} is not a folder, or is a link, which is not followed" in done.stderr
    assert [(file.name, file.read_text()) for file in mine.iterdir()] == [("letter", "dear")]
    (folder / to_a_folder).unlink()
    fine(run(*words.format(run=folder).split()))
    assert any((folder / to_a_folder).iterdir())


def test_what_a_run_says_of_itself_gives_a_terminal_no_commands(run: Run, stored: Stored, tmp_path: Path) -> None:
    folder = stored(tmp_path, "one")
    escape = "\x1b]0;owned\x07\x1b[2J"
    text = (folder / "run.json").read_text()
    for name in ("linear.chunked", "attnbench run made", "2026-01-02", '"one"'):
        text = text.replace(name, name[:-1] + "\\u001b]0;owned\\u0007\\u001b[2J" + name[-1])
    (folder / "run.json").write_text(text)
    assert escape in RunFolder(folder).info().command
    commands = [("report",), *(("export", "--to", name) for name in FORMATS), ("compare",), ("history", "add", "--to", "kept")]
    for words in commands:
        done = run(*words, str(folder))
        assert "\x1b" not in done.stdout + done.stderr, words
    twice = run("export", str(folder), str(folder), "--to", "otava", "--out", str(tmp_path / "out"))
    assert "are one run" in twice.stderr
    assert "\x1b" not in twice.stderr


class Poison:
    """Leaves a mark when it is opened as a pickle."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize(
    "places", ["run.json", "records.jsonl", "records.aside run.lock table.csv index.html run.pkl checkpoints/x.safetensors"]
)
def test_what_is_pickled_in_a_run_folder_is_never_run(places: str, run: Run, stored: Stored, tmp_path: Path) -> None:
    folder, mark = stored(tmp_path, "run"), tmp_path / "was-here"
    poison = pickle.dumps(Poison(mark))
    pickle.loads(poison)
    assert mark.exists(), "it is poison"
    mark.unlink()
    (folder / "checkpoints").mkdir()
    for place in places.split():
        (folder / place).write_bytes(poison)
    for command in (("export", folder, "--to", "parquet"), ("history", "list", tmp_path), ("compare", folder)):
        done = run(*command)
        assert done.returncode in {0, 1, 2}, done.stderr
        assert "Traceback" not in done.stderr
    assert not mark.exists()
