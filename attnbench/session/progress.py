"""The progress of a measurement, counted from its records and told to a reporter."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice

from attnbench.schema.errand import Job, Pass, main_pass
from attnbench.schema.outcome import SERVER, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.session.reporter import Reporter

_RECENT = 20
Process = tuple[str, int]
"""A cell by its key, and the number of a replicate."""


def processes(info: RunInfo) -> set[Process]:
    """Return all that a run measures."""
    return {(cell.key, replicate) for cell in info.cells for replicate in range(info.suite.replicates)}


def block_of(info: RunInfo) -> Callable[[Job], str]:
    """Name the block that a job of a run belongs to."""

    def name(job: Job) -> str:
        cell, p = job.cell, job.cell.problem
        return f"replicate {job.replicate + 1}/{info.suite.replicates} N={p.N} {cell.workload} {p.mask} {p.dtype}"

    return name


@dataclass
class _Part:
    """The part of the work that a lane is at."""

    name: str = ""
    statuses: Counter[str] = field(default_factory=Counter)
    since: float = field(default_factory=time.monotonic)


class Progress(AbstractContextManager["Progress"]):
    """Counts processes; one that has its record is done, and need not be measured.

    `block` names the part of the work that a job belongs to; `lanes` of them are worked on at a time. Where a cell is
    `given_up` at its first failure, all its processes are done then.
    """

    def __init__(
        self,
        reporter: Reporter,
        left: Iterable[Process],
        block: Callable[[Job], str] = lambda _: "",
        records: Iterable[Record] = (),
        *,
        given_up: bool = True,
        lanes: int = 1,
    ) -> None:
        self.reporter, self._left = reporter, defaultdict[str, set[int]](set)
        for key, replicate in left:
            self._left[key].add(replicate)
        self.total = self._count = sum(map(len, self._left.values()))
        self._block_of, self._given_up = block, given_up
        self._parts = [_Part() for _ in range(lanes)]
        self._said: set[str] = set()
        self._lasted = defaultdict[str, dict[Pass, float]](dict)
        # of the processes that are left: how many are of cells that were seen before, and the seconds that those may take
        self._seen, self._likely = 0, 0.0
        self._sum, self._begin = 0.0, time.monotonic()
        for record in records:
            self._take(record)

    @property
    def left(self) -> set[Process]:
        """What has no record yet."""
        return {(key, replicate) for key, replicates in self._left.items() for replicate in replicates}

    def __exit__(self, *_: object) -> None:
        for lane in range(len(self._parts)):
            self._enter("", lane)
        self.reporter.stop()

    def starts(self, lane: int, job: Job) -> None:
        """Note that a job is about to run."""
        if job.phase is not Pass.CHECK:
            self._enter(self._block_of(job), lane)
        batch = f" B={job.B}" if job.B is not None else ""
        doing = f"{job.phase} {job.cell.label} N={job.cell.problem.N}{batch}"
        self.reporter.step(doing, self.total - self._count, self.total, self._time_left())

    def took(self, record: Record, lane: int = 0) -> None:
        """Note that a record was stored."""
        # how a process came about otherwise than it should is said once
        if (remark := str(record.outcome.facts.get(SERVER) or "")) and remark not in self._said:
            self._said.add(remark)
            self.reporter.say(remark)
        self._take(record)
        main = main_pass(record.job.cell)
        if record.job.phase is main and not record.too_large:
            self._parts[lane].statuses[record.failed.status.value if record.failed else "ok"] += 1
        if record.seconds is not None and record.job.phase in {main, Pass.MEMORY}:
            self._sum += record.seconds
            self._lasts(record.job.cell.key, record.job.phase, record.seconds)

    def _time_left(self) -> str:
        """Say how long it takes by what each cell took, or the cells seen last; checks and the rest count in proportion."""
        recent = [sum(passes.values()) for passes in islice(reversed(self._lasted.values()), _RECENT)]
        mean = sum(recent) / len(recent) if recent else 0.0
        most = 1 / len(self._parts)
        around = max(most, (time.monotonic() - self._begin) / self._sum) if self._sum else most
        seconds = around * (self._likely + mean * (self._count - self._seen))
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def _take(self, record: Record) -> None:
        failed, is_main = record.failed, record.job.phase is main_pass(record.job.cell)
        if is_main and not record.too_large and not (failed and failed.status is Status.INTERRUPTED):
            self.cross_off(record.job.cell.key, None if failed and self._given_up else record.job.replicate)

    def cross_off(self, key: str, replicate: int | None = None) -> None:
        """Note that a process is done; without a number all of the cell."""
        left = self._left[key]
        gone = len(left) if replicate is None else int(replicate in left)
        left -= left if replicate is None else {replicate}
        self._count -= gone
        if key in self._lasted:
            self._seen -= gone
            self._likely -= gone * sum(self._lasted[key].values())

    def _lasts(self, key: str, phase: Pass, seconds: float) -> None:
        """Note that a pass of a cell lasted so long, as those of it that are left may."""
        left = len(self._left[key])
        self._seen += 0 if key in self._lasted else left
        self._likely += left * (seconds - self._lasted[key].get(phase, 0.0))
        self._lasted[key][phase] = seconds

    def _enter(self, name: str, lane: int) -> None:
        """Work on a block begins in a lane, and that on another one is over."""
        part = self._parts[lane]
        if name == part.name:
            return
        if part.name:
            found = ", ".join(f"{count} {status}" for status, count in sorted(part.statuses.items()))
            lasted = time.monotonic() - part.since
            self.reporter.block(f"{part.name}: {found or 'nothing new'}; {lasted:.1f} s; {self._time_left()}")
        self._parts[lane] = _Part(name)
