"""A folder that can be carried to a machine without a network: the project, wheels for that machine's Python, two scripts."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from attnbench.measure.environment import GIT, version
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.units import bytes_
from attnbench.session.asked import several

ROOT = Path(__file__).parents[2]
ALSO = (
    *("cuda-core[cu13]>=1.0", "fla-core>=0.6", "nvidia-cuda-nvcc>=13.3"),
    *("pytest", "pytest-timeout", "pytest-xdist", "pytest-benchmark", "hypothesis"),
)
"""What the kernels, their peers and their tests need beside the project's own requirements; of nvcc's package the assembler."""
_ITS_OWN = re.compile(r"(torch|triton|cuda-toolkit|nvidia-(?!ml-py$|cuda-nvcc$).*)")
"""Packages that the machine has, built for its driver; they are gigabytes."""
_LEFT_OUT = ("results/", "docs/")
_SECONDS = 900.0
_SETUP = """\
#!/bin/sh
# Installs into ./site what this machine's Python lacks, without a network. torch and Triton are the machine's own.
set -eu
cd "$(dirname "$0")"
"${PYTHON:-python3}" -m pip install --quiet --no-index --no-deps --upgrade --target site wheels/*.whl
"${PYTHON:-python3}" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)'
"""
_ENVIRONMENT = """\
# Read by the shell (`. ./env.sh`, from this folder): attnbench is there then, and compilers cache outside of this folder.
export PYTHONPATH="$PWD/site"
export PATH="$PWD/site/bin:$PATH"
for cache in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR CUDA_CACHE_PATH; do
  export "$cache=${TMPDIR:-/tmp}/attnbench-caches/$cache"
done
# Triton's own assembler may be wrong on Hopper GPUs (docs/gpu.md); what this one makes needs a driver for CUDA 13.
assembler="$PWD/site/nvidia/cu13/bin/ptxas"
for_cuda_13='import sys, torch; sys.exit(not (torch.version.cuda or "").startswith("13."))'
if [ -x "$assembler" ] && "${PYTHON:-python3}" -c "$for_cuda_13"; then
  export TRITON_PTXAS_PATH="$assembler" TRITON_PTXAS_BLACKWELL_PATH="$assembler"
fi
"""


@dataclass(frozen=True)
class Bundle:
    """A folder that was filled. Printed, it tells what is in it and what to do with it."""

    folder: Path
    wheels: tuple[str, ...]
    left_out: tuple[str, ...]
    """Packages that the machine has to have."""

    def __str__(self) -> str:
        size = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        holds = f"{self.folder}: {len(self.wheels)} wheels, {bytes_(size)}; the machine has to have {', '.join(self.left_out)}"
        return holds + "\nthere, in that folder: sh setup.sh && . ./env.sh && attnbench doctor"


def bundle(
    to: str | Path, *, python: str = "3.12", platform: str = "manylinux_2_28_x86_64", also: str | Sequence[str] = ()
) -> Bundle:
    """Fill a new folder with this checkout and with wheels for another machine's Python, which needs no network then.

    Versions are those that are installed here, where they are; what torch brings for its driver is left out. `also` are
    further requirements, as pip takes them. Raises UsageError where this is no checkout, or where a package has no wheel.
    """
    if not re.fullmatch(r"3\.\d{1,2}", python):
        raise ArgumentError("python", python, "must be a version as 3.12")
    try:
        wanted = [Requirement(each) for each in (*ALSO, *several(also))]
    except InvalidRequirement as error:
        raise ArgumentError("also", " ".join(several(also)), f"pip takes no such requirement: {error}") from None
    folder = Path(to).absolute()
    if folder.exists():
        raise UsageError(f"{to} is there already, and is not overwritten; name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # filled beside its place, so that a download that fails leaves nothing there, which the next try would refuse
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        made = Path(beside) / folder.name
        wheels, project = made / "wheels", made / "attnbench"
        wheels.mkdir(parents=True)
        _copy_checkout(project)
        isolation = ["--no-build-isolation"] if find_spec("setuptools") else []
        _pip("wheel", "--no-deps", *isolation, "--wheel-dir", str(wheels), str(project))
        for built in (project / "build", *project.glob("*.egg-info")):
            shutil.rmtree(built, ignore_errors=True)
        needed = _requirements(next(wheels.glob("attnbench-*.whl")), "", python)
        left_out = collect([*needed, *wanted], wheels, python, platform)
        (made / "setup.sh").write_text(_SETUP, encoding="utf-8")
        (made / "env.sh").write_text(_ENVIRONMENT, encoding="utf-8")
        made.rename(folder)
    return Bundle(folder, tuple(sorted(file.name for file in (folder / "wheels").iterdir())), left_out)


def collect(wanted: Sequence[Requirement], wheels: Path, python: str, platform: str) -> tuple[str, ...]:
    """Download the wheels of these requirements and of all that they need; the names of what was left out.

    Raises UsageError where one has no wheel for that Python and platform.
    """
    left_out, known, queue = set[str](), set[str](), list(wanted)
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    target += [word for each in _platforms(platform) for word in ("--platform", each)]
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if _ITS_OWN.fullmatch(name):
            left_out.add(name)
            continue
        extra = ",".join(sorted(requirement.extras))
        if f"{name}[{extra}]" in known:
            continue
        known.add(f"{name}[{extra}]")
        if (wheel := _wheel_of(name, wheels)) is None:
            pinned = f"{name}{_version(requirement)}"
            try:
                _pip("download", "--no-deps", *target, "--dest", str(wheels), pinned)
                wheel = _wheel_of(name, wheels)
            except UsageError as error:
                # a package of plain Python may have no wheel, but can be built into one
                _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), pinned)
                wheel = _wheel_of(name, wheels)
                if wheel is None or not wheel.name.endswith("-none-any.whl"):
                    raise UsageError(f"{requirement} has no wheel for Python {python} on {platform}: {error}") from None
            assert wheel is not None
        queue += _requirements(wheel, extra, python)
    return tuple(sorted(left_out))


def _copy_checkout(to: Path) -> None:
    """Copy the files that git does not ignore, without results and pages. Raises UsageError where there is no checkout."""
    try:
        command = [*GIT, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        names = [os.fsdecode(name) for name in done.stdout.split(b"\0")]
    except (OSError, subprocess.SubprocessError):
        names = []
    if not (ROOT / "pyproject.toml").is_file() or not any(names):
        raise UsageError("a bundle is made from a checkout of attnbench, installed by pip install -e .; this is none")
    for name in names:
        if name and not name.startswith(_LEFT_OUT) and (source := ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to / name)


def _platforms(platform: str) -> list[str]:
    """Name all platforms whose wheels run on one: of a Linux those of every older C library, which pip does not add itself."""
    if (found := re.fullmatch(r"manylinux_2_(\d+)_(\w+)", platform)) is None:
        return [platform]
    newest, machine = int(found[1]), found[2]
    older = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    return [*older, *(f"manylinux{year}_{machine}" for year in (2014, 2010, 1))]


def _requirements(wheel: Path, extra: str, python: str) -> Iterator[Requirement]:
    """Read what a wheel needs on that Python, with these extras."""
    (found,) = distributions(path=[str(wheel)])
    there = [{"python_version": python, "python_full_version": f"{python}.0", "extra": each} for each in extra.split(",")]
    for requirement in map(Requirement, found.requires or ()):
        if requirement.marker is None or any(map(requirement.marker.evaluate, there)):
            yield requirement


def _version(requirement: Requirement) -> str:
    """Return `==` the version that is installed here, if it suits, or else what the requirement says, such as an address."""
    if requirement.url is not None:
        return f" @ {requirement.url}"
    here = version(requirement.name)
    suits = here is not None and requirement.specifier.contains(here, prereleases=True)
    return f"=={here}" if suits else str(requirement.specifier)


def _wheel_of(name: str, wheels: Path) -> Path | None:
    return next((file for file in wheels.glob("*.whl") if canonicalize_name(file.name.partition("-")[0]) == name), None)


def _pip(*arguments: str) -> None:
    """Run pip. Raises UsageError with its last line."""
    command = [sys.executable, "-m", "pip", *arguments]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"pip {arguments[0]}: {error}") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise UsageError(f"pip {arguments[0]} {arguments[-1]}: {last[0]}")
