"""Formats that hold a history: asv's folder, Otava's CSV, and Parquet; what is in them, and what the real tools make of it."""

import csv
import html
import io
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from ruamel.yaml import YAML

from attnbench.report.exports import asv, otava, parquet
from attnbench.report.exports.cell_names import cell_name
from attnbench.report.exports.exchange import Export, ExportError, Place, Source
from attnbench.report.findings import Findings
from attnbench.report.frame import frame
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Failed, Status
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import GIT, committed
from tests.report.conftest import Law, Synthetic
from tests.report.exports.conftest import Tool, commit_of, source_of, write

# asv


NAIVE, CHUNKED = "time.forward.causal.float32.softmax.naive", "time.forward.causal.float32.linear.chunked-chunk=64"


def read(files: Mapping[str, bytes], name: str) -> Any:
    return json.loads(files[name])


def results(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """By commit, the files of results."""
    found = [json.loads(content) for name, content in files.items() if re.search(r"/[0-9a-f]{8}-python", name)]
    return {data["commit_hash"]: data for data in found}


def column(data: dict[str, Any], benchmark: str, name: str) -> Any:
    """Asv leaves out what is null at the end of a row."""
    return dict(zip(data["result_columns"], data["results"][benchmark], strict=False)).get(name)


def test_a_cell_that_never_had_a_time_is_a_row_of_failures(hopeless: Synthetic) -> None:
    (never,) = results(asv.make([source_of(hopeless)]).files).values()
    assert (column(never, NAIVE, "result"), column(never, NAIVE, "params")) == (None, [["512"]])


def test_a_benchmark_says_what_its_figure_is_divided_by_only_where_it_is(learning: Synthetic) -> None:
    made = read(asv.make([source_of(learning)]).files, asv.BENCHMARKS)
    about = {each["code"].partition("\n")[0] for name, each in made.items() if name != "version"}
    assert {text.partition(": ")[2] for text in about if text.startswith("softmax.sdpa: ")} >= {
        "time per sequence",
        "memory per sequence (host_rss_peak)",
        "held-out loss",
    }


def test_what_was_not_run_or_not_read_is_no_failure(tiny: Synthetic) -> None:
    stopped = tiny.record(tiny.run().cells[-1], Failed(status=Status.INTERRUPTED, reason="stopped by the user"))
    short = [record for record in tiny.records() if record.job.cell.problem.N == 512]
    timed = [record for record in tiny.records() if record.job.phase.value != "memory"]
    (data,) = results(asv.make([source_of(tiny, records=[*short, stopped])]).files).values()
    assert column(data, NAIVE, "params") == column(data, CHUNKED, "params") == [["512"]]
    (data,) = results(asv.make([source_of(tiny, records=[*timed, *short])]).files).values()
    assert column(data, "host_rss_peak.forward.causal.float32.linear.chunked-chunk=64", "params") == [["512"]]


@pytest.mark.parametrize("replicates", [1, 2, 5])
def test_the_spread_is_that_of_the_replicates(tiny: Synthetic, replicates: int) -> None:
    tiny.replicates = replicates
    (data,) = results(asv.make([source_of(tiny)]).files).values()
    assert column(data, NAIVE, "stats_repeat") == [replicates, None]
    assert list(map(len, column(data, CHUNKED, "samples"))) == [replicates] * 2
    q25, value, q75 = (column(data, NAIVE, name)[0] for name in ("stats_q_25", "result", "stats_q_75"))
    assert q25 <= value <= q75
    low, high = (column(data, NAIVE, f"stats_ci_99_{end}") for end in "ab")
    assert (low is None and high is None) if replicates == 1 else low[0] < value < high[0]


def test_lengths_that_differ_in_batch_are_told_apart(tiny: Synthetic) -> None:
    tiny.tokens = 1024
    assert read(asv.make([source_of(tiny)]).files, asv.BENCHMARKS)[CHUNKED]["params"] == [["512 (B=2)", "1024"]]


def test_commits_have_results_of_their_own_and_runs_of_one_commit_share_them(tiny: Synthetic) -> None:
    first, second = source_of(tiny, 1), source_of(tiny, 2)
    tiny.lengths = (1024, 2048)
    third = source_of(tiny, 3, commit=commit_of(2), factor=3.0)
    files = asv.make([third, first, second]).files
    found = results(files)
    assert list(found) == [commit_of(1), commit_of(2)]
    one, both = found.values()
    assert column(one, CHUNKED, "params") == [["512", "1024"]]
    assert column(both, CHUNKED, "params") == [["512", "1024", "2048"]]
    assert column(both, CHUNKED, "result")[1] == pytest.approx(3 * column(one, CHUNKED, "result")[1])
    assert read(files, asv.BENCHMARKS)[CHUNKED]["params"] == [["512", "1024", "2048"]]
    assert set(both["attnbench"]) == {second.findings.run.id, third.findings.run.id}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"git": {}}, "asv keeps a history of commits"),
        *(({"git": {"commit": commit}}, "asv keeps a history of commits") for commit in ("../../../etc", "main", "A" * 40, 7)),
        ({"started": "yesterday"}, "'yesterday' is no date"),
    ],
)
def test_a_run_without_the_hash_of_a_commit_or_a_date_is_refused(tiny: Synthetic, about: dict[str, Any], words: str) -> None:
    with pytest.raises(ExportError, match=words):
        asv.make([source_of(tiny, **about)])


