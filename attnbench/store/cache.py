"""The user's cache: what was found out about methods and machines, and can be found out again."""

import functools
import hashlib
import importlib.util
import math
import os
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from attnbench.schema.errand import Description, Roof, Surroundings
from attnbench.schema.noun import Noun
from attnbench.store.files import write_durably
from attnbench.store.run_folder import safe_name

_Known = TypeVar("_Known", bound=Noun)


def cache_folder() -> Path:
    """Return the cache folder of attnbench, by the XDG convention. Raises OSError where there is no home for it."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnbench"
    except RuntimeError as error:
        raise OSError(f"{error} Set XDG_CACHE_HOME.") from None


def _keep(name: str, known: Noun) -> None:
    """Write to the cache; where that is not possible, nothing is kept."""
    with suppress(OSError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_durably(cache_folder() / name, known.model_dump_json().encode())


def _recall(name: str, kind: type[_Known]) -> _Known | None:
    """Read from the cache; None where nothing is kept or it cannot be read."""
    try:
        return kind.model_validate_json((cache_folder() / name).read_bytes())
    except (OSError, ValueError):
        return None


class NoiseFloor(Noun):
    """The smallest slow-downs that are told from chance nine times in ten, by the number of interleaved replicates a side."""

    environment: str = Field(description="digest; it covers the device too")
    device: str
    about: str = Field(description="what was measured, in words")
    run: str
    verdicts: int
    smallest: tuple[tuple[int, float], ...] = Field(description="replicates a side, and a share: 0.03 is +3 %")

    def at(self, replicates: int) -> float | None:
        """Return the smallest slow-down found by so many replicates a side, or None where it is not known.

        It is taken from the nearest count below that was tried, divided by the square root of how many times as many there are.
        Fewer than were ever enough find no less than the fewest that were.
        """
        known = [(count, share) for count, share in self.smallest if count <= replicates]
        if not known:
            return min(self.smallest)[1] if self.smallest else None
        count, share = max(known)
        return share * math.sqrt(count / replicates)


def keep_noise_floor(floor: NoiseFloor) -> None:
    """Keep a noise floor in place of what was known about its environment."""
    _keep(f"noise-floor-{safe_name(floor.environment)}.json", floor)


def known_noise_floor(environment_digest: str) -> NoiseFloor | None:
    """Return what selfcheck last found in this environment; None where it never ran."""
    return _recall(f"noise-floor-{safe_name(environment_digest)}.json", NoiseFloor)


def with_highest_roofs(environment_digest: str, now: Surroundings) -> Surroundings:
    """Return the surroundings with the highest roofs known, and keep these: a busy machine reaches less than it can."""
    known = known_roofs(environment_digest)
    roofs = dict(known.roof) if known else {}
    for name, roof in now.roof.items():
        both = (roof, roofs.get(name, roof))
        cached = [each.cached_bytes_per_second for each in both if each.cached_bytes_per_second is not None]
        roofs[name] = Roof(
            flops_per_second=max(each.flops_per_second for each in both),
            bytes_per_second=max(each.bytes_per_second for each in both),
            cached_bytes_per_second=max(cached, default=None),
        )
    _keep(f"roof-{safe_name(environment_digest)}.json", now.model_copy(update={"roof": roofs}))
    return now.model_copy(update={"roof": {name: roofs[name] for name in now.roof}})


def known_roofs(environment_digest: str) -> Surroundings | None:
    """Return the highest roofs that were measured in this environment, if any were."""
    return _recall(f"roof-{safe_name(environment_digest)}.json", Surroundings)


def known_answer(entry: EntryPoint) -> Description | None:
    """Return what a method said about itself last time, if nothing has changed since."""
    return _recall(_answer_file(entry), Description)


def keep_answer(entry: EntryPoint, description: Description) -> None:
    """Keep what a method said about itself."""
    _keep(_answer_file(entry), description)


def _answer_file(entry: EntryPoint) -> str:
    """Name the file of an answer after all it depends on: the method's package, attnbench itself, what is installed."""
    installed = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    # a package that comes or goes changes the folder that it is in
    folders = (Path(folder).stat().st_mtime_ns for folder in sys.path if os.access(folder, os.R_OK))
    changed = max(_newest(entry.module.partition(".")[0]), _newest("attnbench"), *folders)
    text = f"{entry.name} {entry.value} {installed} {changed}"
    return f"method-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


@functools.cache
def _newest(top: str) -> int:
    """Return when a file of a top-level package or module last changed, without importing it."""
    spec = importlib.util.find_spec(top)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    files = [file for folder in folders for file in folder.rglob("*.py")]
    if spec and spec.origin and not files:
        files = [Path(spec.origin)]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)
