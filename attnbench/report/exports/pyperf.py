"""pyperf's JSON: a benchmark for each cell, a run for each replicate, with its raw samples."""

from collections.abc import Mapping, Sequence

from attnbench.report.exports.cell_names import label_name
from attnbench.report.exports.dates import moment
from attnbench.report.exports.entries import Entry, notes, timed_or_refused, without_numbers
from attnbench.report.exports.exchange import Export, Source
from attnbench.report.exports.raw import counting
from attnbench.report.exports.strict_json import encode
from attnbench.report.text.names import one_line
from attnbench.schema.outcome import Measured, Series
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

FILE = "pyperf.json"
_VERSION = "1.0"
Metadata = dict[str, int | float | str]


def make(sources: Sequence[Source]) -> Export:
    """One run. Cells without numbers are in `attnbench.without_numbers`, which pyperf does not read. Raises ExportError."""
    (source,) = sources
    findings, raw = source.findings, counting(source.records)
    data = {
        "version": _VERSION,
        "metadata": _of_run(findings.run),
        "benchmarks": [_benchmark(entry, raw) for entry in timed_or_refused(source)],
        "attnbench": {"run": findings.run.id, "without_numbers": without_numbers(findings)},
    }
    return Export({FILE: encode(data, indent=None)}, notes(findings))


def _of_run(run: RunInfo) -> Metadata:
    facts = run.environment | run.surroundings.facts
    return _metadata(
        {
            "unit": "second",
            "cpu_model_name": facts.get("processor"),
            "cpu_count": facts.get("cores"),
            "platform": facts.get("system"),
            "python_version": facts.get("python"),
            "torch_version": facts.get("torch"),
            "gpu": facts.get("gpu"),
            "device": run.surroundings.device,
            "suite": run.suite.name,
            "attnbench_run": run.id,
            "commit": run.git.get("commit"),
        }
    )


def _benchmark(entry: Entry, raw: Mapping[tuple[str, int], Record]) -> dict[str, object]:
    summary = entry.summary
    about = {"name": entry.name, "method": label_name(summary.cell), "flags": " ".join(summary.flags), "batch": summary.B}
    return {
        "metadata": _metadata(about),
        "runs": [_run(entry, raw[summary.cell.key, replicate]) for replicate in sorted(summary.medians)],
    }


def _run(entry: Entry, record: Record) -> dict[str, object]:
    """Values are seconds per sample of the batch; times `loops`, those of the clock."""
    outcome, share = record.outcome, entry.summary.per_sample
    assert isinstance(outcome, Measured)
    calls = outcome.facts.get("batch")
    about = {
        "loops": entry.summary.B * (calls if isinstance(calls, int) else 1),
        "date": _date(record.started),
        "duration": record.seconds,
        "replicate": record.job.replicate,
    }
    warmups = [[entry.summary.B, value * share] for value in _warmup(outcome)]
    return {
        "metadata": _metadata(about),
        **({"warmups": warmups} if warmups else {}),
        "values": [value * share for value in outcome.samples["time"].values],
    }


def _warmup(outcome: Measured) -> tuple[float, ...]:
    """How many calls each of them was is not recorded; they are given as one."""
    return outcome.samples.get("warmup", Series(unit="s", values=())).values


def _date(started: str) -> str | None:
    """As pyperf writes it itself: without a time zone."""
    read = moment(started)
    return read.replace(tzinfo=None).isoformat(" ") if read else None


def _metadata(facts: Mapping[str, object]) -> Metadata:
    """What pyperf takes: numbers, and texts of one line that are not empty."""
    texts = {name: one_line(value) if isinstance(value, str) else value for name, value in facts.items()}
    return {name: value for name, value in texts.items() if isinstance(value, int | float | str) and value != ""}
