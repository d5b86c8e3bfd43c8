"""A long run is read by several processes; what comes of it is the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.analyze.cells import summarize
from attnbench.cli import reading
from attnbench.store.run_folder import RunFolder, StoreError

Written = Callable[[Path, float, int], Path]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_long_run_read_by_several_processes_gives_what_one_would(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_LEAST_BYTES", 2**14)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    folder = RunFolder(written(tmp_path / "run", 1.0, 2))
    assert len(folder.parts(3, 2**14)) == 3
    run = folder.info()
    assert reading.summaries(folder, run) == summarize(run.cells, folder.read())


def test_a_run_that_cannot_be_read_says_so(tmp_path: Path, written: Written) -> None:
    folder = RunFolder(written(tmp_path / "run", 1.0, 1))
    run = folder.info()
    (folder.path / "records.jsonl").unlink()
    (folder.path / "records.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"cannot read .*records\.jsonl"):
        reading.summaries(folder, run)
