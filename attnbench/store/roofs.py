"""The highest roof that was ever measured in an environment, kept for every run there; and where such caches live."""

import os
from pathlib import Path

from attnbench.schema.errand import Roof, Surroundings
from attnbench.store.files import write_durably
from attnbench.store.run_folder import safe_name


def cache_folder() -> Path:
    """The user's cache folder, by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnbench"


def raised(environment_digest: str, now: Surroundings) -> Surroundings:
    """The surroundings under the highest roof known, which is kept: a busy machine reaches less than it can.

    A cache that cannot be written is none.
    """
    known = recall(environment_digest)
    roofs = dict(known.roof) if known else {}
    roofs |= {name: _higher(roof, roofs.get(name, roof)) for name, roof in now.roof.items()}
    try:
        file = _file(environment_digest)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, now.model_copy(update={"roof": roofs}).model_dump_json().encode())
    except OSError:
        pass
    return now.model_copy(update={"roof": {name: roofs[name] for name in now.roof}})


def recall(environment_digest: str) -> Surroundings | None:
    """The highest roof that was measured in this environment, if any was."""
    try:
        return Surroundings.model_validate_json(_file(environment_digest).read_bytes())
    except (OSError, ValueError):
        return None


def _higher(a: Roof, b: Roof) -> Roof:
    """Of each ceiling the higher one."""
    cached = [roof.cached_bytes_per_second for roof in (a, b) if roof.cached_bytes_per_second is not None]
    return Roof(
        flops_per_second=max(a.flops_per_second, b.flops_per_second),
        bytes_per_second=max(a.bytes_per_second, b.bytes_per_second),
        cached_bytes_per_second=max(cached, default=None),
    )


def _file(environment_digest: str) -> Path:
    return cache_folder() / f"roof-{safe_name(environment_digest)}.json"
