"""Bencher and github-action-benchmark: flat lists of named values.

Both read null and an empty text as 0, so a cell without a number is left out and named in the notes.
"""

from collections.abc import Sequence

from attnbench.analyze.quantities import TIME, Unit
from attnbench.analyze.statistics import Spread
from attnbench.report.exports.exchange import Export, Source, encode, entries, notes, refuse_empty

BENCHER, SMALLER, BIGGER = "bencher.json", "github-action-benchmark.json", "github-action-benchmark-bigger.json"
_UNITS = {Unit.SECONDS: (1e3, "ms"), Unit.BYTES: (1.0, "bytes"), Unit.SHARE: (100.0, "%"), Unit.PLAIN: (1.0, "1")}
"""Factor and name of github-action-benchmark's units, whatever the size: units must stay what they were."""
_RANGES = {Spread.INTERVAL: "95 % t interval", Spread.BAND: "smallest and largest"}


def bencher(sources: Sequence[Source]) -> Export:
    """Write one run in Bencher's metric format: its own measure latency, in nanoseconds, and all else in SI units."""
    (source,) = sources
    found = entries(source.findings)
    refuse_empty(found, source)
    data: dict[str, dict[str, dict[str, float]]] = {}
    for entry in found:
        is_time = entry.quantity.name == TIME
        scale, measure = (1e9, "latency") if is_time else (1.0, entry.figure.replace("_", "-"))
        ends = entry.interval.times(scale) if entry.interval else None
        range_ = {"lower_value": ends.low, "upper_value": ends.high} if ends else {}
        data.setdefault(entry.name, {})[measure] = {"value": entry.value * scale, **range_}
    return Export({BENCHER: encode(data)}, notes(source.findings))


def github_action(sources: Sequence[Source], *, bigger: bool) -> Export:
    """Write one run for github-action-benchmark's tool customBiggerIsBetter: rates, shares and scores of which more is better.

    Otherwise for its tool customSmallerIsBetter: all other figures.
    """
    (source,) = sources
    found = [entry for entry in entries(source.findings) if entry.quantity.more_is_better is bigger]
    refuse_empty(found, source)
    lines = []
    for entry in found:
        scale, unit = _UNITS.get(entry.quantity.unit, (1.0, entry.quantity.unit.value))
        name = entry.name if entry.quantity.name == TIME else f"{entry.name}/{entry.figure}"
        line: dict[str, object] = {"name": name, "value": entry.value * scale, "unit": unit}
        if entry.interval is not None:
            # the action knows only ±, so the farther end counts
            reach = max(entry.interval.high - entry.value, entry.value - entry.interval.low) * scale
            about = f"{len(entry.replicates)} replicates; range: {_RANGES[entry.interval.kind]}"
            line |= {"range": f"± {reach:.3g}", "extra": about}
        elif entry.quantity.is_replicated:
            line["extra"] = "1 replicate"
        lines.append(line)
    return Export({BIGGER if bigger else SMALLER: encode(lines)}, notes(source.findings))
