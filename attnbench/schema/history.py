"""The parts of a history: its runs, one point for each cell of a run, and the track of a cell's points over time."""

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
    """One cell in one run, summarised."""

    cell: Cell
    key: str
    status: str
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    """By the name of each quantity that the cell has, its number in SI units."""
    spread: float | None = None
    """The standard deviation of the logarithms of the replicates' median times; None for a single replicate."""
    counter: str = ""
    """The name of the run's main memory counter, with its source."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The part of a run that is kept: a point for each cell with a result, and the number of cells without one."""

    points: tuple[Point, ...]
    unfinished: int = 0


@dataclass(frozen=True)
class Entry:
    """One run of a history. A run that cannot be read has only its place and a problem in words."""

    place: str
    """The folder within the history, such as `quick/20260102-030405-abcdef`."""
    suite: str = ""
    run: str = ""
    started: str = ""
    """The time in UTC, ISO 8601, so that entries can be sorted by it as text."""
    machine: str = ""
    commit: str = ""
    dirty: bool = False
    facts: Facts = field(default_factory=dict)
    """The facts that numbers depend on: versions, processor, device."""
    methods: Mapping[str, str] = field(default_factory=dict)
    """The version of the package and a digest of the source, by method."""
    ok: int = 0
    failed: int = 0
    unfinished: int = 0
    base: bool = False
    """True where an older commit was measured again for comparison: such a run adds no points to a track."""
    problem: str = ""

    @classmethod
    def of(cls, place: str, info: RunInfo, summary: Summary) -> "Entry":
        """Return the entry of a readable run. Raises ValueError where its start is no time in ISO 8601."""
        ok = sum(point.status == "ok" for point in summary.points)
        moment = datetime.fromisoformat(info.started)
        started = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")
        return cls(
            place=place,
            suite=info.suite.name,
            run=info.id,
            started=started,
            machine=info.machine,
            commit=str(info.git.get("commit") or ""),
            dirty=bool(info.git.get("dirty")),
            facts=info.environment | info.surroundings.facts,
            methods={name: each.version for name, each in info.methods.items()},
            ok=ok,
            failed=len(summary.points) - ok,
            unfinished=summary.unfinished,
            base=info.is_base,
        )

    @property
    def date(self) -> str:
        """The day, in UTC."""
        return self.started[:10]

    @property
    def short_commit(self) -> str:
        """The commit as `1a2b3c4d`, with a + if the checkout had changes; empty for a run outside of a checkout."""
        return f"{self.commit[:_SHORT]}{'+' if self.dirty else ''}" if self.commit else ""

    def changes_to(self, other: "Entry", method: str) -> list[str]:
        """List in words what differs where another run measured a method, such as `torch 2.12.0 → 2.13.0`."""
        pairs = [(name, self.facts.get(name), other.facts.get(name)) for name in {**self.facts, **other.facts}]
        pairs.append((method, self.methods.get(method), other.methods.get(method)))
        return [
            f"{name} {' → '.join('none' if value is None else str(value) for value in (old, new))}"
            for name, old, new in pairs
            if old != new
        ]


@dataclass(frozen=True)
class Track:
    """One quantity of one cell of one suite on one machine, in the order in which its runs were started.

    Versions of software may change along a track: a track exists to show what they change.
    """

    suite: str
    machine: str
    cell: Cell
    runs: Integers
    """For each point its run, as a position in the list of all entries; rising."""
    values: Floats
    """The number of each point, NaN where there is none; the same holds for `spread`, that of the times within a run."""
    spread: Floats
    counters: Integers
    """For each point a number that stands for the memory counter of its run; -1 where there is none."""
    failures: Integers
    """For each point how it failed, as a number in `reasons`; -1 where it is ok."""
    reasons: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """The status and the reason of each kind of failure in the history."""

    def __len__(self) -> int:
        return len(self.runs)
