"""Progress of a run: a bar with the time left on a terminal, one line a block elsewhere."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass, main_pass
from attnbench.schema.outcome import SERVER, Failed
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

_RECENT = 20


class Remarks:
    """Says how processes came about otherwise than they should; what is said once is not said again."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self.said: set[str] = set()

    def took(self, record: Record) -> None:
        """A record was stored."""
        if (remark := str(record.outcome.facts.get(SERVER) or "")) and remark not in self.said:
            self.said.add(remark)
            self.say(remark)


class Progress:
    """Counts (cell, replicate) pairs; a pair that need not be measured is done at once."""

    def __init__(self, info: RunInfo, records: Sequence[Record]) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.replicates = info.suite.replicates
        self.total = len(info.cells) * self.replicates
        self.left = {(cell.key, r) for cell in info.cells for r in range(self.replicates)}
        self.spent: dict[str, float] = {}
        self.recent: list[float] = []
        self.block: str | None = None
        self.statuses: Counter[str] = Counter()
        self.mark = time.monotonic()
        self.remarks = Remarks(self.say)
        self.bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[eta]}"),
            console=self.console, transient=True, disable=not self.console.is_terminal, auto_refresh=False,
        )  # fmt: skip
        for record in records:
            self._cross_off(record)
        self.task = self.bar.add_task("starting", total=self.total, completed=self.total - len(self.left), eta="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()
        self._end_block(None)

    def say(self, text: str) -> None:
        """One line, above the bar where there is one."""
        self.console.print(text, markup=False, soft_wrap=True)

    def starts(self, job: Job) -> None:
        """A job is about to run."""
        if job.phase is not Pass.CHECK:
            self._end_block(_block(job.cell, job.replicate, self.replicates))
        # drawn here only: a thread that redraws would run beside the measurement
        batch = f" B={job.B}" if job.B is not None else ""
        self.bar.update(self.task, description=f"{job.phase} {job.cell.label} N={job.cell.problem.N}{batch}", refresh=True)

    def took(self, record: Record) -> None:
        """A record was stored."""
        self.remarks.took(record)
        before = len(self.left)
        self._cross_off(record)
        if record.job.phase is main_pass(record.job.cell) and not record.too_large:
            outcome = record.outcome
            self.statuses[outcome.status.value if isinstance(outcome, Failed) else "ok"] += 1
        if record.seconds is not None and record.job.phase in {main_pass(record.job.cell), Pass.MEMORY}:
            self.spent[record.job.cell.key] = record.seconds
            self.recent = [*self.recent[-_RECENT:], record.seconds]
        self.bar.update(self.task, advance=before - len(self.left), eta=self.eta())

    def eta(self) -> str:
        """Time left: what each cell took before, or the recent mean for one that was not seen yet."""
        mean = sum(self.recent) / len(self.recent) if self.recent else 0.0
        seconds = sum(self.spent.get(key, mean) for key, _ in self.left)
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def _cross_off(self, record: Record) -> None:
        key, outcome = record.job.cell.key, record.outcome
        if record.job.phase is not main_pass(record.job.cell) or record.too_large:
            return
        if isinstance(outcome, Failed):
            self.left -= {(key, r) for r in range(self.replicates)}
        else:
            self.left.discard((key, record.job.replicate))

    def _end_block(self, block: str | None) -> None:
        if self.block is not None and block != self.block and not self.console.is_terminal:
            now = time.monotonic()
            found = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
            self.say(f"{self.block}: {found or 'nothing new'}; {now - self.mark:.1f} s; {self.eta()}")
            self.statuses.clear()
            self.mark = now
        self.block = block


def _block(cell: Cell, replicate: int, replicates: int) -> str:
    mask = "causal" if cell.problem.causal else "full"
    return f"replicate {replicate + 1}/{replicates} N={cell.problem.N} {cell.workload} {mask} {cell.problem.dtype}"
