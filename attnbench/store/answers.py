"""Answers that methods gave about themselves, kept until their package or source changes."""

import hashlib
import importlib.util
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from attnbench.schema.errand import Description
from attnbench.store.files import write_durably
from attnbench.store.roofs import cache_folder


def recall(entry: EntryPoint) -> Description | None:
    """What the method said last time, if nothing has changed since."""
    try:
        return Description.model_validate_json(_file(entry).read_bytes())
    except (OSError, ValueError):
        return None


def remember(entry: EntryPoint, description: Description) -> None:
    """Keep it; a cache that cannot be written is none."""
    try:
        file = _file(entry)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, description.model_dump_json().encode())
    except OSError:
        return


def _file(entry: EntryPoint) -> Path:
    installed = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    text = f"{entry.name} {entry.value} {installed} {_changed(entry.value.rpartition(':')[0])}"
    return cache_folder() / f"method-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _changed(place: str) -> int:
    """When anything last changed that the answer may come from: the package or the file of the method, and this one."""
    own = Path(place).stat().st_mtime_ns if place.endswith(".py") else _newest(place.partition(".")[0])
    return max(own, _newest("attnbench"))


@cache
def _newest(top: str) -> int:
    """When a file of a top-level package or module last changed, found without importing it."""
    spec = importlib.util.find_spec(top)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    files = [file for folder in folders for file in folder.rglob("*.py")]
    if spec and spec.origin and not files:
        files = [Path(spec.origin)]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)
