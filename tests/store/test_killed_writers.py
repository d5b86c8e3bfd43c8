"""Writers that are killed or run out of disk at any moment: no record that was reported as written is lost."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder
from tests.store.conftest import Numbered

HERE = Path(__file__).parent
KILLS = [(call, k) for call, most in (("write", 40), ("fsync", 40), ("renameat", 2)) for k in range(1, most + 1)]


def test_no_record_is_lost_torn_or_glued_by_twenty_kills(folder: RunFolder, numbered: Numbered) -> None:
    command = [sys.executable, str(HERE / "kill_storm.py"), str(folder.path), "20", "5"]
    done = subprocess.run(command, input=numbered(0).line() + "\n", capture_output=True, text=True, check=True)
    reported = [int(number) for number in done.stdout.split()]
    written = [int(record.note) for record in RunFolder(folder.path).repair()]
    assert len(reported) > 20, "the writers wrote"
    assert written == list(range(len(written)))
    assert reported == sorted(set(reported)), "no number was given twice, so each round found all of the rounds before"
    assert set(reported) <= set(written)


def append(results: Path, info: RunInfo, record: Record, count: int, *strace: str) -> subprocess.CompletedProcess[str]:
    """Run the appending program, under strace where options are given."""
    tracer = ["strace", "-f", "-qq", "-o", "/dev/null", *strace] if strace else []
    command = [*tracer, sys.executable, "-B", str(HERE / "appender.py"), str(results), str(count)]
    text = f"{info.model_dump_json()}\n{record.line()}\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def remains(results: Path, info: RunInfo) -> list[int]:
    """The numbers in the records file, each line of which must be whole."""
    folder = RunFolder(results / info.suite.name / info.id)
    numbers = [int(record.note) for record in folder.records()]
    file = folder.path / "records.jsonl"
    assert len(numbers) == (file.read_bytes().count(b"\n") if file.exists() else 0)
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(("call", "k"), KILLS, ids=str)
def test_a_run_that_is_killed_at_its_kth_call_can_be_continued(
    tmp_path: Path, run_info: RunInfo, numbered: Numbered, call: str, k: int
) -> None:
    killed = append(tmp_path, run_info, numbered(0), 40, f"--inject={call}:signal=SIGKILL:when={k}")
    assert killed.returncode == -signal.SIGKILL
    reported = [int(number) for number in killed.stdout.split()]
    path = tmp_path / run_info.suite.name / run_info.id
    if not (path / "run.json").exists():
        assert reported == []
        shutil.rmtree(path, ignore_errors=True)
    assert append(tmp_path, run_info, numbered(0), 3).returncode == 0
    numbers = remains(tmp_path, run_info)
    assert numbers == list(range(len(numbers)))
    assert set(reported) <= set(numbers)
    assert RunFolder(path).info() == run_info


@pytest.mark.slow
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_disk_that_is_full_at_the_kth_record_ends_the_run_in_words_and_keeps_the_others(
    tmp_path: Path, run_info: RunInfo, numbered: Numbered, call: str, k: int
) -> None:
    file = RunFolder.create(tmp_path, run_info).path / "records.jsonl"
    file.touch()
    full = append(tmp_path, run_info, numbered(0), 10, "-P", str(file), f"--inject={call}:error=ENOSPC:when={k}")
    assert full.returncode == 1
    assert full.stderr == f"StoreError: cannot write {file}: No space left on device; what was recorded so far is kept\n"
    assert [int(number) for number in full.stdout.split()] == remains(tmp_path, run_info) == list(range(k - 1))
    assert append(tmp_path, run_info, numbered(0), 3).returncode == 0
    assert remains(tmp_path, run_info) == list(range(k + 2))
