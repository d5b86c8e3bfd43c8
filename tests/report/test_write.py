import io
from pathlib import Path

import pandas as pd
import pytest

from attnbench.report.findings import Findings
from attnbench.report.write import contents, write
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec
from attnbench.store.run_folder import StoreError
from tests.report.conftest import Synthetic

TABLES = {"table.csv", "table.md", "table.tex", "index.html"}
FIGURES = {f"forward/{kind}.{form}" for kind in ("time", "memory") for form in ("png", "svg", "pdf", "txt")}
NAMES = TABLES | FIGURES


def names(folder: Path) -> set[str]:
    """All but the single tables, which are named by their titles."""
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    return {name for name in found if "tables/" not in name}


def test_everything_a_run_needs_is_written_and_nothing_else(tmp_path: Path, small: Synthetic) -> None:
    files = write(tmp_path, Findings.of(small.run(), small.records()))
    assert names(tmp_path) == NAMES
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
    write(tmp_path, Findings.of(small.run(), small.records()))
    first = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    write(tmp_path, Findings.of(small.run(), small.records()))
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == first
    assert not first["table.md"].startswith(b"old")


def test_a_write_that_fails_is_told_and_leaves_the_old_file_and_no_half_one(tmp_path: Path, small: Synthetic) -> None:
    small.report = ReportSpec(plots=())
    (tmp_path / "table.md" / "in the way").mkdir(parents=True)
    (tmp_path / "index.html").write_text("old")
    words = rf"cannot write .*/table.md: Is a directory; the records are kept: attnbench report {tmp_path}"
    with pytest.raises(StoreError, match=words):
        write(tmp_path, Findings.of(small.run(), small.records()))
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "table.md", "index.html"}
    assert (tmp_path / "index.html").read_text() == "old"


def test_names_of_methods_never_become_paths(tmp_path: Path, hostile: Synthetic) -> None:
    folder = tmp_path / "a" / "b" / "run"
    folder.mkdir(parents=True)
    write(folder, Findings.of(hostile.run(), hostile.records()))
    assert names(tmp_path) == {f"a/b/run/{name}" for name in NAMES}


@pytest.mark.parametrize("kept", [0, 1, 7])
def test_an_interrupted_run_has_a_row_for_every_cell(small: Synthetic, kept: int) -> None:
    # half a run has pictures; of one without a record it is asked in figures/test_kinds
    small.report = ReportSpec(plots=("time",) if kept == 7 else ())
    run = small.run()
    files = dict(contents(Findings.of(run, small.records()[:kept])))
    table = pd.read_csv(io.BytesIO(files["table.csv"]))
    assert len(table) == len(run.cells)
    assert "not run" in files["table.md"].decode()


def test_a_run_with_nothing_planned_has_empty_tables() -> None:
    files = dict(contents(Findings.of(Synthetic([]).run(), [])))
    assert set(files) == {"table.csv", "table.md", "table.tex", "index.html"}


def test_one_cell_is_enough() -> None:
    run = Synthetic(Synthetic().laws[:1], lengths=(600,), causal=(False,), workloads=(Workload.FORWARD,), replicates=1)
    files = set(dict(contents(Findings.of(run.run(), run.records()))))
    assert {name for name in files if not name.startswith("tables/")} == NAMES
