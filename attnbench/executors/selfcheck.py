"""The executor of a selfcheck, which makes many verdicts on one cell."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from attnbench.executors.local import LocalExecutor
from attnbench.schema.cell import Cell, draw_seed
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Measured
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck

_VERDICTS_A_SERVER = 10
"""The verdicts of one pair of servers. Children of a server share its address layout, so these verdicts may err together."""
_GIVE_UP = 10
"""The failures in a row after which the rest would fail too; before anything was measured, one is enough."""

Warmups = dict[tuple[int, int], int]
"""The warm-up calls of the first process, by verdict and side."""


@dataclass(kw_only=True)
class SelfcheckExecutor(LocalExecutor):
    """Measures replicate r of every verdict in round r, in random order.

    As in a gate, the two sides of a verdict run one after the other, in random order, each forked from a warm server of
    its side; and the processes of one side take the warm-up count that its first one found. Each round has new servers.
    """

    plan: Selfcheck
    warmups: Warmups = field(default_factory=dict)
    """The warm-up calls in the records that exist already."""

    def run(self) -> Iterator[Record]:
        """Give each record as soon as it exists; end early where the method cannot be measured, as its records say."""
        failures = 0
        for replicate in range(self.plan.replicates):
            for group in groups(self.plan, replicate, self.run_info.suite.seed):
                lacking = [n for n in group if not self.ledger.finished(self.plan.cell(n), Pass.TIME, n)]
                if not lacking:
                    continue
                with self.isolation() as a, self.isolation() as b:
                    for number in lacking:
                        self._worker = (a, b)[self.plan.place(number).side]
                        for record in self._main(self.plan.cell(number), number):
                            self.warmups |= warmups_of(self.plan, [record])
                            yield record
                            if record.job.phase is Pass.TIME:
                                failures = 0 if record.ok else failures + (not self.ledger.disturbed(record))
                            if failures >= (_GIVE_UP if self.warmups else 1):
                                return

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


def groups(plan: Selfcheck, replicate: int, seed: int) -> Iterator[list[int]]:
    """Give the numbers of one round, in parts that share a pair of servers; the seed decides their order."""
    order = random.Random(f"{seed}/{replicate}")  # noqa: S311 - an order, not a secret
    verdicts = order.sample(range(plan.verdicts), plan.verdicts)
    for start in range(0, plan.verdicts, _VERDICTS_A_SERVER):
        part = verdicts[start : start + _VERDICTS_A_SERVER]
        yield [plan.number(Place(verdict, side, replicate)) for verdict in part for side in order.sample((0, 1), 2)]


def warmups_of(plan: Selfcheck, records: Iterable[Record]) -> Warmups:
    """Return the warm-up calls that the first processes of verdicts and sides found."""
    found: Warmups = {}
    for record in records:
        place, outcome = plan.place(record.job.replicate), record.outcome
        count = outcome.facts.get("warmup_calls") if isinstance(outcome, Measured) else None
        if record.job.phase is Pass.TIME and place.replicate == 0 and isinstance(count, int):
            found.setdefault((place.verdict, place.side), count)
    return found
