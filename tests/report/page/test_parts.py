"""Pieces of the page: names of runs, the map of failures, facts, files of others."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import escape

from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.page import document, page
from attnbench.report.page.board import Board, moment, run_names
from attnbench.report.page.parts import again, environment, failures
from attnbench.report.text.html import row, safe, table_html
from attnbench.report.text.statuses import cells
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Failed, Status
from attnbench.suite.load import load
from tests.report.conftest import Synthetic
from tests.report.drawn import found

VENDOR = Path(document.__file__).parent / "vendor"


def changed(findings: Findings, **update: object) -> Findings:
    return replace(findings, run=findings.run.model_copy(update=update))


def test_runs_are_called_by_what_tells_them_apart(small: Synthetic) -> None:
    alike = found(small)
    assert run_names([alike]) == ("20260102-030405-abcdef",)
    assert run_names([alike, alike]) == ("20260102-030405-abcdef (1)", "20260102-030405-abcdef (2)")
    one = changed(alike, git={"commit": "fedcba9876543210", "dirty": False})
    other = changed(one, git={"commit": "0123456789abcdef", "dirty": True}, started="2026-02-03T04:05:06+00:00")
    third = changed(other, started="2026-03-04T05:06:07+00:00", git={})
    assert run_names([one, other]) == ("fedcba9876", "0123456789+")
    assert run_names([one, other, third]) == ("2026-01-02 03:04 UTC", "2026-02-03 04:05 UTC", "2026-03-04 05:06 UTC")
    # neither tells all of them apart
    later = changed(one, started="2026-02-03T04:05:06+00:00")
    whole = ("fedcba9876, 2026-01-02 03:04 UTC", "fedcba9876, 2026-02-03 04:05 UTC", "0123456789+, 2026-02-03 04:05 UTC")
    assert run_names([one, later, other]) == whole


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("2026-01-02T03:04:05+00:00", "2026-01-02 03:04 UTC"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02 03:04:05+02:00"),
        ("x", "x"),
    ],
)
def test_a_moment_is_said_as_far_as_it_is_known(small: Synthetic, started: str, words: str) -> None:
    assert moment(changed(found(small), started=started).run) == words


def test_the_map_shows_each_status_in_its_place(small: Synthetic) -> None:
    shown = failures(Board((found(small),)), 0)
    assert shown["words"] == "4 of 12 cells failed: 3 wrong, 1 OOM. 2 methods ran at every length and are not listed."
    assert re.findall(r"<td class=(\S+) data-cell=\d+>(\w+)", str(shown["grid"])) == [
        *[("s-ok", "ok"), ("s-ok", "ok"), ("s-oom_host", "OOM")],
        *[("s-incorrect", "wrong")] * 3,
    ]
    assert any("memory limit of 17.2 GB reached" in reason for reason in shown["reasons"])
    # how it all was measured is told in a section of its own, but why cells failed with the map
    html = page([found(small)])
    told = html[html.index('<section id="conditions"') : html.index('<section id="again"')]
    assert [line for line in measured(found(small)) if f"<li>{escape(line)}" not in told] == shown["reasons"]


def test_where_nothing_failed_there_is_no_map() -> None:
    made = Synthetic(Synthetic().laws[2:3], lengths=(512,), causal=(True,), workloads=(Workload.FORWARD,))
    shown = failures(Board((found(made),)), 0)
    assert shown == {"words": "All 1 cells were measured.", "grid": "", "reasons": []}


def test_what_was_not_run_or_interrupted_is_not_called_failed_wherever_cells_are_counted(small: Synthetic) -> None:
    stopped = Failed(status=Status.INTERRUPTED, reason="stopped by the user")
    for kept in (0, 3):
        findings = Findings.of(small.run(), [small.record(cell, stopped) for cell in small.run().cells[:kept]])
        assert failures(Board((findings,)), 0)["words"] == "None of 12 cells failed. 12 were not run."
        assert cells(findings.summaries) == "12 cells: 12 not run"
        assert "12 cells: 12 not run" in page([findings])


def test_the_environment_puts_runs_side_by_side(small: Synthetic) -> None:
    one = found(small)
    table = environment(Board((one, changed(one, environment={"processor": "Xeon", "gpu": None}, id="b"))))
    rows = {name: values for name, *values in table.rows}
    assert rows["run"] == ["20260102-030405-abcdef", "b"]
    assert rows["gpu"] == ["n/a", "n/a"]
    assert rows["roof, float32"][0] == "90.0 GFLOP/s in a large product, 17.0 GB/s in a large copy"


def test_the_suite_that_is_shown_can_be_run(small: Synthetic, tmp_path: Path) -> None:
    file = tmp_path / "again.yaml"
    file.write_text(again(found(small).run)["suite"].unescape())
    assert load(str(file)).suite == small.run().suite


def test_tables_hold_text_only_and_have_a_title_for_those_who_do_not_see_it() -> None:
    assert safe("a\nb\x00\u202ec") == "a b c"
    html = row(["<b>", 'a "quoted" & b'], frozenset({1}))
    assert html == "<tr><th scope=row>&lt;b&gt;<td><b>a &quot;quoted&quot; &amp; b</b>\n"
    html = table_html(Table("<title>", ("a", "b"), (("1", "2"),), frozenset({(0, 1)})))
    assert '<caption class="unseen">&lt;title&gt;</caption>' in html
    assert "<td><b>2</b>" in html


def test_files_of_others_are_as_they_came() -> None:
    told = dict(re.findall(r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE))
    kept = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir()}
    assert told == {name: digest for name, digest in kept.items() if name != "README.md"}


def test_scripts_are_all_in_the_page_whole_and_never_make_markup_of_text() -> None:
    folder = Path(document.__file__).parent / "assets"
    assert {file.name for file in folder.glob("*.js")} == {*document.SCRIPTS, document.EARLY}
    for text in document.scripts():
        # or it would end early, or change on its way
        assert not any(found in text.lower() for found in ("</script", "<!--", "\r"))
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert forbidden not in document.scripts()[-1]
