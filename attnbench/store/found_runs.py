"""Run folders at any depth below a folder: whatever holds a run.json, or records that lack one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from attnbench.store.history import RECORDS, RUN


def find_runs(root: Path, refused: Callable[[OSError], object]) -> Iterator[Path]:
    """By rising path; `refused` is told of folders that cannot be read. Hidden ones are passed over, links followed once."""
    seen: set[Path] = set()
    for name, inner, files in os.walk(root, onerror=refused, followlinks=True):
        folder = Path(name)
        if (real := folder.resolve()) in seen:
            inner.clear()
            continue
        seen.add(real)
        # os.walk goes into what is left here, in this order
        inner[:] = sorted(each for each in inner if not each.startswith("."))
        if RUN in files or RECORDS in files:
            yield folder
