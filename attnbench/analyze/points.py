"""What a history keeps of a run: a point for each cell that it came to; and what a run lacks to be whole."""

import math
from collections.abc import Iterable, Sequence

from attnbench.analyze.cells import NOT_RUN, CellSummary, summarize
from attnbench.analyze.main_counter import MainCounter, main_counter
from attnbench.analyze.statistics import variance
from attnbench.schema.history import Point, Summary
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

_UNFINISHED = (NOT_RUN, Status.INTERRUPTED.value)


def points(run: RunInfo, records: Iterable[Record]) -> Summary:
    """Of all cells; those that were not run, or only interrupted, are counted and have no point."""
    summaries = summarize(run.cells, records)
    counter = main_counter(summaries)
    found = tuple(_point(summary, counter) for summary in summaries if summary.status not in _UNFINISHED)
    return Summary(found, unfinished=len(summaries) - len(found))


def _point(summary: CellSummary, counter: MainCounter | None) -> Point:
    bytes_ = counter.per_sample(summary) if counter else None
    return Point(
        cell=summary.cell,
        key=summary.cell.key,
        status=summary.status,
        reason=summary.reason,
        seconds=summary.time.value if summary.time else None,
        spread=_spread(tuple(summary.medians.values())) if summary.ok else None,
        replicates=summary.replicates,
        bytes=bytes_,
        counter=f"{counter.name} ({counter.source})" if counter and bytes_ is not None else "",
    )


def _spread(medians: Sequence[float]) -> float | None:
    return math.sqrt(variance([math.log(median) for median in medians])) if len(medians) > 1 else None


def lacks(run: RunInfo, records: Iterable[Record]) -> list[str]:
    """In words, what was planned and has no record; nothing of a run that is whole."""
    cells = summarize(run.cells, records)
    missing = [summary for summary in cells if summary.status in _UNFINISHED]
    # a comparison goes on only with what is not clear yet
    wanted = 1 if run.interleaved else run.suite.replicates
    short = [summary for summary in cells if summary.ok and summary.replicates < wanted]
    found = [f"{len(missing)} of {len(cells)} cells were not run"] if missing else []
    return [*found, *([f"{len(short)} cells have fewer than {wanted} replicates"] if short else [])]
