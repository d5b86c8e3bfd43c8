"""A run that is sent or published: whatever of it was changed is found, and what a paper has to say of it is filled in."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attnbench
from attnbench.measure import environment
from attnbench.store.run_folder import RunFolder
from tests.library.conftest import REFERENCE

Spoil = Callable[[list[str], dict[str, Any]], object]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A run of a suite that ships, as it was sent, with its records expanded."""
    folder = tmp_path / "vq"
    folder.mkdir()
    for name in ("run.json", "records.jsonl.gz"):
        shutil.copy(REFERENCE / "vq" / name, folder)
    RunFolder(folder).repair()
    return folder


def wrong(folder: Path) -> dict[str, str]:
    return {finding.name: finding.text for finding in attnbench.verify(folder) if finding.ok is False}


def change(folder: Path, spoil: Spoil) -> None:
    """Change the lines of the records, and what run.json says."""
    records, info = folder / "records.jsonl", json.loads((folder / "run.json").read_text())
    # the last line is a time of the last replicate, so that without it a cell has too few
    lines = sorted(records.read_text().splitlines(), key=lambda line: '"phase":"time"' in line)
    spoil(lines, info)
    records.write_text("".join(f"{line}\n" for line in lines))
    (folder / "run.json").write_text(json.dumps(info))


def test_a_reference_of_a_suite_that_ships_is_verified_as_it_lies_and_expanded(sent: Path, tmp_path: Path) -> None:
    assert wrong(REFERENCE / "vq") == wrong(sent) == {}
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert said["suite"].startswith("vq as it ships, digest ")
    assert said["complete"] == "7 ok, 1 budget"
    assert said["replicates"] == "5 of each cell"
    with pytest.raises(attnbench.AttnbenchError, match="is not a run folder"):
        attnbench.verify(tmp_path)
    # records of another environment are right where run.json describes it
    change(sent, elsewhere("9.9.9"))
    assert wrong(sent) == {}
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert said["format"].endswith("records of this run, all of 2 environments that run.json describes")


def without(word: str, phase: str = "") -> Spoil:
    def spoil(lines: list[str], run: dict[str, Any]) -> None:
        lines[:] = [line for line in lines if word not in line or f'"phase":"{phase}"' not in line]

    return spoil


def elsewhere(torch: str) -> Spoil:
    """Every other record was taken with another torch; run.json describes that environment with this one."""

    def spoil(lines: list[str], run: dict[str, Any]) -> None:
        facts = {**run["environment"], "torch": "9.9.9"}
        other = environment.digest(facts)
        lines[::2] = [line.replace(run["environment_digest"], other) for line in lines[::2]]
        run["elsewhere"] = {other: {"environment": {**facts, "torch": torch}, "surroundings": run["surroundings"]}}

    return spoil


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda lines, run: lines.append("{"), {"format"}),
        (lambda lines, run: run["environment"].update(torch="9.9.9"), {"format"}),
        (lambda lines, run: lines.append(lines.pop().replace('"environment":"', '"environment":"x')), {"format"}),
        (elsewhere("9.9.8"), {"format"}),
        (lambda lines, run: run["suite"].update(seed=7), {"suite"}),
        (lambda lines, run: run["suite"]["budget"].update(seconds=99.0), {"suite"}),
        (lambda lines, run: run["cells"].pop(0), {"format", "cells"}),
        (without("vq.blockwise", "check"), {"checks"}),
        (without("", "time"), {"complete", "replicates"}),
        (lambda lines, run: lines.pop(), {"complete"}),
        # these are the same suite
        (lambda lines, run: run["suite"].update(source="else", report={"tables": ["summary"], "plots": []}), set()),
    ],
)
def test_whatever_was_changed_is_named(sent: Path, spoil: Spoil, named: set[str]) -> None:
    change(sent, spoil)
    assert wrong(sent).keys() == named


def test_every_method_s_paper_is_cited_once_with_the_run_and_its_suite(tmp_path: Path) -> None:
    run = attnbench.read(REFERENCE / "crossover")
    attnbench.cite(run).save(tmp_path / "a.bib", tmp_path / "a.md")
    bibtex = (tmp_path / "a.bib").read_text()
    keys = re.findall(r"^@\w+\{(.+),$", bibtex, re.MULTILINE)
    papers = {description.paper for description in run.info.methods.values()}
    assert keys[0] == "attnbench"
    assert len(keys) == len(set(keys)) == 1 + len(papers)
    assert run.info.id in bibtex
    assert run.info.suite.digest in bibtex
    assert r"vq.blockwise" in bibtex
    assert bibtex.count("{") == bibtex.count("}")
    assert (tmp_path / "a.md").read_text() == attnbench.cite(run).checklist


def test_what_the_run_knows_is_ticked_and_what_only_its_author_knows_is_open() -> None:
    said, first_look = (attnbench.cite(REFERENCE / name).checklist for name in ("crossover", "atlas"))
    assert said.startswith("- [x] Which suite")
    assert "- [x] On which machine: Device cpu, Intel" in said
    assert "- [x] Which cells have no number: 175 cells: 174 ok, 1 failed" in said
    assert "- [ ] Whether the machine was otherwise idle" in said
    assert "noisy" in said
    assert "replicates: this run has" not in said
    assert "- [ ] At least 5 replicates: this run has 2" in first_look
    assert "- [ ] Code that was committed" in first_look
