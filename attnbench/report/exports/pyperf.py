"""pyperf's JSON: a benchmark for each timed cell, a run for each replicate with its raw samples."""

from collections.abc import Mapping, Sequence

from attnbench.analyze.digest import Digest, counts_over, digest
from attnbench.report.exports.cell_names import label_name
from attnbench.report.exports.exchange import (
    Entry,
    Export,
    Source,
    encode,
    moment,
    notes,
    of_cell,
    one_machine,
    refuse_empty,
    timed,
    without_numbers,
)
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.schema.errand import main_pass
from attnbench.schema.outcome import Measured, Series
from attnbench.schema.record import Record

FILE = "pyperf.json"


def make(sources: Sequence[Source]) -> Export:
    """Write one run; pyperf knows seconds alone, so all other figures are metadata of their cells. Raise ExportError."""
    (source,) = sources
    findings, run = source.findings, source.findings.run
    found, raw = timed(findings), _counting(source.records, findings)
    refuse_empty(found, source, "time")
    facts = run.environment | run.surroundings.facts
    about = {
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
    benchmarks = []
    for entry in found:
        summary = entry.summary
        own = {"name": entry.name, "method": label_name(summary.cell), "flags": " ".join(summary.flags), "batch": summary.B}
        figures = {each.figure: each.value for each in of_cell(findings, summary)}
        runs = [_run(entry, raw[summary.cell.key, replicate]) for replicate in sorted(summary.medians)]
        benchmarks.append({"metadata": _metadata({**figures, **own}), "runs": runs})
    data = {
        "version": "1.0",
        "metadata": _metadata(about),
        "benchmarks": benchmarks,
        # pyperf does not read this
        "attnbench": {"run": run.id, "without_numbers": without_numbers(findings)},
    }
    return Export({FILE: encode(data, indent=None)}, (*notes(findings, times_alone=True), *one_machine(run)))


def _counting(records: Sequence[Record], findings: Findings) -> dict[tuple[str, int], Record]:
    """Return by cell key and replicate number the record that counts, of the passes that cells are measured for.

    It is of the device that the cell's figures are of, and of a batch that did not turn out too large.
    """
    devices = {summary.cell.key: summary.environment for summary in findings.summaries}
    found: dict[tuple[str, int], tuple[Digest, Record]] = {}
    for record in records:
        elsewhere = record.environment != devices.get(record.job.cell.key)
        if record.job.phase is main_pass(record.job.cell) and not (elsewhere or record.too_large):
            key, new = (record.job.cell.key, record.job.replicate), digest(record, facts=False)
            if counts_over(new, found[key][0] if key in found else None):
                found[key] = (new, record)
    return {key: record for key, (_, record) in found.items()}


def _run(entry: Entry, record: Record) -> dict[str, object]:
    """Write a replicate. Values are seconds per sample of the batch; times `loops`, they are those of the clock."""
    outcome, B, share = record.outcome, entry.summary.B, entry.summary.per_sample
    assert isinstance(outcome, Measured)
    calls, date = outcome.facts.get("batch"), moment(record.started)
    about = {
        "loops": B * (calls if isinstance(calls, int) else 1),
        # as pyperf writes it itself: without a time zone
        "date": date.replace(tzinfo=None).isoformat(" ") if date else None,
        "duration": record.seconds,
        "replicate": record.job.replicate,
    }
    # how many calls a warm-up was is not recorded; each is given as one
    warmups = [[B, value * share] for value in outcome.samples.get("warmup", Series(unit="s", values=())).values]
    values = [value * share for value in outcome.samples["time"].values]
    return {"metadata": _metadata(about), **({"warmups": warmups} if warmups else {}), "values": values}


def _metadata(facts: Mapping[str, object]) -> dict[str, int | float | str]:
    """Keep what pyperf takes: numbers, and texts of one line that are not empty."""
    texts = {name: one_line(value) if isinstance(value, str) else value for name, value in facts.items()}
    return {name: value for name, value in texts.items() if isinstance(value, int | float | str) and value != ""}
