"""A lane: at most one measurement at a time on one device, whoever runs it on this machine."""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnbench.schema.errand import Surroundings


@contextmanager
def lane(surroundings: Surroundings) -> Iterator[None]:
    """Wait for the device's lock file, hold it; freed by the kernel when its holder dies."""
    name = re.sub(r"[^A-Za-z0-9-]", "_", str(surroundings.facts.get("gpu_uuid") or "cpu"))
    file = Path(tempfile.gettempdir()) / f"attnbench-lane-{os.getuid()}-{name}.lock"
    with file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
