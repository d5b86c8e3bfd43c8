"""A run that somebody sent: what is wrong in it is found, whatever of it was changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import attnbench
from attnbench.measure import environment
from attnbench.store.run_folder import RunFolder

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores" / "vq"
Spoil = Callable[[list[str], dict[str, object]], object]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A run of a suite that ships, as it was sent, with its records expanded."""
    folder = tmp_path / "vq"
    folder.mkdir()
    for name in ("run.json", "records.jsonl.gz"):
        shutil.copy(REFERENCE / name, folder)
    RunFolder(folder).repair()
    return folder


def wrong(folder: Path) -> dict[str, str]:
    return {finding.name: finding.text for finding in attnbench.verify(folder) if finding.ok is False}


def test_a_reference_of_a_suite_that_ships_is_verified_as_it_lies_and_expanded(sent: Path) -> None:
    assert wrong(REFERENCE) == wrong(sent) == {}
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert said["suite"].startswith("vq as it ships, digest ")
    assert said["complete"] == "7 ok, 1 budget"
    assert said["replicates"] == "5 of each cell"


def without(word: str, phase: str = "") -> Spoil:
    def spoil(lines: list[str], run: dict[str, object]) -> None:
        lines[:] = [line for line in lines if word not in line or f'"phase":"{phase}"' not in line]

    return spoil


def renamed(lines: list[str], run: dict[str, object]) -> None:
    lines[:] = [line.replace('"environment":"', '"environment":"x') for line in lines]


def other_length(lines: list[str], run: dict[str, object]) -> None:
    cells = run["cells"]
    assert isinstance(cells, list)
    run["cells"] = cells[1:]


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda lines, run: lines.append("{"), {"format"}),
        (lambda lines, run: run["environment"].update(torch="9.9.9"), {"format"}),
        (renamed, {"format"}),
        (lambda lines, run: run["suite"].update(seed=7), {"suite"}),
        (lambda lines, run: run["suite"]["budget"].update(seconds=99.0), {"suite"}),
        (other_length, {"format", "cells"}),
        (without("vq.blockwise", "check"), {"checks"}),
        (without("", "time"), {"complete", "replicates"}),
        (lambda lines, run: lines.pop(), {"complete"}),
    ],
)
def test_whatever_was_changed_is_named(sent: Path, spoil: Spoil, named: set[str]) -> None:
    records, info = sent / "records.jsonl", json.loads((sent / "run.json").read_text())
    # the last line is a time of the last replicate, so that without it a cell has too few
    lines = sorted(records.read_text().splitlines(), key=lambda line: '"phase":"time"' in line)
    spoil(lines, info)
    records.write_text("".join(f"{line}\n" for line in lines))
    (sent / "run.json").write_text(json.dumps(info))
    assert wrong(sent).keys() == named


def test_more_replicates_than_a_suite_asks_for_and_another_report_are_the_same_suite(sent: Path) -> None:
    info = json.loads((sent / "run.json").read_text())
    info["suite"].update(source="something else", report={"tables": ["summary"], "plots": []})
    (sent / "run.json").write_text(json.dumps(info))
    assert wrong(sent) == {}


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(attnbench.AttnbenchError, match="is not a run folder"):
        attnbench.verify(tmp_path)


@pytest.mark.parametrize(("described", "named"), [("9.9.9", set()), ("9.9.8", {"format"})])
def test_records_of_another_environment_are_right_where_run_json_describes_it(
    sent: Path, described: str, named: set[str]
) -> None:
    info = json.loads((sent / "run.json").read_text())
    facts, lines = {**info["environment"], "torch": "9.9.9"}, (sent / "records.jsonl").read_text().splitlines()
    other = environment.digest(facts)
    lines[::2] = [line.replace(info["environment_digest"], other) for line in lines[::2]]
    info["elsewhere"] = {other: {"environment": {**facts, "torch": described}, "surroundings": info["surroundings"]}}
    (sent / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (sent / "run.json").write_text(json.dumps(info))
    assert wrong(sent).keys() == named
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert named or said["format"].endswith("records of this run, all of 2 environments that run.json describes")
