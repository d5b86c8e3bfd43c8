"""The executor of a selfcheck: the local one, with many verdicts on one cell in place of many cells."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from attnbench.executors.local import LocalExecutor
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Measured
from attnbench.schema.record import Record
from attnbench.schema.seeds import draw_seed
from attnbench.schema.selfcheck import Place, Selfcheck

_VERDICTS_A_SERVER = 10
"""Children of one server share its address layout: too many verdicts of one pair of servers would err together."""
_GIVE_UP = 10
"""Failures in a row after which the rest would fail too; before anything was measured, one is enough."""

Warmups = dict[tuple[int, int], int]
"""By verdict and side: how many warm-up calls its first process took."""


@dataclass(kw_only=True)
class SelfcheckExecutor(LocalExecutor):
    """Round r takes replicate r of every verdict, in random order.

    As in a gate, the two sides of a verdict run one after the other, in random order, each forked from a warm server of
    its side; and the processes of one side take the warm-up count that its first one found. Each round has new servers.
    """

    plan: Selfcheck
    warmups: Warmups = field(default_factory=dict)
    """Of the records that there are already."""

    def run(self) -> Iterator[Record]:
        """Records as they come; ends early where the method cannot be measured, and its records say why."""
        failures = 0
        for replicate in range(self.plan.replicates):
            for group in groups(self.plan, replicate, self.run_info.suite.seed):
                for record in self._group([number for number in group if not self._finished(number)]):
                    yield record
                    if record.job.phase is Pass.TIME:
                        failures = 0 if record.ok else failures + (not self.ledger.disturbed(record))
                    if failures >= (_GIVE_UP if self.warmups else 1):
                        return

    def _group(self, numbers: list[int]) -> Iterator[Record]:
        if not numbers:
            return
        with self.isolation() as a, self.isolation() as b:
            for number in numbers:
                self._worker = (a, b)[self.plan.place(number).side]
                yield from self._main(self.plan.cell(number), number)

    def _finished(self, number: int) -> bool:
        return self.ledger.finished(self.plan.cell(number), Pass.TIME, number)

    def _job(self, cell: Cell, phase: Pass, replicate: int) -> Job:
        job, place = super()._job(cell, phase, replicate), self.plan.place(replicate)
        if phase is not Pass.TIME:
            return job
        first = place.replicate == 0
        # in a run too, only the first replicate may find a cell too slow
        limits = job.limits.model_copy(update={"first_call": self.run_info.suite.budget.seconds / 2 if first else None})
        # both processes of a pair draw the same inputs
        seed = draw_seed(self.run_info.suite.seed, cell, self.plan.pair(replicate))
        warmup = self.warmups.get((place.verdict, place.side))
        return job.model_copy(update={"seed": seed, "limits": limits, "warmup": warmup})

    def _taken(self, record: Record) -> Record:
        self.warmups |= warmups_of(self.plan, [record])
        return super()._taken(record)


def groups(plan: Selfcheck, replicate: int, seed: int) -> Iterator[list[int]]:
    """The numbers of one round, in parts that share a pair of servers; the seed decides their order."""
    order = random.Random(f"{seed}/{replicate}")  # noqa: S311 - an order, not a secret
    verdicts = order.sample(range(plan.verdicts), plan.verdicts)
    for start in range(0, plan.verdicts, _VERDICTS_A_SERVER):
        part = verdicts[start : start + _VERDICTS_A_SERVER]
        yield [plan.number(Place(verdict, side, replicate)) for verdict in part for side in order.sample((0, 1), 2)]


def warmups_of(plan: Selfcheck, records: Iterable[Record]) -> Warmups:
    """What the first processes of verdicts and sides found."""
    found: Warmups = {}
    for record in records:
        place, outcome = plan.place(record.job.replicate), record.outcome
        count = outcome.facts.get("warmup_calls") if isinstance(outcome, Measured) else None
        if record.job.phase is Pass.TIME and place.replicate == 0 and isinstance(count, int):
            found.setdefault((place.verdict, place.side), count)
    return found
