"""asv's folder: what is in it, how it grows, and what the real tool makes of it."""

import html
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from attnbench.report.exports.asv import BENCHMARKS, COLUMNS, CONFIG, make, settle
from attnbench.report.exports.exchange import ExportError, Place
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Failed, Status
from tests.cli.conftest import GIT, committed
from tests.report.conftest import Law, Synthetic
from tests.report.exports.conftest import commit_of, source_of, write

NAIVE, CHUNKED = "time.forward.causal.float32.softmax.naive", "time.forward.causal.float32.linear.chunked-chunk=64"


def read(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files[name])
    return data


def results(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """By commit, the files of results."""
    found = [json.loads(content) for name, content in files.items() if re.search(r"/[0-9a-f]{8}-python", name)]
    return {data["commit_hash"]: data for data in found}


def column(data: dict[str, Any], benchmark: str, name: str) -> Any:
    """Asv leaves out what is null at the end of a row."""
    return dict(zip(data["result_columns"], data["results"][benchmark], strict=False)).get(name)


def test_a_failure_is_null_and_told_with_its_reason(tiny: Synthetic, hopeless: Synthetic) -> None:
    source = source_of(tiny)
    export = make([source])
    (data,) = results(export.files).values()
    assert column(data, NAIVE, "result") == [source.findings.summaries[0].median, None]
    assert export.notes[0].endswith(": null: OOM: softmax.naive at 1k: memory limit of 17.2 GB reached")
    # a cell that never had a time is a row of failures
    (never,) = results(make([source_of(hopeless)]).files).values()
    assert (column(never, NAIVE, "result"), column(never, NAIVE, "params")) == (None, [["512"]])


def test_a_benchmark_says_what_its_figure_is_divided_by_only_where_it_is(learning: Synthetic) -> None:
    made = read(make([source_of(learning)]).files, BENCHMARKS)
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
    (data,) = results(make([source_of(tiny, records=[*short, stopped])]).files).values()
    assert column(data, NAIVE, "params") == column(data, CHUNKED, "params") == [["512"]]
    (data,) = results(make([source_of(tiny, records=[*timed, *short])]).files).values()
    assert column(data, "host_rss_peak.forward.causal.float32.linear.chunked-chunk=64", "params") == [["512"]]


@pytest.mark.parametrize("replicates", [1, 2, 5])
def test_the_spread_is_that_of_the_replicates(tiny: Synthetic, replicates: int) -> None:
    tiny.replicates = replicates
    (data,) = results(make([source_of(tiny)]).files).values()
    assert column(data, NAIVE, "stats_repeat") == [replicates, None]
    assert list(map(len, column(data, CHUNKED, "samples"))) == [replicates] * 2
    q25, value, q75 = (column(data, NAIVE, name)[0] for name in ("stats_q_25", "result", "stats_q_75"))
    assert q25 <= value <= q75
    low, high = (column(data, NAIVE, f"stats_ci_99_{end}") for end in "ab")
    assert (low is None and high is None) if replicates == 1 else low[0] < value < high[0]


def test_lengths_that_differ_in_batch_are_told_apart(tiny: Synthetic) -> None:
    tiny.tokens = 1024
    assert read(make([source_of(tiny)]).files, BENCHMARKS)[CHUNKED]["params"] == [["512 (B=2)", "1024"]]


def test_commits_have_results_of_their_own_and_runs_of_one_commit_share_them(tiny: Synthetic) -> None:
    first, second = source_of(tiny, 1), source_of(tiny, 2)
    tiny.lengths = (1024, 2048)
    third = source_of(tiny, 3, commit=commit_of(2), factor=3.0)
    files = make([third, first, second]).files
    found = results(files)
    assert list(found) == [commit_of(1), commit_of(2)]
    one, both = found.values()
    assert column(one, CHUNKED, "params") == [["512", "1024"]]
    assert column(both, CHUNKED, "params") == [["512", "1024", "2048"]]
    assert column(both, CHUNKED, "result")[1] == pytest.approx(3 * column(one, CHUNKED, "result")[1])
    assert read(files, BENCHMARKS)[CHUNKED]["params"] == [["512", "1024", "2048"]]
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
        make([source_of(tiny, **about)])


def test_changes_that_were_not_committed_are_said(tiny: Synthetic) -> None:
    assert "not committed" in make([source_of(tiny, git={"commit": commit_of(1), "dirty": True})]).notes[0]


def test_nothing_that_a_page_shows_as_html_is_markup(hostile: Synthetic) -> None:
    def texts(data: Any) -> list[str]:
        """All but our own key, which asv does not know."""
        if isinstance(data, dict):
            return [text for key, value in data.items() if key != "attnbench" for text in (key, *texts(value))]
        if isinstance(data, list):
            return [text for value in data for text in texts(value)]
        return [data] if isinstance(data, str) else []

    facts = {**hostile.run().environment, "processor": "<script>../..", "torch": "</b>2"}
    files = make([source_of(hostile, environment=facts)]).files
    assert all(re.fullmatch(r"[\w.+/-]+", name, re.ASCII) and ".." not in Path(name).parts for name in files)
    shown = [text for content in files.values() for text in texts(json.loads(content))]
    assert not [text for text in shown if set(text) & set("<>\"'&") and html.escape(html.unescape(text)) != text]


def test_a_folder_grows(tiny: Synthetic) -> None:
    other = Synthetic((Law("linear.full", 1e-3, 1.0),), lengths=(2048,), workloads=(Workload.FORWARD,), causal=(True,))
    here = dict(settle(make([source_of(tiny, 1)]), Place({}, "..")).files)
    tiny.lengths = (256, 512)
    for source in (source_of(tiny, 2), source_of(other, 3, commit=commit_of(2))):
        here |= settle(make([source]), Place(here, "elsewhere")).files
    assert read(here, CONFIG)["repo"] == ".."
    catalogue, both = read(here, BENCHMARKS), results(here)[commit_of(2)]
    assert list(catalogue) == sorted(catalogue)
    assert catalogue[CHUNKED]["params"] == [["256", "512", "1024"]]
    assert (len(results(here)), len(both["attnbench"])) == (2, 2)
    assert {NAIVE, CHUNKED, "time.forward.causal.float32.linear.full"} <= both["results"].keys()
    again = settle(make([source_of(tiny, 2)]), Place(here, None)).files
    assert read(again, BENCHMARKS) == catalogue


def test_columns_of_another_hand_are_not_mixed_with_ours(tiny: Synthetic) -> None:
    export = make([source_of(tiny)])
    (name,) = (name for name in export.files if "-python" in name)
    theirs = json.dumps({"version": 2, "result_columns": ["result"], "results": {"theirs": [[1.0]]}}).encode()
    data = read(settle(export, Place({name: theirs}, None)).files, name)
    assert data["result_columns"] == list(COLUMNS)
    assert "theirs" not in data["results"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"version": 1}', b"[" * 100_000, b"\xff"])
def test_a_folder_of_something_else_is_refused(tiny: Synthetic, content: bytes) -> None:
    with pytest.raises(ExportError, match="name another folder by --out"):
        settle(make([source_of(tiny)]), Place({BENCHMARKS: content}, None))


def test_a_repository_that_was_not_found_is_said_once(tiny: Synthetic) -> None:
    export = make([source_of(tiny)])
    assert 'set "repo"' in settle(export, Place({}, None)).notes[-1]
    known = settle(export, Place({CONFIG: b"{}"}, None))
    assert (known.notes, known.files[CONFIG]) == (export.notes, b"{}")


def committed_thrice(folder: Path) -> list[str]:
    """A git repository; its commits."""

    def git(*words: str) -> str:
        return subprocess.run([*GIT, "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout

    folder.mkdir()
    for number in range(3):
        committed(folder, f"commit {number}")
    return git("log", "--reverse", "--format=%H").split()


@pytest.mark.slow
@pytest.mark.parametrize(("made", "replicates"), [("small", 1), ("small", 3), ("small", 10), ("hostile", 3)])
def test_asv_publishes_and_compares(
    made: str,
    replicates: int,
    request: pytest.FixtureRequest,
    tool: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    synthetic: Synthetic = request.getfixturevalue(made)
    synthetic.replicates = replicates
    hashes = committed_thrice(tmp_path / "project")
    sources = [source_of(synthetic, i + 1, commit, 2.0 if i == 2 else 1.0) for i, commit in enumerate(hashes)]
    folder = tmp_path / "project" / "asv"
    write(settle(make(sources), Place({}, "..")), folder)

    def asv(*words: str) -> str:
        return tool("asv==0.6.*", "asv", *words, cwd=folder).stdout

    assert "Couldn't find" not in asv("publish")
    index = json.loads((folder / "html" / "index.json").read_text(encoding="utf-8"))
    names = {each["name"] for each in read(make(sources).files, BENCHMARKS).values() if isinstance(each, dict)}
    assert set(index["benchmarks"]) == names
    assert len(index["revision_to_hash"]) == 3
    graphs = {file.stem for file in (folder / "html" / "graphs").rglob("*.json")}
    assert names <= {graph.removesuffix(".json") for graph in graphs}

    compared, unchanged = asv("compare", hashes[0], hashes[2]), asv("compare", hashes[0], hashes[1])
    ok = [summary for summary in sources[0].findings.summaries if summary.ok]
    assert len(re.findall(r"\| \+ .*\|\s+2(?:\.0+)?\s*\|", compared)) == len(ok), compared
    assert len(re.findall(r"\|\s+1(?:\.0+)?\s*\|", unchanged)) >= len(ok), unchanged
