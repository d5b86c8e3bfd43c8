"""The schedule of a selfcheck, which makes many verdicts on one cell."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from attnbench.schedule.cells import CellJobs
from attnbench.schedule.steps import Schedule, Server
from attnbench.schema.cell import draw_seed
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


def in_turns(jobs: CellJobs, plan: Selfcheck, warmups: Warmups) -> Schedule:
    """Give replicate r of every verdict in round r, in random order; end early where the method cannot be measured.

    As in a gate, the two sides of a verdict run one after the other, in random order, each forked from a warm server of
    its side; and the processes of one side take the warm-up count that its first one found. Each part of a round has new
    servers. `warmups` are those in the records that exist already.
    """
    warmups, suite, failures = dict(warmups), jobs.run_info.suite, 0

    def change(job: Job) -> Job:
        place = plan.place(job.replicate)
        if job.phase is not Pass.TIME:
            return job
        # in a run too, only the first replicate may find a cell too slow
        first_call = suite.budget.seconds / 2 if place.replicate == 0 else None
        limits = job.limits.model_copy(update={"first_call": first_call})
        # both processes of a pair draw the same inputs
        seed = draw_seed(suite.seed, job.cell, plan.pair(job.replicate))
        warmup = warmups.get((place.verdict, place.side))
        return job.model_copy(update={"seed": seed, "limits": limits, "warmup": warmup})

    def took(record: Record) -> None:
        nonlocal failures
        warmups.update(warmups_of(plan, [record]))
        if record.job.phase is Pass.TIME:
            failures = 0 if record.ok else failures + (not jobs.ledger.disturbed(record))

    own = replace(jobs, change=change, took=took)
    for replicate in range(plan.replicates):
        for part, group in enumerate(groups(plan, replicate, suite.seed)):
            for number in group:
                if not jobs.ledger.finished(plan.cell(number), Pass.TIME, number):
                    yield from own.main(plan.cell(number), number, Server((replicate, part), plan.place(number).side))
                if failures >= (_GIVE_UP if warmups else 1):
                    return


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
