"""The files of a run folder: the long table has a row for every planned cell, with every figure or why there is none."""

import csv
import gzip
import io
import math
from pathlib import Path

import pandas as pd
import pytest

from attnbench.analyze.quantities import quantities
from attnbench.report.conditions import warnings
from attnbench.report.findings import Findings
from attnbench.report.frame import COUNTERS, frame
from attnbench.report.frame import csv as long_csv
from attnbench.report.write import contents, write
from attnbench.schema.cell import Workload
from attnbench.schema.cost import Cost
from attnbench.schema.figures import FIGURES
from attnbench.schema.suite import ReportSpec
from attnbench.store.run_folder import RunFolder, StoreError
from tests.report.conftest import Synthetic
from tests.report.drawn import found


def test_a_failed_row_has_a_reason_and_no_number(small: Synthetic) -> None:
    table = pd.read_csv(io.StringIO(long_csv(found(small))))
    failed, fine = table[table["status"] != "ok"], table[table["status"] == "ok"]
    numbers = [c for c in map(str, table.columns) if c.startswith(("time_", "tokens_", "throughput_", "roof", "memory_bytes"))]
    assert failed["reason"].notna().all()
    assert failed[numbers].isna().all().all()
    assert failed["memory_reason"].notna().all()
    assert fine[numbers].notna().all().all()


def test_the_columns_are_the_same_for_an_empty_run_and_hold_the_whole_vocabulary(small: Synthetic) -> None:
    full, empty, known = frame(found(small)), frame(Findings.of(small.run(), [])), quantities(())
    assert list(full) == list(empty)
    assert list(empty["status"]) == ["not_run"] * len(full)
    assert {f"{name.removesuffix('_bytes')}_bytes_of_batch" for name in COUNTERS} <= set(empty)
    assert {known[name].column for name in FIGURES} <= set(empty)


@pytest.mark.parametrize(
    ("flops", "traffic", "warning", "note"),
    [
        (1e15, 1, "error of measurement", "Warning: "),
        # the roof's copy does not stay in cache
        (1, 1e15, "stayed in cache", "Above the roof where what a call touches stayed in cache"),
    ],
)
def test_a_time_below_the_roof_has_a_warning(small: Synthetic, flops: float, traffic: float, warning: str, note: str) -> None:
    run = small.run()
    absurd = {run.cells[0].key: Cost(nominal_flops=1, exact_flops=1, executed_flops=flops, traffic_bytes=traffic)}
    findings = Findings.of(run.model_copy(update={"costs": run.costs | absurd}), small.records())
    table = frame(findings)
    assert table["roof"][0] > 1
    assert warning in table["warning"][0]
    assert not table["warning"][1]
    assert table["roof_floor_s_per_call"][1] == pytest.approx(16 * 8 * 512 * 64 / 1.7e10)
    (said,) = (line for line in warnings(findings, findings.summaries) if "roof" in line)
    assert said.startswith(note)


# the files beside it: whole, named by what they are, and of every run there may be

TABLES = {"table.csv", "table.md", "table.tex", "index.html"}
NAMES = TABLES | {f"forward/{kind}.{form}" for kind in ("time", "memory") for form in ("png", "svg", "pdf", "txt")}


def files_in(folder: Path) -> dict[str, bytes]:
    """All but the single tables, which are named by their titles."""
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if "tables/" not in name}


def test_everything_a_run_needs_is_written_and_nothing_else(tmp_path: Path, small: Synthetic) -> None:
    files = write(tmp_path, found(small))
    assert files_in(tmp_path).keys() == NAMES
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
    first = files_in(tmp_path)
    write(tmp_path, found(small))
    assert files_in(tmp_path) == first
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
    assert files_in(tmp_path).keys() == {f"a/b/run/{name}" for name in NAMES}


def test_one_cell_is_enough_for_all_files_and_none_for_empty_tables() -> None:
    run = Synthetic(Synthetic().laws[:1], lengths=(600,), causal=(False,), workloads=(Workload.FORWARD,), replicates=1)
    assert {name for name, _ in contents(found(run)) if not name.startswith("tables/")} == NAMES
    assert {name for name, _ in contents(Findings.of(Synthetic([]).run(), []))} == TABLES


# recorded runs are read to the numbers that they were always read to


REFERENCE = Path(__file__).parents[2] / "results" / "reference"
ALIKE = {"crossover", "boundary-1", "transformers_are_rnns", "peers_lsh", "selfcheck"}
"""Runs that have no figure that others do not have."""


def alike(old: str, new: str) -> bool:
    try:
        return old == new or math.isclose(float(old), float(new), rel_tol=1e-9)
    except ValueError:
        return False


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(str(path.relative_to(REFERENCE)), marks=pytest.mark.slow if path.name in ALIKE else [])
        for path in sorted(file.parent for file in REFERENCE.glob("*/*/run.json"))
    ],
)
def test_the_stored_table_of_a_run_is_what_its_records_say(run: str) -> None:
    folder = RunFolder(REFERENCE / run)
    made = csv.DictReader(io.StringIO(long_csv(Findings.of(folder.info(), folder.read()))))
    stored = csv.DictReader(io.StringIO(gzip.decompress((folder.path / "table.csv.gz").read_bytes()).decode()))
    for old, new in zip(stored, made, strict=True):
        # a figure that came after the run has an empty column
        assert {key for key in old if not alike(old[key], new.get(key, ""))} == set(), old["cell"]
        # a column that came later says what was always so, or how to measure the cell again
        assert {new[key] for key in new.keys() - old.keys() - {"rerun"}} <= {"", "0"}
