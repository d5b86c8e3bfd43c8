"""Bencher Metric Format: latency in nanoseconds, and the memory counter by its own name."""

from collections.abc import Sequence

from attnbench.analyze.main_counter import MainCounter
from attnbench.report.exports.entries import Entry, notes, timed_or_refused
from attnbench.report.exports.exchange import Export, Source
from attnbench.report.exports.strict_json import encode

FILE = "bencher.json"
_PER_SECOND = 1e9
Measures = dict[str, dict[str, float]]


def make(sources: Sequence[Source]) -> Export:
    """One run; a benchmark without a value cannot be said. Raises ExportError."""
    (source,) = sources
    data = {entry.name: _measures(entry, source.findings.counter) for entry in timed_or_refused(source)}
    return Export({FILE: encode(data)}, notes(source.findings))


def _measures(entry: Entry, counter: MainCounter | None) -> Measures:
    measures = {"latency": _latency(entry)}
    if counter is not None and entry.bytes is not None:
        measures[counter.name.replace("_", "-")] = {"value": entry.bytes}
    return measures


def _latency(entry: Entry) -> dict[str, float]:
    value = {"value": entry.seconds * _PER_SECOND}
    if entry.interval is None:
        return value
    ends = entry.interval.times(_PER_SECOND)
    return {**value, "lower_value": ends.low, "upper_value": ends.high}
