"""The files that a run folder gets besides its records: whole, named by what they are, and of every run there may be."""

from pathlib import Path

import pytest

from attnbench.report.findings import Findings
from attnbench.report.write import contents, write
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec
from attnbench.store.run_folder import StoreError
from tests.report.conftest import Synthetic
from tests.report.drawn import found

TABLES = {"table.csv", "table.md", "table.tex", "index.html"}
NAMES = TABLES | {f"forward/{kind}.{form}" for kind in ("time", "memory") for form in ("png", "svg", "pdf", "txt")}


def written(folder: Path) -> dict[str, bytes]:
    """All but the single tables, which are named by their titles."""
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if "tables/" not in name}


def test_everything_a_run_needs_is_written_and_nothing_else(tmp_path: Path, small: Synthetic) -> None:
    files = write(tmp_path, found(small))
    assert written(tmp_path).keys() == NAMES
    single = {file for file in files if file.parent.name == "tables"}
    assert set(files) == {tmp_path / name for name in NAMES} | single
    assert {file.stem for file in single} == {
        "summary-forward-causal-float32",
        "time-per-sample-forward-causal-float32",
        "memory-per-sample-host-rss-peak-forward-causal-float32",
    }
    assert all(f"\\label{{tab:{file.stem}}}" in file.read_text() for file in single)
    assert all(file.stat().st_size > 100 for file in files)


def test_a_second_time_replaces_each_file_as_a_whole(tmp_path: Path, small: Synthetic) -> None:
    small.report = ReportSpec(plots=())
    (tmp_path / "table.md").write_text("old" * 100_000)
    write(tmp_path, found(small))
    first = written(tmp_path)
    write(tmp_path, found(small))
    assert written(tmp_path) == first
    assert not first["table.md"].startswith(b"old")


def test_a_write_that_fails_is_told_and_leaves_the_old_file_and_no_half_one(tmp_path: Path, small: Synthetic) -> None:
    small.report = ReportSpec(plots=())
    (tmp_path / "table.md" / "in the way").mkdir(parents=True)
    (tmp_path / "index.html").write_text("old")
    words = rf"cannot write .*/table.md: Is a directory; the records are kept: attnbench report {tmp_path}"
    with pytest.raises(StoreError, match=words):
        write(tmp_path, found(small))
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "table.md", "index.html"}
    assert (tmp_path / "index.html").read_text() == "old"


def test_names_of_methods_never_become_paths(tmp_path: Path, hostile: Synthetic) -> None:
    folder = tmp_path / "a" / "b" / "run"
    folder.mkdir(parents=True)
    write(folder, found(hostile))
    assert written(tmp_path).keys() == {f"a/b/run/{name}" for name in NAMES}


def test_one_cell_is_enough_for_all_files_and_none_for_empty_tables() -> None:
    run = Synthetic(Synthetic().laws[:1], lengths=(600,), causal=(False,), workloads=(Workload.FORWARD,), replicates=1)
    assert {name for name, _ in contents(found(run)) if not name.startswith("tables/")} == NAMES
    assert {name for name, _ in contents(Findings.of(Synthetic([]).run(), []))} == TABLES
