"""The noise floor that selfcheck found in an environment, kept for `attnbench gate`."""

import math
from pathlib import Path

from pydantic import Field

from attnbench.schema.noun import Noun
from attnbench.store.files import write_durably
from attnbench.store.roofs import cache_folder
from attnbench.store.run_folder import safe_name


class NoiseFloor(Noun):
    """The smallest slow-downs that are told from chance nine times in ten, by replicates a side, interleaved."""

    environment: str = Field(description="digest; it covers the device too")
    device: str
    about: str = Field(description="what was measured, in words")
    run: str
    verdicts: int
    smallest: tuple[tuple[int, float], ...] = Field(description="replicates a side, and a share: 0.03 is +3 %")

    def at(self, replicates: int) -> float | None:
        """By the nearest count below that was tried, less by the square root of how many more; None where none was found."""
        known = [(count, share) for count, share in self.smallest if count <= replicates]
        if not known:
            return None
        count, share = max(known)
        return share * math.sqrt(count / replicates)


def remember(floor: NoiseFloor) -> None:
    """Keep it in place of what was known of its environment; a cache that cannot be written is none."""
    try:
        file = _file(floor.environment)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, floor.model_dump_json().encode())
    except OSError:
        return


def recall(environment_digest: str) -> NoiseFloor | None:
    """What selfcheck last found in this environment; None where it never ran."""
    try:
        return NoiseFloor.model_validate_json(_file(environment_digest).read_bytes())
    except (OSError, ValueError):
        return None


def _file(environment_digest: str) -> Path:
    return cache_folder() / f"noise-floor-{safe_name(environment_digest)}.json"