def test_changes_that_were_not_committed_are_said(tiny: Synthetic) -> None:
    assert "not committed" in asv.make([source_of(tiny, git={"commit": commit_of(1), "dirty": True})]).notes[0]


def test_nothing_that_a_page_shows_as_html_is_markup(hostile: Synthetic) -> None:
    def texts(data: Any) -> list[str]:
        """All but our own key, which asv does not know."""
        if isinstance(data, dict):
            return [text for key, value in data.items() if key != "attnbench" for text in (key, *texts(value))]
        if isinstance(data, list):
            return [text for value in data for text in texts(value)]
        return [data] if isinstance(data, str) else []

    facts = {**hostile.run().environment, "processor": "<script>../..", "torch": "</b>2"}
    files = asv.make([source_of(hostile, environment=facts)]).files
    assert all(re.fullmatch(r"[\w.+/-]+", name, re.ASCII) and ".." not in Path(name).parts for name in files)
    shown = [text for content in files.values() for text in texts(json.loads(content))]
    assert not [text for text in shown if set(text) & set("<>\"'&") and html.escape(html.unescape(text)) != text]


def test_a_folder_grows(tiny: Synthetic) -> None:
    other = Synthetic((Law("linear.full", 1e-3, 1.0),), lengths=(2048,), workloads=(Workload.FORWARD,), causal=(True,))
    here = dict(asv.settle(asv.make([source_of(tiny, 1)]), Place({}, "..")).files)
    tiny.lengths = (256, 512)
    for source in (source_of(tiny, 2), source_of(other, 3, commit=commit_of(2))):
        here |= asv.settle(asv.make([source]), Place(here, "elsewhere")).files
    assert read(here, asv.CONFIG)["repo"] == ".."
    catalogue, both = read(here, asv.BENCHMARKS), results(here)[commit_of(2)]
    assert (list(catalogue), catalogue[CHUNKED]["params"]) == (sorted(catalogue), [["256", "512", "1024"]])
    assert (len(results(here)), len(both["attnbench"])) == (2, 2)
    assert {NAIVE, CHUNKED, "time.forward.causal.float32.linear.full"} <= both["results"].keys()
    assert read(asv.settle(asv.make([source_of(tiny, 2)]), Place(here, None)).files, asv.BENCHMARKS) == catalogue


def test_columns_of_another_hand_are_not_mixed_with_ours(tiny: Synthetic) -> None:
    export = asv.make([source_of(tiny)])
    (name,) = (name for name in export.files if "-python" in name)
    theirs = json.dumps({"version": 2, "result_columns": ["result"], "results": {"theirs": [[1.0]]}}).encode()
    data = read(asv.settle(export, Place({name: theirs}, None)).files, name)
    assert data["result_columns"] == list(asv.COLUMNS)
    assert "theirs" not in data["results"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"version": 1}', b"[" * 100_000, b"\xff"])
def test_a_folder_of_something_else_is_refused(tiny: Synthetic, content: bytes) -> None:
    with pytest.raises(ExportError, match="name another folder by --out"):
        asv.settle(asv.make([source_of(tiny)]), Place({asv.BENCHMARKS: content}, None))


def test_a_repository_that_was_not_found_is_said_once(tiny: Synthetic) -> None:
    export = asv.make([source_of(tiny)])
    assert 'set "repo"' in asv.settle(export, Place({}, None)).notes[-1]
    known = asv.settle(export, Place({asv.CONFIG: b"{}"}, None))
    assert (known.notes, known.files[asv.CONFIG]) == (export.notes, b"{}")


