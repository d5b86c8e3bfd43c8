"""Writers that are killed or run out of disk at any moment: no record that was reported as written is lost."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder
from tests.store.conftest import Numbered

KILLS = [(call, k) for call, most in (("write", 40), ("fsync", 40), ("renameat", 2)) for k in range(1, most + 1)]
Append = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def append(tmp_path: Path, run_info: RunInfo, numbered: Numbered) -> Append:
    """Run the appending program, under strace where options are given."""

    def _run(*words: object, strace: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        tracer = ["strace", "-f", "-qq", "-o", "/dev/null", *strace] if strace else []
        program = [sys.executable, "-B", str(Path(__file__).with_name("appender.py")), str(tmp_path), *map(str, words)]
        text = f"{run_info.model_dump_json()}\n{numbered(0).line()}\n"
        return subprocess.run([*tracer, *program], input=text, capture_output=True, text=True, check=False)

    return _run


def told(done: subprocess.CompletedProcess[str]) -> list[int]:
    """The numbers that the store reported as written."""
    return [int(number) for number in done.stdout.split()]


def remains(folder: RunFolder) -> list[int]:
    """The numbers in the records file, each line of which must be whole."""
    numbers = [int(record.note) for record in folder.records()]
    file = folder.path / "records.jsonl"
    assert len(numbers) == (file.read_bytes().count(b"\n") if file.exists() else 0)
    return numbers


def test_no_record_is_lost_torn_or_glued_by_twenty_kills(tmp_path: Path, run_info: RunInfo, append: Append) -> None:
    done = append("storm", 20, 5)
    assert done.returncode == 0, done.stderr
    reported = told(done)
    written = [int(record.note) for record in RunFolder.at(tmp_path, run_info).repair()]
    assert reported, "the writers wrote"
    assert written == list(range(len(written)))
    assert reported == sorted(set(reported)), "no number was given twice, so each round found all of the rounds before"
    assert set(reported) <= set(written)


@pytest.mark.slow
@pytest.mark.parametrize(("call", "k"), KILLS, ids=str)
def test_a_run_that_is_killed_at_its_kth_call_can_be_continued(
    tmp_path: Path, run_info: RunInfo, append: Append, call: str, k: int
) -> None:
    folder = RunFolder.at(tmp_path, run_info)
    killed = append(40, strace=(f"--inject={call}:signal=SIGKILL:when={k}",))
    assert killed.returncode == -signal.SIGKILL
    if not folder.begun:
        assert told(killed) == []
        shutil.rmtree(folder.path, ignore_errors=True)
    assert append(3).returncode == 0
    numbers = remains(folder)
    assert numbers == list(range(len(numbers)))
    assert set(told(killed)) <= set(numbers)
    assert folder.info() == run_info


@pytest.mark.slow
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_disk_that_is_full_at_the_kth_record_ends_the_run_in_words_and_keeps_the_others(
    tmp_path: Path, run_info: RunInfo, append: Append, call: str, k: int
) -> None:
    folder = RunFolder.create(tmp_path, run_info)
    file = folder.path / "records.jsonl"
    file.touch()
    full = append(10, strace=("-P", str(file), f"--inject={call}:error=ENOSPC:when={k}"))
    assert full.returncode == 1
    assert full.stderr == f"StoreError: cannot write {file}: No space left on device; what was recorded so far is kept\n"
    assert told(full) == remains(folder) == list(range(k - 1))
    assert append(3).returncode == 0
    assert remains(folder) == list(range(k + 2))
