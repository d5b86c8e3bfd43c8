"""The recorded runs of results/reference are read to the numbers that they were always read to."""

import csv
import gzip
import io
import math
from pathlib import Path

import pytest

from attnbench.report import frame
from attnbench.report.findings import Findings
from attnbench.store.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference"
EARLIER = Path(__file__).parent / "golden" / "reference"
_BYTES = (
    *("input", "parameter", "output", "torch_allocated_peak", "torch_reserved_peak", "saved_for_backward", "nvml_process_peak"),
    *("nvml_process_base", "nvml_device_delta", "host_rss_peak", "torch_profiler_peak", "state"),
)
RENAMED = {
    "time_median_s_per_sample": "time_s",
    "time_low_s_per_sample": "time_s_low",
    "time_high_s_per_sample": "time_s_high",
    "interval_kind": "time_interval",
    "throughput_tokens_per_s": "tokens_per_s",
    "memory_bytes_per_sample": "memory_bytes",
    "roof_fraction": "roof",
    "loss_interval_kind": "loss_interval",
    **{f"{name}_bytes": f"{name}_bytes_of_batch" for name in _BYTES},
}
"""Columns of table.csv by the name that they had before; what was there per call is there per sample only."""
GONE = {"time_median_s_per_call", "time_low_s_per_call", "time_high_s_per_call"}
ALIKE = {"crossover", "boundary-1", "transformers_are_rnns", "peers_lsh", "selfcheck"}
"""Runs that have no figure that others do not have."""


def made(run: str) -> list[dict[str, str]]:
    folder = RunFolder(REFERENCE / run)
    return list(csv.DictReader(io.StringIO(frame.csv(Findings.of(folder.info(), folder.read())))))


def stored(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    return list(csv.DictReader(io.StringIO((gzip.decompress(data) if path.suffix == ".gz" else data).decode())))


def alike(old: str, new: str) -> bool:
    try:
        return old == new or math.isclose(float(old), float(new), rel_tol=1e-9)
    except ValueError:
        return False


@pytest.mark.parametrize("name", sorted(path.stem for path in EARLIER.glob("*.csv")))
def test_a_run_is_read_to_the_numbers_of_an_earlier_version(name: str) -> None:
    for old, new in zip(stored(EARLIER / f"{name}.csv"), made(f"xeon-2-cores/{name}"), strict=True):
        # the FLOPs of a definition were told of cells that failed, too
        gone = GONE if old["status"] == "ok" else GONE | {"flops_of_dense"}
        different = {key for key in old.keys() - gone if not alike(old[key], new[RENAMED.get(key, key)])}
        assert different == set(), old["cell"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(str(path.relative_to(REFERENCE)), marks=pytest.mark.slow if path.name in ALIKE else [])
        for path in sorted(file.parent for file in REFERENCE.glob("*/*/run.json"))
    ],
)
def test_the_stored_table_of_a_run_is_what_its_records_say(run: str) -> None:
    for old, new in zip(stored(REFERENCE / run / "table.csv.gz"), made(run), strict=True):
        # a figure that came after the run has an empty column
        assert {key for key in old if not alike(old[key], new.get(key, ""))} == set()
        # a column that came later says what was always so, or how to measure the cell again
        assert {new[key] for key in new.keys() - old.keys() - {"rerun"}} <= {"", "0"}
