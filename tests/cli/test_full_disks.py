"""Disks that are full, folders that cannot be written, an output that takes nothing: one line, an exit code, records intact."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from attnbench.store.lock import LockedError, locked
from tests.cli.conftest import Run, Stored


@pytest.fixture
def run_folder(stored: Stored, tmp_path: Path) -> Path:
    return stored(tmp_path, "run")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB: tables fit, a page does not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "attnbench-test", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def line_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that it says."""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_disk_that_fills_during_a_report_leaves_records_and_the_old_page(
    run: Run, run_folder: Path, small_disk: Path
) -> None:
    copy = shutil.copytree(run_folder, small_disk / "run")
    (copy / "index.html").write_text("old")
    before = contents(copy)
    done = run("report", str(copy))
    assert done.returncode == 1
    words = f"cannot write {copy / 'index.html'}: No space left on device; the records are kept: attnbench report {copy}"
    assert line_of(done) == words
    assert {name: content for name, content in contents(copy).items() if name in before} == before
    assert contents(copy).keys() - before.keys() == {"table.csv", "table.md", "table.tex"}


def test_a_folder_that_has_become_read_only_is_told(run: Run, run_folder: Path, small_disk: Path) -> None:
    copy = shutil.copytree(run_folder, small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for words, code in ((("report",), 1), (("export", "--to", "pyperf"), 2)):
        done = run(*words, str(copy))
        assert done.returncode == code, done
        assert "Read-only file system" in line_of(done)
    with pytest.raises(LockedError, match=r"cannot be locked \(Read-only file system\)"):
        locked(copy / "run.lock").__enter__()
    assert contents(copy) == contents(run_folder)


@pytest.mark.parametrize(
    "words",
    [
        "export {run} --to pyperf --out {disk}/x.json",
        "report {run} --out {disk}/x.html",
        "compare {run} {run} --out {disk}/x.png",
        "gate --stored {run} {run} --json {disk}/x.json",
        "plot {run} --kind scaling --format png --out {disk}",
    ],
)
def test_a_full_disk_is_told_and_the_old_file_stays(run: Run, run_folder: Path, small_disk: Path, words: str) -> None:
    for name in ("x.json", "x.html", "x.png"):
        (small_disk / name).write_text("old")
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    done = run(*words.format(run=run_folder, disk=small_disk).split())
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(file.name for file in small_disk.iterdir()) == ["filler", "x.html", "x.json", "x.png"]
    assert {(small_disk / name).read_text() for name in ("x.json", "x.html", "x.png")} == {"old"}


# what one is for a verdict is no code for a full disk
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("report {run}", 1),
        ("export {run} --to bencher --out -", 1),
        ("compare {run} {run}", 1),
        ("compare {run} {run} --exit-code", 2),
        ("gate --stored {run} {run}", 2),
    ],
)
def test_an_answer_not_taken_is_told(
    words: str, code: int, run: Run, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        done = run(*words.format(run=run_folder).split())
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == "error: standard output: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("{attnbench} --help > /dev/full", 1, "error: standard output: No space left on device\n"),
        ("{attnbench} export {run} --to bencher --out {run}/../x.json >&-", 0, ""),
        # whoever reads it leaves
        ("{attnbench} --help | true; exit ${{PIPESTATUS[0]}}", 1, ""),
        ("ulimit -n 5; {attnbench} run --resume {run}", 1, "Too many open files\n"),
    ],
    ids=["full", "closed", "left", "no more files"],
)
def test_a_shell_gets_one_line_or_none_and_records_stay(script: str, code: int, says: str, run_folder: Path) -> None:
    before = contents(run_folder)
    line = script.format(attnbench=f"{sys.executable} -m attnbench", run=run_folder)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code
    assert done.stderr.endswith(says)
    assert len(done.stderr.splitlines()) == len(says.splitlines())
    assert contents(run_folder) == before
    assert "export" not in script or json.loads((run_folder.parent / "x.json").read_text())


@pytest.mark.parametrize(
    ("words", "summary"),
    [
        ("{run} nowhere", ""),
        ("nowhere {run}", ""),
        ("{run} {run} --json {run}/run.json/x.json", ""),
        ("{run} {run} --out {run}/run.json/x.md", ""),
        ("{run} {run}", "/dev/full"),
        ("{run} {run}", "no/such/folder"),
    ],
)
def test_what_keeps_a_gate_from_its_verdict_is_never_called_a_regression(
    words: str, summary: str, run: Run, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", summary)
    done = run("gate", "--stored", *words.format(run=run_folder).split())
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_program_is_none_either(run: Run, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.library.compare.judge_runs", lambda *_: {"something": 1}["nothing"])
    done = run("gate", "--stored", run_folder, run_folder)
    assert (done.returncode, "KeyError: 'nothing'" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        *("report {long}", "report {run} --out {long}.html", "run {long}", "run quick --resume {long}", "crossover {long}"),
        *("maxlen {long}", "site {long} site", "published {long}", "trend {long}", "history list {long}"),
    ],
)
def test_a_name_that_is_too_long_is_told(run: Run, run_folder: Path, words: str) -> None:
    done = run(*words.format(run=run_folder, long="x" * 300).split())
    assert "File name too long" in line_of(done)
    assert done.returncode == 2
