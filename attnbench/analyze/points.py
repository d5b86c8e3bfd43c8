"""A history keeps of a run a point for each cell with a result; here is also what a run lacks to be whole."""

import math
from collections.abc import Iterable

from attnbench.analyze.cells import NOT_RUN, CellSummary, summarize
from attnbench.analyze.main_counter import main_counter
from attnbench.analyze.quantities import recorded
from attnbench.analyze.statistics import variance
from attnbench.schema.history import Point, Summary
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.units import counted

UNFINISHED = frozenset({NOT_RUN, Status.INTERRUPTED.value})
"""The statuses of a cell about which nothing is known: it neither ran nor failed."""


def points(run: RunInfo, records: Iterable[Record]) -> Summary:
    """Return a point with all its figures for each cell; cells that were not run, or only interrupted, are counted."""
    summaries = summarize(run.cells, records)
    counter, known = main_counter(summaries), recorded(summaries, run)

    def point(summary: CellSummary) -> Point:
        found = {name: each.estimate(summary) for name, each in known.items()}
        logs = [math.log(median) for median in summary.medians.values()] if summary.ok else []
        return Point(
            cell=summary.cell,
            key=summary.cell.key,
            status=summary.status,
            reason=summary.reason,
            figures={name: estimate.value for name, estimate in found.items() if estimate is not None},
            spread=math.sqrt(variance(logs)) if len(logs) > 1 else None,
            counter=f"{counter.name} ({counter.source})" if counter and counter.per_sample(summary) is not None else "",
        )

    finished = [summary for summary in summaries if summary.status not in UNFINISHED]
    # a history compares the runs of one machine
    here = [summary for summary in finished if summary.environment not in run.elsewhere]
    return Summary(tuple(map(point, here)), unfinished=len(summaries) - len(finished))


def lacks(run: RunInfo, records: Iterable[Record]) -> list[str]:
    """Say in words what was planned and has no record; return nothing for a run that is whole."""
    cells = summarize(run.cells, records)
    missing = [summary for summary in cells if summary.status in UNFINISHED]
    # a comparison goes on only with what is not clear yet
    wanted = 1 if run.interleaved else run.suite.replicates
    short = [summary for summary in cells if summary.ok and summary.replicates < wanted]
    found = [f"{len(missing)} of {counted(len(cells), 'cell')} not run"] if missing else []
    return [*found, *([f"{counted(len(short), 'cell')} with fewer than {wanted} replicates"] if short else [])]
