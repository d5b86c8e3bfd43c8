"""The facts that numbers depend on besides the device: processor, memory, kernel, interpreter, versions. Needs no torch."""

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path

import psutil

Facts = dict[str, bool | int | float | str | None]
_PACKAGES = ("torch", "numpy", "triton", "reformer-pytorch", "nvidia-ml-py")


def gather() -> Facts:
    """Return the facts that stay the same from run to run on one machine with one set of packages."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "libc": "-".join(platform.libc_ver()),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def digest(facts: Facts) -> str:
    """Return twelve hex digits that name an environment."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def version(package: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """Return the processor's name, and its family and model where a virtual machine leaves no number in the name."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        first = ""
    known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if not (name := known.get("model name")):
        return platform.processor() or platform.machine()
    numbers = [f"{word} {known[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in known]
    return name if re.search(r"\d", name) else " ".join((name, *numbers))


GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""git without the programs that the configuration of a stranger's checkout could make it start."""


def git_state(folder: Path) -> Facts:
    """Return the commit of the checkout that a folder lies in, and whether it has changes; empty outside of a checkout."""

    def git(*arguments: str) -> str:
        # a name of a file may be no text
        done = subprocess.run([*GIT, "-C", str(folder), *arguments], capture_output=True, timeout=20, check=True)
        return done.stdout.decode(errors="replace").strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}
