"""What a history is made of: its runs, the points that cells leave in them, and the tracks of those points over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from attnbench.schema.cell import Cell
from attnbench.schema.noun import Scalar
from attnbench.schema.run import RunInfo

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Facts = Mapping[str, Scalar | None]
_SHORT = 8


@dataclass(frozen=True, slots=True)
class Point:
    """One cell in one run, boiled down; seconds and bytes per sample of the batch, None where there are none."""

    cell: Cell
    key: str
    status: str
    reason: str = ""
    seconds: float | None = None
    """Median of the replicate medians."""
    spread: float | None = None
    """Standard deviation of the logarithms of the replicate medians; None of a single one."""
    replicates: int = 0
    bytes: float | None = None
    counter: str = ""
    """The run's main memory counter, with its source."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All that is kept of a run: the points of the cells that it came to, and how many it did not come to."""

    points: tuple[Point, ...]
    unfinished: int = 0


@dataclass(frozen=True)
class Entry:
    """One run of a history. One that cannot be read has a problem in words, and nothing else but its place."""

    place: str
    """Folder within the history, as `quick/20260102-030405-abcdef`."""
    suite: str = ""
    run: str = ""
    started: str = ""
    """In UTC, ISO 8601: entries sort by it as text."""
    machine: str = ""
    commit: str = ""
    dirty: bool = False
    facts: Facts = field(default_factory=dict)
    """What numbers depend on: versions, processor, device."""
    methods: Mapping[str, str] = field(default_factory=dict)
    """Version of the package and digest of the source, by method."""
    ok: int = 0
    failed: int = 0
    unfinished: int = 0
    base: bool = False
    """Whether an older commit was measured here again, to compare a newer one with: no news of any cell."""
    problem: str = ""

    @classmethod
    def of(cls, place: str, info: RunInfo, summary: Summary) -> "Entry":
        """A run that can be read; ValueError where it does not say when it was started."""
        ok = sum(point.status == "ok" for point in summary.points)
        return cls(
            place=place,
            suite=info.suite.name,
            run=info.id,
            started=_utc(info.started),
            machine=machine(info),
            commit=str(info.git.get("commit") or ""),
            dirty=bool(info.git.get("dirty")),
            facts=info.environment | info.surroundings.facts,
            methods={name: each.version for name, each in info.methods.items()},
            ok=ok,
            failed=len(summary.points) - ok,
            unfinished=summary.unfinished,
            base=bool(info.interleaved) and info.id == f"{info.interleaved}-base",
        )

    @property
    def date(self) -> str:
        """The day, in UTC."""
        return self.started[:10]

    @property
    def short_commit(self) -> str:
        """`1a2b3c4d`, with a + where the checkout had changes; empty where the run was outside of one."""
        return f"{self.commit[:_SHORT]}{'+' if self.dirty else ''}" if self.commit else ""

    def changes_to(self, other: "Entry", method: str) -> list[str]:
        """In words, what is different where another run measured a method: `torch 2.12.0 → 2.13.0`."""
        known = (*self.facts, *(name for name in other.facts if name not in self.facts))
        pairs = [(name, self.facts.get(name), other.facts.get(name)) for name in known]
        pairs.append((method, self.methods.get(method), other.methods.get(method)))
        return [f"{name} {_said(old)} → {_said(new)}" for name, old, new in pairs if old != new]


@dataclass(frozen=True)
class Track:
    """The points of one cell of one suite on one machine, in the order in which its runs were started.

    Versions of software may change along it: that is what it is looked at for.
    """

    suite: str
    machine: str
    cell: Cell
    runs: Integers
    """For each point its run, as a position in the list of all entries; rising."""
    seconds: Floats
    """NaN where there are none; so the two that follow."""
    spread: Floats
    bytes: Floats
    counters: Integers
    """For each point its counter, as a position in `names`; -1 where there is none."""
    failures: Integers
    """For each point how it failed, as a position in `reasons`; -1 where it is ok."""
    names: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    """Status and reason."""

    def __len__(self) -> int:
        return len(self.runs)


def machine(info: RunInfo) -> str:
    """What makes numbers comparable: the GPU, the processor, cores and threads, in words; not the software on it."""
    facts = info.environment | info.surroundings.facts
    words = [facts.get("gpu"), facts.get("processor")]
    counts = [f"{facts[name]} {name}" for name in ("cores", "threads") if facts.get(name) is not None]
    known = [str(word) for word in words if word]
    return ", ".join([*known, *counts]) or info.surroundings.device


def _utc(text: str) -> str:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")


def _said(value: Scalar | None) -> str:
    return "none" if value is None else str(value)
