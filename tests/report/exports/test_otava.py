"""Otava's CSV and otava.yaml, and what the real tool makes of them."""

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attnbench.report.exports.exchange import Export, Source
from attnbench.report.exports.otava import CONFIG, make
from attnbench.schema.outcome import Failed, Status
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import commit_of, source_of, write

CHUNKED = "time/forward/causal/float32/N=512/linear.chunked(chunk=64)"


def config(export: Export) -> dict[str, Any]:
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(io.BytesIO(export.files[CONFIG]))
    return data


def rows(export: Export, file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export.files[file].decode())))


def history(made: Synthetic, factors: list[float]) -> list[Source]:
    return [source_of(made, day, factor=factor) for day, factor in enumerate(factors, 1)]


def test_a_run_is_a_row_and_rows_rise_with_the_date(tiny: Synthetic) -> None:
    sources = history(tiny, [1.0, 1.1, 1.2])
    found = rows(make([sources[2], sources[0], sources[1]]), "history.csv")
    assert [row["run"] for row in found] == [source.findings.run.id for source in sources]
    assert [row["commit"] for row in found] == [commit_of(day) for day in (1, 2, 3)]
    medians = [float(row[CHUNKED]) for row in found]
    assert [value / medians[0] for value in medians] == pytest.approx([1.0, 1.1, 1.2])
    assert all(value for row in found for value in row.values())


def test_a_cell_that_failed_once_has_a_row_less_and_no_gap(tiny: Synthetic) -> None:
    cell, crashed = tiny.run().cells[1], Failed(status=Status.CRASHED, reason="killed by signal 9")
    others = [record for record in tiny.records() if record.job.cell.key != cell.key]
    lost = source_of(tiny, 2, records=[*others, tiny.record(cell, crashed)])
    export = make([source_of(tiny, 1), lost, source_of(tiny, 3)])
    file = config(export)["tests"][CHUNKED]["file"]
    assert file == "history-2.csv"
    assert [row["run"][:8] for row in rows(export, file)] == ["20260101", "20260103"]
    assert len(rows(export, "history.csv")) == 3
    assert all(value for name in ("history.csv", file) for row in rows(export, name) for value in row.values())
    failed = [row for row in rows(export, "without-numbers.csv") if row["run"].startswith("20260102")]
    assert {row["status"] for row in failed} == {"oom_host", "crashed"}


@pytest.mark.slow
def test_otava_finds_the_change(
    either: Synthetic, tool: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    noise = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01, 1.0]
    export = make(history(either, [*noise, *(1.3 * factor for factor in noise)]))
    write(export, tmp_path)

    def otava(*words: str) -> str:
        settings = {"OTAVA_CONFIG": "otava.yaml", "HOME": str(tmp_path)}
        done = tool("apache-otava==0.8.*", "otava", *words, cwd=tmp_path, **settings)
        assert "ERROR" not in done.stderr, done.stderr
        return done.stdout

    tests = list(config(export)["tests"])
    assert sorted(otava("list-tests").split("\n")[:-1]) == sorted(tests)
    times = [name for name in tests if name.startswith("time/")]
    # its own default is the last year
    since = ("--since", "2025-12-01", "--until", "2026-02-01")
    found = otava("analyze", *times, *since)
    assert found.count("+30") == len(times), found
    assert otava("analyze", times[0].rpartition("/")[0], *since).count("+30") >= 1
