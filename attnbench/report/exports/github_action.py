"""github-action-benchmark's list for its tool `customSmallerIsBetter`.

It reads null and an empty text as 0, so what has no number is left out.
"""

from collections.abc import Iterator, Sequence

from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.statistics import Interval, Spread
from attnbench.report.exports.entries import Entry, notes, timed_or_refused
from attnbench.report.exports.exchange import Export, Source
from attnbench.report.exports.strict_json import encode

FILE = "github-action-benchmark.json"
_PER_SECOND = 1e3
_MEANING = {Spread.INTERVAL: "95 % t interval", Spread.BAND: "smallest and largest"}


def make(sources: Sequence[Source]) -> Export:
    """One run; milliseconds and bytes, whatever the size: units must stay what they were. Raises ExportError."""
    (source,) = sources
    counter = source.findings.counter
    entries = timed_or_refused(source)
    return Export({FILE: encode([line for entry in entries for line in _lines(entry, counter)])}, notes(source.findings))


def _lines(entry: Entry, counter: MainCounter | None) -> Iterator[dict[str, object]]:
    yield {"name": entry.name, "value": entry.seconds * _PER_SECOND, "unit": "ms", **_spread(entry)}
    if counter is not None and entry.bytes is not None:
        yield {"name": f"{entry.name}/{counter.name}", "value": entry.bytes, "unit": "bytes"}


def _spread(entry: Entry) -> dict[str, str]:
    """The farther end of the interval, for the action knows only ±."""
    interval, n = entry.interval, len(entry.medians)
    if interval is None:
        return {"extra": "1 replicate"}
    return {"range": f"± {_reach(interval, entry.seconds) * _PER_SECOND:.3g}", "extra": _extra(interval, n)}


def _reach(interval: Interval, value: float) -> float:
    return max(interval.high - value, value - interval.low)


def _extra(interval: Interval, n: int) -> str:
    return f"median of {n} replicates; range: {_MEANING[interval.kind]}"