@pytest.mark.slow
@pytest.mark.parametrize(("made", "replicates"), [("small", 1), ("small", 3), ("small", 10), ("hostile", 3)])
def test_asv_publishes_and_compares(
    made: str, replicates: int, request: pytest.FixtureRequest, tool: Tool, tmp_path: Path
) -> None:
    synthetic: Synthetic = request.getfixturevalue(made)
    synthetic.replicates = replicates
    project, folder = tmp_path / "project", tmp_path / "project" / "asv"
    project.mkdir()
    for number in range(3):
        committed(project, f"commit {number}")
    log = [*GIT, "-C", str(project), "log", "--reverse", "--format=%H"]
    hashes = subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()
    sources = [source_of(synthetic, i + 1, commit, 2.0 if i == 2 else 1.0) for i, commit in enumerate(hashes)]
    write(asv.settle(asv.make(sources), Place({}, "..")), folder)

    def said(*words: str) -> str:
        return tool("asv==0.6.*", "asv", *words, cwd=folder).stdout

    assert "Couldn't find" not in said("publish")
    index = json.loads((folder / "html" / "index.json").read_text(encoding="utf-8"))
    names = {each["name"] for each in read(asv.make(sources).files, asv.BENCHMARKS).values() if isinstance(each, dict)}
    assert (set(index["benchmarks"]), len(index["revision_to_hash"])) == (names, 3)
    graphs = {file.stem for file in (folder / "html" / "graphs").rglob("*.json")}
    assert names <= {graph.removesuffix(".json") for graph in graphs}
    compared, unchanged = said("compare", hashes[0], hashes[2]), said("compare", hashes[0], hashes[1])
    ok = [summary for summary in sources[0].findings.summaries if summary.ok]
    assert len(re.findall(r"\| \+ .*\|\s+2(?:\.0+)?\s*\|", compared)) == len(ok), compared
    assert len(re.findall(r"\|\s+1(?:\.0+)?\s*\|", unchanged)) >= len(ok), unchanged


# Otava


SERIES = "time/forward/causal/float32/N=512/linear.chunked(chunk=64)"


def settings_of(export: Export) -> Any:
    """The series that Otava is told of."""
    return YAML(typ="safe", pure=True).load(io.BytesIO(export.files[otava.CONFIG]))["tests"]


def rows(export: Export, file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export.files[file].decode())))


def history(made: Synthetic, factors: list[float]) -> list[Source]:
    return [source_of(made, day, factor=factor) for day, factor in enumerate(factors, 1)]


def test_a_run_is_a_row_and_rows_rise_with_the_date(tiny: Synthetic) -> None:
    sources = history(tiny, [1.0, 1.1])
    # of a comparison the newer side alone, and the older one only by itself
    older, newer = (source_of(tiny, 3, id=f"turns{end}", interleaved="turns", factor=1.2) for end in ("-base", ""))
    export = otava.make([newer, older, *sources])
    assert export.notes[0] == "run turns-base: left out, for it is the older side of a comparison"
    assert rows(otava.make([older]), "history.csv")
    sources, found = [*sources, newer], rows(export, "history.csv")
    assert [row["run"] for row in found] == [source.findings.run.id for source in sources]
    assert [row["commit"] for row in found] == [commit_of(day) for day in (1, 2, 3)]
    medians = [float(row[SERIES]) for row in found]
    assert [value / medians[0] for value in medians] == pytest.approx([1.0, 1.1, 1.2])
    assert all(value for row in found for value in row.values())
    there = tiny.run().surroundings.model_copy(update={"facts": {"processor": "another"}})
    with pytest.raises(ExportError, match=r"a series of Otava is of one machine, .*; another"):
        otava.make([sources[0], source_of(tiny, 4, surroundings=there)])


def test_a_cell_that_failed_once_has_a_row_less_and_no_gap(tiny: Synthetic) -> None:
    cell, crashed = tiny.run().cells[1], Failed(status=Status.CRASHED, reason="killed by signal 9")
    others = [record for record in tiny.records() if record.job.cell.key != cell.key]
    lost = source_of(tiny, 2, records=[*others, tiny.record(cell, crashed)])
    export = otava.make([source_of(tiny, 1), lost, source_of(tiny, 3)])
    file = settings_of(export)[SERIES]["file"]
    assert file == "history-2.csv"
    assert [row["run"][:8] for row in rows(export, file)] == ["20260101", "20260103"]
    assert len(rows(export, "history.csv")) == 3
    assert all(value for name in ("history.csv", file) for row in rows(export, name) for value in row.values())
    failed = [row for row in rows(export, "without-numbers.csv") if row["run"].startswith("20260102")]
    assert {row["status"] for row in failed} == {"oom_host", "crashed"}


