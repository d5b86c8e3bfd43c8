"""What is installed is what is on the disk."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ROOMS = {"attnbench": "attnbench", "impls": "attnbench_impls", "suites": "attnbench_suites"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
METHODS = PROJECT["project"]["entry-points"]["attnbench.impls"]


def test_the_list_of_packages_is_what_is_on_the_disk_and_each_says_what_it_is_for() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    folders = {file.parent.relative_to(ROOT) for file in files}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == {".".join((ROOMS[f.parts[0]], *f.parts[1:])) for f in folders}
    for file in files:
        assert (file.parent / "__init__.py").exists(), file
        assert file.read_text().lstrip("r").startswith('"""'), file


def test_the_atlas_has_every_implementation() -> None:
    atlas = (ROOT / "suites" / "atlas.yaml").read_text()
    assert sorted(re.findall(r"^  - (?:\{name: )?([\w.]+)", atlas, re.MULTILINE)) == sorted(METHODS)


def test_the_wheel_holds_every_module_suite_and_family_page_and_registers_the_command_and_every_method(tmp_path: Path) -> None:
    # of a copy, so that no build folder is left behind
    copy, out = tmp_path / "tree", tmp_path / "wheel"
    copy.mkdir()
    for room in (*ROOMS, "pyproject.toml", "README.md", "LICENSE"):
        subprocess.run(["cp", "-r", str(ROOT / room), str(copy)], check=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (file,) = out.glob("*.whl")
    wheel = zipfile.ZipFile(file)
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == {
        str(Path(installed) / file.relative_to(ROOT / room))
        for room, installed in ROOMS.items()
        for file in (ROOT / room).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    lines = wheel.read(name).decode().splitlines()
    assert "attnbench = attnbench.cli.app:main" in lines
    assert {f"{method} = {address}" for method, address in METHODS.items()} <= set(lines)


def test_the_tested_versions_are_pinned_and_satisfy_the_project() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    pins = {Requirement(line).name.lower().replace("_", "-"): line.partition("==")[2] for line in lines}
    project = PROJECT["project"]
    needed = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    for requirement in map(Requirement, needed):
        # a torch for CUDA brings the Triton that it was built with, and each torch has a torchvision of its own
        if requirement.name not in {"attnbench", "triton", "torchvision"}:
            assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement
