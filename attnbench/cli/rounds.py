"""Progress of a selfcheck: a bar with the time left on a terminal, one line a round elsewhere."""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from attnbench.cli.progress import Remarks
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Selfcheck


class Rounds:
    """Counts processes; those that have their record are done at once."""

    def __init__(self, plan: Selfcheck, records: Iterable[Record]) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.plan = plan
        self.left = set(range(plan.processes))
        for record in records:
            self._cross_off(record)
        self.before, self.begin, self.mark = len(self.left), time.monotonic(), time.monotonic()
        self.round: int | None = None
        self.failed = 0
        self.remarks = Remarks(self.say)
        self.bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[eta]}"),
            console=self.console, transient=True, disable=not self.console.is_terminal, auto_refresh=False,
        )  # fmt: skip
        done = plan.processes - self.before
        self.task = self.bar.add_task("starting", total=plan.processes, completed=done, eta="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()
        self._end_round(None)

    def say(self, text: str) -> None:
        """One line, above the bar where there is one."""
        self.console.print(text, markup=False, soft_wrap=True)

    def took(self, record: Record) -> int | None:
        """A record was stored; how many rounds are over, where it was the last one of its round."""
        self.remarks.took(record)
        if record.job.phase is not Pass.TIME:
            return None
        self._end_round(self.plan.place(record.job.replicate).replicate)
        self.failed += not record.ok
        self._cross_off(record)
        # drawn here only: a thread that redraws would run beside the measurement
        done = self.plan.processes - len(self.left)
        self.bar.update(self.task, completed=done, description=self._round_words(), eta=self.eta(), refresh=True)
        replicate = self.plan.place(record.job.replicate).replicate
        going_on = any(self.plan.place(number).replicate <= replicate for number in self.left)
        return None if going_on else replicate + 1

    def eta(self) -> str:
        """Time left, by what a process took so far, servers included."""
        done = self.before - len(self.left)
        seconds = (time.monotonic() - self.begin) / done * len(self.left) if done else 0.0
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def _cross_off(self, record: Record) -> None:
        interrupted = isinstance(record.outcome, Failed) and record.outcome.status is Status.INTERRUPTED
        if record.job.phase is Pass.TIME and not interrupted:
            self.left.discard(record.job.replicate)

    def _round_words(self) -> str:
        return f"round {(self.round or 0) + 1}/{self.plan.replicates}"

    def _end_round(self, following: int | None) -> None:
        if self.round is not None and following != self.round and not self.console.is_terminal:
            now = time.monotonic()
            failed = f"{self.failed} failed; " if self.failed else ""
            self.say(f"{self._round_words()}: {failed}{now - self.mark:.0f} s; {self.eta()}")
            self.failed, self.mark = 0, now
        self.round = following