@pytest.mark.slow
def test_otava_finds_the_change(either: Synthetic, tool: Tool, tmp_path: Path) -> None:
    noise = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01, 1.0]
    export = otava.make(history(either, [*noise, *(1.3 * factor for factor in noise)]))
    write(export, tmp_path)

    def said(*words: str) -> str:
        settings = {"OTAVA_CONFIG": "otava.yaml", "HOME": str(tmp_path)}
        done = tool("apache-otava==0.8.*", "otava", *words, cwd=tmp_path, **settings)
        assert "ERROR" not in done.stderr, done.stderr
        return done.stdout

    tests = list(settings_of(export))
    assert sorted(said("list-tests").split("\n")[:-1]) == sorted(tests)
    times = [name for name in tests if name.startswith("time/")]
    # its own default is the last year
    since = ("--since", "2025-12-01", "--until", "2026-02-01")
    found = said("analyze", *times, *since)
    assert found.count("+30") == len(times), found
    assert said("analyze", times[0].rpartition("/")[0], *since).count("+30") >= 1


# Parquet


def whole(*sources: Source) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(parquet.make(sources).files["cells.parquet"]))


def test_every_cell_of_every_run_is_a_row_with_lists_of_medians_or_a_reason_and_no_number(small: Synthetic) -> None:
    sources = [source_of(small, day) for day in (1, 2)]
    table = whole(*sources)
    assert set(frame(sources[0].findings).columns) <= set(table.columns)
    assert list(table["cell"]) == [cell.key for cell in small.run().cells] * 2
    assert list(table["name"]) == [cell_name(cell) for cell in small.run().cells] * 2
    assert list(table["run"].unique()) == ["20260101-030405-abcdef", "20260102-030405-abcdef"]
    assert list(table["commit"].unique()) == [commit_of(1), commit_of(2)]
    summaries = [summary for source in sources for summary in source.findings.summaries]
    medians = zip(table["replicates"], table["time_medians_s_per_call"], strict=True)
    assert [dict(zip(*each, strict=True)) for each in medians] == [summary.medians for summary in summaries]
    failed = table[table["status"] != "ok"]
    assert set(failed["status"]) == {"oom_host", "incorrect"}
    assert failed["reason"].str.len().min() > 0
    assert failed[["time_s", "memory_bytes"]].isna().all().all()


def test_types_do_not_depend_on_what_a_run_holds(small: Synthetic, hopeless: Synthetic) -> None:
    full, empty = (whole(source_of(made)).dtypes for made in (small, hopeless))
    pd.testing.assert_series_equal(full, empty)
    kinds = {str(kind): {name for name in full.index if str(full[name]) == str(kind)} for kind in full}
    assert kinds["Int64"] >= {"N", "B", "host_rss_peak_bytes_of_batch", "state_bytes_of_batch", "n_samples", "pairs"}
    assert kinds["Float64"] >= {"time_s", "memory_bytes", "roof", "rate"}
    assert kinds["boolean"] == {"causal", "uncommitted", "recompute"}
    assert kinds["object"] == {"replicates", "time_medians_s_per_call"}


def test_shares_and_counts_are_numbers(small: Synthetic) -> None:
    small.workloads = (Workload.VERIFY,)
    source = source_of(small)
    facts = {"energy_timed_share": 0.95}
    summaries = [replace(s, facts={**s.facts, **facts}) if s.ok else s for s in source.findings.summaries]
    table = whole(replace(source, findings=Findings.over(source.findings.run, summaries)))
    assert table.loc[table["status"] == "ok", "energy_timed_share"].mean() == pytest.approx(0.95)
    assert list(table["new_tokens"].unique()) == [1]
    assert (str(table["energy_timed_share"].dtype), str(table["new_tokens"].dtype)) == ("Float64", "Int64")


def test_without_pyarrow_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch, small: Synthetic) -> None:
    monkeypatch.setattr(pd.DataFrame, "to_parquet", Mock(side_effect=ImportError))
    with pytest.raises(ExportError, match=r"pip install 'attnbench\[parquet\]'"):
        parquet.make([source_of(small)])


def test_the_records_of_a_run_folder_may_be_kept_as_parquet(small: Synthetic, tmp_path: Path) -> None:
    source = source_of(small)
    folder = RunFolder.create(tmp_path, source.findings.run)
    (folder.path / "records.parquet").write_bytes(parquet.make_records([source]).files["records.parquet"])
    assert folder.records() == list(source.records)
    table = pd.read_parquet(folder.path / "records.parquet")
    assert list(table["method"]) == [record.job.cell.label for record in source.records]
    for status, samples, record in zip(table["status"], table["samples"], source.records, strict=True):
        assert status == (record.outcome.status if isinstance(record.outcome, Failed) else "ok")
        kept = {name: tuple(values) for name, values in samples}
        assert kept == {name: series.values for name, series in record.outcome.samples.items()}
