"""What the driver itself costs: a run of many cells whose workers answer at once, in one lane and in two.

    python -m tests.benchmarks.large_run CELLS

Prints for each number of lanes, from a process of its own, the driver's milliseconds a record and the most memory that it had.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self
from unittest.mock import patch

import attnbench
from attnbench.places import station
from attnbench.schema.errand import Answer, Description, Errand, Inquiry, Prospect, Surroundings, Survey
from attnbench.schema.outcome import Measured, Series
from attnbench.store.run_folder import RunFolder

METHODS = ["softmax.sdpa", "softmax.naive", "linear.chunked", "linear.full", "lsh.full", "sparse.topk"]
METHODS += ["lsh.reformer", "sparse.strided", "sparse.fixed", "sparse.window"]
HEADS, WIDTHS = list(range(1, 11)), list(range(8, 88, 8))


class Instant:
    """A worker that measures nothing."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def cut(self) -> None: ...

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        if isinstance(errand, Survey):
            return Surroundings(device="cpu", facts={"threads": 1}, memory_bytes=10**9, roof={}), 0.1
        if isinstance(errand, Inquiry):
            prospects = tuple(Prospect() for _ in errand.cells)
            about = {"paper": "", "tier": "eager", "causality": "full", "summary": "", "version": "1"}
            return Description.model_validate({"method": errand.method, "prospects": prospects, **about}), 0.1
        return Measured(samples={"time": Series(unit="s", values=(1e-3,) * 10)}, facts={"warmup_calls": 3}), 1e-3


def measure(cells: int, lanes: int) -> None:
    """Run it here, and print what it took."""
    N = list(range(64, 64 + cells // (len(METHODS) * len(HEADS) * len(WIDTHS))))
    suite = {"name": "large", "device": "cpu", "axes": {"N": N, "H": HEADS, "D": WIDTHS, "causal": True}, "methods": METHODS}
    with tempfile.TemporaryDirectory() as folder, patch.object(station, "Isolation", Instant):
        begin = time.monotonic()
        made = attnbench.run({**suite, "replicates": 1}, results=folder, lanes=lanes)
        seconds = time.monotonic() - begin
        count = sum(1 for _ in RunFolder(Path(made.path)).read())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{lanes} lane{'s' if lanes > 1 else ''}: {count:,} records, {1e3 * seconds / count:.2f} ms each, {most:.2f} GiB")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(int(sys.argv[1]), int(sys.argv[2]))
    else:
        for number in (1, 2):
            subprocess.run([sys.executable, "-m", "tests.benchmarks.large_run", sys.argv[1], str(number)], check=True)
