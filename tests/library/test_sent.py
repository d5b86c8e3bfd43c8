"""What is sent: a run, whose changes are found and whose paper is cited, and a folder that sets itself up without a network."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import attnbench
from attnbench.library import bundle as module
from attnbench.library.bundle import collect
from attnbench.measure import environment
from attnbench.schema.errors import UsageError
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


def test_a_reference_of_a_suite_that_ships_is_verified_as_it_lies_and_expanded(
    sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of shares that were merged there may be more cells than one run may have
    monkeypatch.setattr("attnbench.suite.expand.MOST_CELLS", 1)
    # nor does a file of this name count that lies about
    monkeypatch.chdir(sent)
    Path("vq").write_text("")
    assert wrong(REFERENCE / "vq") == wrong(sent) == {}
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert said["suite"].startswith("vq as it ships, digest ")
    assert said["complete"] == "7 ok, 1 budget"
    assert said["replicates"] == "5 of each cell"
    # of memory passes and checks, which have no flag, that says nothing
    assert said["conditions"] == "of all measurements: few_samples 28.6%"
    with pytest.raises(attnbench.AttnbenchError, match="is not a run folder"):
        attnbench.verify(tmp_path)
    # records of another environment are right where run.json describes it
    change(sent, elsewhere("9.9.9"))
    assert wrong(sent) == {}
    said = {finding.name: finding.text for finding in attnbench.verify(sent)}
    assert said["format"].endswith("records of this run, of 2 environments that run.json describes")


def without(word: str, phase: str = "") -> Spoil:
    def spoil(lines: list[str], run: dict[str, Any]) -> None:
        lines[:] = [line for line in lines if word not in line or f'"phase":"{phase}"' not in line]

    return spoil


def elsewhere(torch: str) -> Spoil:
    """The cells of one method were measured with another torch; run.json describes that environment with this one."""

    def spoil(lines: list[str], run: dict[str, Any]) -> None:
        facts = {**run["environment"], "torch": "9.9.9"}
        other = environment.digest(facts)
        lines[:] = [line.replace(run["environment_digest"], other) if "vq.blockwise" in line else line for line in lines]
        run["elsewhere"] = {other: {"environment": {**facts, "torch": torch}, "surroundings": run["surroundings"]}}

    return spoil


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda lines, run: lines.append("{"), {"format"}),
        (lambda lines, run: run["environment"].update(torch="9.9.9"), {"format"}),
        (lambda lines, run: lines.append(lines.pop().replace('"environment":"', '"environment":"x')), {"format", "complete"}),
        (elsewhere("9.9.8"), {"format"}),
        (lambda lines, run: run["suite"].update(seed=7), {"suite"}),
        (lambda lines, run: run["suite"]["budget"].update(seconds=99.0), {"suite"}),
        (lambda lines, run: run["cells"].pop(0), {"format", "cells"}),
        # of a model that is not here, nobody can say which cells were planned
        (lambda lines, run: run["suite"].update(workloads=["model_prefill"], model={"config": ["nowhere"]}), {"suite"}),
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


def test_a_paper_that_has_no_number_of_arxiv_is_cited_by_what_it_is_called(sent: Path) -> None:
    papers = ["A_B & C (DeepSeek 2026)", "A-B-C: DeepSeek, 2026", "注意力", "attnbench"]
    change(sent, lambda _, run: run["methods"].update({p: run["methods"]["vq.blockwise"] | {"paper": p} for p in papers}))
    bibtex = attnbench.cite(sent).bibtex
    assert "title = {{A\\_B \\& C (DeepSeek 2026)}},\n  note = {A\\_B" in bibtex
    keys = {"a-b-c-deepseek-2026", "a-b-c-deepseek-2026-2", "paper", "attnbench-2"}
    assert keys < set(re.findall(r"^@misc\{(.*),$", bibtex, re.MULTILINE))
    with pytest.raises(UsageError, match="form='txt': there are: bib, md"):
        attnbench.cite(sent).save(sent / "a.txt")


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


# a folder that is carried to a machine without a network


Publish = Callable[..., None]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts a wheel where pip, which sees nothing else, finds it."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def made(name: str, version: str, *needs: str, tag: str = "py3-none-any") -> None:
        info = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in needs)]
        with zipfile.ZipFile(index / f"{name}-{version}-{tag}.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            wheel.writestr(f"{info}/RECORD", "")

    return made


def collected(tmp_path: Path, requirement: str) -> tuple[tuple[str, ...], set[str]]:
    """What of a package is left out for another Python and machine, and what is there."""
    left_out = collect([Requirement(requirement)], tmp_path / "wheels", "3.12", "manylinux_2_28_x86_64")
    return left_out, {file.name for file in (tmp_path / "wheels").iterdir()}


@pytest.mark.slow
def test_all_that_is_needed_is_there_for_the_other_python_but_what_torch_brings(publish: Publish, tmp_path: Path) -> None:
    nvidia = ("nvidia-cublas", "nvidia-ml-py", "nvidia-cuda-nvcc")
    publish("first", "1.0", "second>=2", "torch>=2", 'old; python_version < "3.12"', 'more; extra == "all"')
    publish("second", "2.1", *nvidia, "first", tag="cp312-cp312-manylinux_2_17_x86_64")
    publish("second", "2.2", tag="cp313-cp313-manylinux_2_17_x86_64")
    publish("second", "2.3", tag="cp312-cp312-manylinux_2_34_x86_64")
    publish("nvidia_ml_py", driver := version("nvidia-ml-py"))
    publish("nvidia_cuda_nvcc", "13.5", "nvidia-nvvm")
    publish("more", "1.0", "triton")
    left_out, wheels = collected(tmp_path, "first[all]")
    assert left_out == ("nvidia-cublas", "nvidia-nvvm", "torch", "triton")
    assert wheels == {
        "first-1.0-py3-none-any.whl",
        "second-2.1-cp312-cp312-manylinux_2_17_x86_64.whl",
        f"nvidia_ml_py-{driver}-py3-none-any.whl",
        "nvidia_cuda_nvcc-13.5-py3-none-any.whl",
        "more-1.0-py3-none-any.whl",
    }


def test_versions_are_those_installed_here_and_a_package_without_a_wheel_is_named(publish: Publish, tmp_path: Path) -> None:
    publish("pytest", here := pytest.__version__)
    publish("pytest", "99.0")
    assert collected(tmp_path, "pytest>=8") == ((), {f"pytest-{here}-py3-none-any.whl"})
    address = (tmp_path / "index" / "pytest-99.0-py3-none-any.whl").as_uri()
    assert collected(tmp_path / "own", f"pytest @ {address}") == ((), {"pytest-99.0-py3-none-any.whl"})
    publish("first", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    with pytest.raises(UsageError, match=r"pip wheel first.*|first has no wheel for Python 3.12"):
        collected(tmp_path, "first")


def test_what_pip_cannot_take_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"python='312': must be a version as 3\.12"):
        attnbench.bundle(tmp_path / "new", python="312")
    with pytest.raises(UsageError, match="also='a b': pip takes no such requirement"):
        attnbench.bundle(tmp_path / "new", also=["a b"])
    assert not (tmp_path / "new").exists()


def test_no_folder_is_overwritten_and_one_is_made_from_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is there already"):
        attnbench.bundle(tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    with pytest.raises(UsageError, match="made from a checkout"):
        attnbench.bundle(tmp_path / "new")
    # the next try finds nothing in its way
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_folder_that_was_carried_sets_itself_up_without_a_network(tmp_path: Path) -> None:
    made = attnbench.bundle(tmp_path / "carried", python="{}.{}".format(*sys.version_info[:2]), also=["tabulate"])
    assert "torch" in made.left_out
    assert "sh setup.sh && . ./env.sh" in str(made)
    assert (made.folder / "attnbench" / "tests" / "conftest.py").is_file()
    assert not (made.folder / "attnbench" / "results").exists()
    environment = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1", "TMPDIR": str(tmp_path)}
    script = (
        "sh setup.sh && . ./env.sh && test -x site/nvidia/cu13/bin/ptxas && cd / && python=$PYTHON && "
        '$python -c "import attnbench; print(attnbench.__file__)" && $python -m attnbench plan gpu_sparse --assume h200'
    )
    done = subprocess.run(
        ["sh", "-c", script], cwd=made.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(made.folder / "site") in done.stdout
    assert "8 cells, 8 to be measured" in done.stdout
