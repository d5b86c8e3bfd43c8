"""pyperf's JSON: raw samples, and what the real tool makes of them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnbench.report.exports.exchange import Source
from attnbench.report.exports.pyperf import make
from attnbench.report.findings import Findings
from attnbench.schema.outcome import Failed, Measured, Series, Status
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Maker, content


def read(source: Source) -> Any:
    return content(make([source]))


def test_a_run_is_a_replicate_with_all_its_samples(maker: Maker) -> None:
    made = Synthetic(tokens=4096, replicates=3)
    records = {
        (r.job.cell.key, r.job.replicate): r.outcome for r in made.records() if "time" in getattr(r.outcome, "samples", {})
    }
    source = maker.source(made)
    measured = [summary for summary in source.findings.summaries if summary.ok]
    benchmarks = read(source)["benchmarks"]
    assert len(benchmarks) == len(measured)
    for summary, benchmark in zip(measured, benchmarks, strict=True):
        assert len(benchmark["runs"]) == 3
        for replicate, run in enumerate(benchmark["runs"]):
            outcome = records[summary.cell.key, replicate]
            assert isinstance(outcome, Measured)
            clock = [value * run["metadata"]["loops"] for value in run["values"]]
            assert clock == pytest.approx(list(outcome.samples["time"].values))


def test_calls_that_were_timed_together_are_loops_and_warm_ups_are_kept(maker: Maker, tiny: Synthetic) -> None:
    records = []
    for record in tiny.records():
        if isinstance(record.outcome, Measured) and record.outcome.samples:
            warm = {**record.outcome.samples, "warmup": Series(unit="s", values=(0.5, 0.25))}
            facts = {**record.outcome.facts, "batch": 7}
            record = record.model_copy(update={"outcome": record.outcome.model_copy(update={"samples": warm, "facts": facts})})
        records.append(record)
    (run, *_) = read(Source(Findings.of(maker.run(tiny), records), records))["benchmarks"][0]["runs"]
    assert run["metadata"]["loops"] == 7
    assert run["warmups"] == [[1, 0.5], [1, 0.25]]


def test_the_last_attempt_of_a_replicate_counts(maker: Maker, tiny: Synthetic) -> None:
    records = tiny.records()
    (first, *_) = [r for r in records if isinstance(r.outcome, Measured) and "time" in r.outcome.samples]
    again = first.model_copy(
        update={
            "job": first.job.model_copy(update={"attempt": 1}),
            "outcome": Measured(samples={"time": Series(unit="s", values=(4.0, 4.0))}),
        }
    )
    stopped = first.model_copy(
        update={
            "job": first.job.model_copy(update={"attempt": 2}),
            "outcome": Failed(status=Status.INTERRUPTED, reason="stopped by the user"),
        }
    )
    records = [*records, again, stopped]
    (benchmark, *_) = read(Source(Findings.of(maker.run(tiny), records), records))["benchmarks"]
    assert benchmark["runs"][0]["values"] == [4.0, 4.0]


def test_metadata_is_what_pyperf_takes(maker: Maker, hostile: Synthetic) -> None:
    data = read(maker.source(hostile))
    every = [data["metadata"], *(b["metadata"] for b in data["benchmarks"])]
    every += [run["metadata"] for b in data["benchmarks"] for run in b["runs"]]
    for value in (value for metadata in every for value in metadata.values()):
        assert isinstance(value, int | float | str)
        assert value != ""
        assert "\n" not in str(value)


def test_a_date_that_is_none_is_left_out(maker: Maker, tiny: Synthetic) -> None:
    records = [record.model_copy(update={"started": "yesterday"}) for record in tiny.records()]
    data = read(Source(Findings.of(maker.run(tiny), records), records))
    assert all("date" not in run["metadata"] for benchmark in data["benchmarks"] for run in benchmark["runs"])


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [1, 3])
def test_pyperf_checks_and_compares(
    replicates: int, either: Synthetic, maker: Maker, tool: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    either.replicates = replicates
    for name, factor in (("old", 1.0), ("new", 2.0)):
        (text,) = make([maker.source(either, factor=factor)]).files.values()
        (tmp_path / f"{name}.json").write_bytes(text)

    def pyperf(*words: str) -> str:
        return tool("pyperf==2.10.*", "python", "-m", "pyperf", *words, cwd=tmp_path).stdout

    names = [benchmark["metadata"]["name"] for benchmark in read(maker.source(either))["benchmarks"]]
    shown = pyperf("show", "old.json")
    assert all(name in shown for name in names)
    pyperf("check", "old.json")
    assert pyperf("compare_to", "old.json", "new.json", "--table").count("2.00x slower") >= len(names)
