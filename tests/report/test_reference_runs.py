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
    made = csv.DictReader(io.StringIO(frame.csv(Findings.of(folder.info(), folder.read()))))
    stored = csv.DictReader(io.StringIO(gzip.decompress((folder.path / "table.csv.gz").read_bytes()).decode()))
    for old, new in zip(stored, made, strict=True):
        # a figure that came after the run has an empty column
        assert {key for key in old if not alike(old[key], new.get(key, ""))} == set(), old["cell"]
        # a column that came later says what was always so, or how to measure the cell again
        assert {new[key] for key in new.keys() - old.keys() - {"rerun"}} <= {"", "0"}
