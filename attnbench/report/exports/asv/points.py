"""What asv plots: benchmarks over lengths, in its columns."""

import html
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.report.exports.cell_names import label_name, series_name
from attnbench.report.findings import Findings
from attnbench.report.text.per import per
from attnbench.schema.outcome import Status

VERSION = "1"
"""Of the meaning of our numbers: asv does not compare values of different versions."""
COLUMNS = (
    *("result", "params", "version", "started_at", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples"),
)
_SKIPPED = {NOT_RUN, Status.INTERRUPTED.value}
"""No failures: asv's null would call them so."""


@dataclass(frozen=True, order=True)
class Size:
    """Asv's parameter."""

    N: int
    B: int

    def __str__(self) -> str:
        """A number where it can be, for then asv's page has an axis of numbers."""
        return str(self.N) if self.B == 1 else f"{self.N} (B={self.B})"


@dataclass(frozen=True)
class Point:
    """One cell; a value of None is a failure."""

    value: float | None
    medians: tuple[float, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """A method under one set of conditions, over all sizes."""

    name: str
    unit: str
    about: str
    points: Mapping[Size, Point]

    def entry(self) -> dict[str, object]:
        """Its entry in benchmarks.json."""
        return {
            "code": self.about,
            "name": self.name,
            "param_names": ["N"],
            "params": [[str(size) for size in sorted(self.points)]],
            "type": "time" if self.unit == "seconds" else "memory",
            "unit": self.unit,
            "version": VERSION,
        }

    def row(self, started: int) -> list[object]:
        """Its columns in a file of results; `started` in milliseconds."""
        points = [self.points[size] for size in sorted(self.points)]
        stats = [_stats(point.medians) for point in points]
        columns = [[found.get(name) for found in stats] for name in COLUMNS[4:-1]]
        sizes = [str(size) for size in sorted(self.points)]
        values = _or_none([point.value for point in points])
        return [values, [sizes], VERSION, started, *map(_or_none, columns), _or_none([list(p.medians) or None for p in points])]


def _or_none(values: Sequence[object]) -> list[object] | None:
    """Asv writes null for a list of nothing."""
    return None if all(value is None for value in values) else list(values)


def benchmarks(findings: Findings) -> list[Benchmark]:
    """Of one run: the times, and the main memory counter."""
    timed = [s for s in findings.summaries if s.cell.workload.is_timed and s.status not in _SKIPPED]
    return united(each for summary in timed for each in _of_cell(findings, summary))


def _of_cell(findings: Findings, summary: CellSummary) -> Iterator[Benchmark]:
    """Per sample of the batch; memory that was not read is no failure, and no point."""
    series, counter = series_name(summary.cell), findings.counter
    size = Size(summary.cell.problem.N, summary.cell.problem.B)
    medians = tuple(summary.times[i] for i in sorted(summary.times)) if summary.ok else ()
    time = Point(statistics.median(medians) if medians else None, medians)
    yield Benchmark(f"time.{series}", "seconds", _about(findings, summary, "seconds"), {size: time})
    used = counter.per_sample(summary) if counter else None
    if counter and (used is not None or not summary.ok):
        yield Benchmark(f"{counter.name}.{series}", "bytes", _about(findings, summary, "bytes"), {size: Point(used)})


def _about(findings: Findings, summary: CellSummary, unit: str) -> str:
    """Asv's pages show it as HTML."""
    words = [
        f"{label_name(summary.cell)}: {unit} {per(summary.cell.workload)}",
        f"tier {findings.tier(summary)}, {findings.paper(summary)}",
    ]
    return html.escape("\n".join(words))


def _stats(medians: Sequence[float]) -> dict[str, float]:
    """Over the replicate medians, as they are what is independent; nothing of a failure."""
    if not medians:
        return {}
    found: dict[str, float] = {"stats_number": 1, "stats_repeat": len(medians)}
    if len(medians) == 1:
        return {**found, "stats_q_25": medians[0], "stats_q_75": medians[0]}
    q25, _, q75 = statistics.quantiles(medians, n=4, method="inclusive")
    # asv's own interval of so few values is infinite, which JSON cannot say
    half = float(special.stdtrit(len(medians) - 1, 0.995)) * statistics.stdev(medians) / math.sqrt(len(medians))
    mean = statistics.fmean(medians)
    return {**found, "stats_q_25": q25, "stats_q_75": q75, "stats_ci_99_a": mean - half, "stats_ci_99_b": mean + half}


def united(many: Iterable[Benchmark]) -> list[Benchmark]:
    """One benchmark a name, with the sizes of all; where two have one size, the later counts."""
    found: dict[str, Benchmark] = {}
    for each in many:
        known = found.get(each.name)
        points = {**(known.points if known else {}), **each.points}
        found[each.name] = Benchmark(each.name, each.unit, each.about, points)
    return list(found.values())
