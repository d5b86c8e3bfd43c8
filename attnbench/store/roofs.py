"""The roof that was last measured in an environment, kept for `attnbench plan`; and where such caches live."""

import os
from pathlib import Path

from attnbench.schema.errand import Surroundings
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import safe_name, write_durably


def cache_folder() -> Path:
    """The user's cache folder, by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnbench"


def remember(info: RunInfo) -> None:
    """Keep the roof of this environment; a cache that cannot be written is none."""
    try:
        file = _file(info.environment_digest)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, info.surroundings.model_dump_json().encode())
    except OSError:
        return


def recall(environment_digest: str) -> Surroundings | None:
    """The roof last measured in this environment, if any."""
    try:
        return Surroundings.model_validate_json(_file(environment_digest).read_bytes())
    except (OSError, ValueError):
        return None


def _file(environment_digest: str) -> Path:
    return cache_folder() / f"roof-{safe_name(environment_digest)}.json"
