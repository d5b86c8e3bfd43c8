"""The page as a document: what stands in it without any script, of times and of models, that it is text, and its pieces."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.page import document, page
from attnbench.report.page.board import Board, moment, run_names
from attnbench.report.page.parts import again, environment, failures
from attnbench.report.text.html import row, safe, table_html
from attnbench.report.text.statuses import cells
from attnbench.report.text.table import Table
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import CURVE, LOSS, Failed, Status
from attnbench.schema.published import Band, Comparable, Ours, Published, Side
from attnbench.schema.suite import ReportSpec
from attnbench.schema.training import Task, Training
from attnbench.suite.load import load
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.figures.conftest import recorded
from tests.report.page.reading import data, parsed, read


def test_the_sentence_comes_first_then_the_parts_in_order_and_what_all_rows_share_is_told_once(small: Synthetic) -> None:
    html = page([found(small)])
    order = ["scaling", "crossover", "weighing", "roofline", "failures", "cells", "conditions", "again", "reading"]
    places = [html.index(f'<section id="{name}"') for name in order]
    assert places == sorted(places)
    assert html.index(headline(found(small))) < places[0]
    # the same records give the same page
    assert html == page([found(small)])
    told = parsed(html)
    assert "mask" not in told.heads
    assert "All of them: forward, causal, float32, B = 1." in told.text


def test_every_cell_is_a_row_of_the_document_itself() -> None:
    made = Synthetic(lengths=(512, 1024))
    document = read(found(made))
    assert len(document.data["cells"]["N"]) == len(made.run().cells)
    heads = document.rows.index(document.heads)
    rows = document.rows[heads + 1 : heads + 1 + len(made.run().cells)]
    assert all(len(row) == len(document.rows[heads]) for row in rows)
    assert next(row[-1] for row in rows if row[0] == "sparse.strided").startswith("its check: o differs")


def test_nothing_but_the_pages_own_scripts_may_run_and_nothing_may_be_fetched(small: Synthetic) -> None:
    document = read(found(small))
    scripts = [text for kind, text in document.scripts if kind == ""]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
    assert set(re.findall(r"'sha256-([^']+)'", document.policy)) == digests
    assert re.sub(r"(?: 'sha256-[^']+')+", " HASHES", document.policy) == (
        "default-src 'none'; script-src HASHES; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    # and no place is named to fetch from
    assert document.attributes.isdisjoint({"src", "srcset", "action", "data", "poster"})
    assert {target for target in document.targets if not target.startswith("#")} == {"data:,"}


@pytest.mark.slow
def test_two_thousand_cells_and_many_trainings_take_less_than_two_megabytes(picturing: Synthetic) -> None:
    laws = [Law(f"family{i % 9}.method_{i}", 1e-3 * (1 + i / 7), 1 + (i % 5) / 4, {"chunk": i}) for i in range(25)]
    laws[3] = Law("family3.fails", 1e-3, 2.0, stop_at=4096, status=Status.BUDGET, reason="one call took 8 s, above 7.5 s")
    made = Synthetic(laws, lengths=tuple(2**n for n in range(7, 17)), dtypes=("float32", "bfloat16"), replicates=2)
    assert len(made.run().cells) == 2000
    picturing.laws = tuple(Law(f"family{i % 9}.method_{i}", 1e-3 * (1 + i), 1.0, learns=0.1 + i / 50) for i in range(24))
    assert all(len(page([found(each)]).encode()) < 2_000_000 for each in (made, picturing))


def test_a_run_without_a_number_has_a_page_that_says_why() -> None:
    document = read(Findings.of(Synthetic([]).run(), []))
    assert "The run has no cells." in document.text
    assert document.data["groups"] == []
    laws = [Law("softmax.sdpa", 1, 1, stop_at=1, status=Status.CRASHED, reason="killed by signal 11")]
    document = read(found(Synthetic(laws, lengths=(512,), causal=(True,), workloads=(Workload.FORWARD,))))
    assert "1 cell: 1 failed (1 crashed)." in document.text
    assert "killed by signal 11" in document.text
    assert document.data["quantities"] == []


def test_the_command_and_the_suite_are_there_to_be_run_again(small: Synthetic, tmp_path: Path) -> None:
    findings = changed(found(small), git={"commit": "abc123" * 6, "dirty": False})
    text = read(findings).text
    assert f"git checkout {'abc123' * 6}\nattnbench run synthetic" in text
    assert '"name": "linear.chunked"' in text
    file = tmp_path / "again.yaml"
    file.write_text(again(findings.run)["suite"].unescape())
    assert load(str(file)).suite == small.run().suite


def test_several_runs_stand_side_by_side_and_are_told_apart(small: Synthetic) -> None:
    first = found(small)
    second = changed(first, started="2026-02-03T04:05:06+00:00", id="another", environment={"processor": "Xeon", "gpu": None})
    document = read(first, second)
    assert [run["name"] for run in document.data["runs"]] == ["2026-01-02 03:04 UTC", "2026-02-03 04:05 UTC"]
    assert (len(document.data["groups"]), document.data["cells"]["run"]) == (1, [0] * 12 + [1] * 12)
    assert document.heads[:3] == ["method", "tier", "run"]
    assert document.text.count(headline(first)) >= 2
    rows = {name: values for name, *values in environment(Board((first, second))).rows}
    assert (rows["run"], rows["gpu"]) == (["20260102-030405-abcdef", "another"], ["n/a", "n/a"])
    assert rows["roof, float32"][0] == "90.0 GFLOP/s in a large product, 17.0 GB/s in a large copy"


def test_methods_are_called_as_the_suite_calls_them_and_two_alike_by_their_own_names(small: Synthetic) -> None:
    small.report = ReportSpec(labels={"linear.chunked": "Linear", "softmax.sdpa": "Flash", "softmax.naive": "Flash"})
    document = read(found(small))
    names = {method["name"] for method in document.data["methods"]}
    assert {"Linear(chunk=64)", "softmax.sdpa", "softmax.naive"} <= names
    assert names <= {row[0] for row in document.rows if row}


def test_memory_that_was_counted_differently_is_never_mixed(small: Synthetic) -> None:
    first, name, kept = found(small), "torch_profiler_peak", []
    for each in first.summaries:
        counters = {own: counter for own, counter in each.memory.counters.items() if own == name}
        kept.append(replace(each, memory=replace(each.memory, counters=counters)))
    quantities = {quantity["key"]: quantity for quantity in read(first, Findings.over(first.run, kept)).data["quantities"]}
    assert quantities["memory"]["titles"] == ["memory per sample (host_rss_peak)"]
    assert quantities["memory_2"]["titles"] == ["memory per sample (torch_profiler_peak)"]
    # a kind that no cell has takes no name from another
    none = Findings.over(first.run, [replace(each, memory=replace(each.memory, counters={})) for each in first.summaries])
    keys = [quantity["key"] for quantity in read(none, first).data["quantities"]]
    assert "memory" in keys
    assert "memory_2" not in keys


def test_a_page_of_many_methods_begins_with_the_telling_ones() -> None:
    laws = [Law("softmax.sdpa", 1.0, 2.0), *(Law(f"linear.up_{i}", 1e-3 * (i + 1), 1.0) for i in range(40))]
    made = Synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=(Workload.FORWARD,), replicates=1)
    data = read(found(made)).data
    names = [data["methods"][number]["name"] for number in data["groups"][0]["first"]]
    assert names == ["softmax.sdpa", *(f"linear.up_{i}" for i in range(7))]
    # and as many of them where nothing was timed
    scored = replace(made, workloads=(Workload.FIDELITY,))
    assert len(read(Findings.of(*recorded(scored))).data["groups"][0]["first"]) == len(names)


def test_quality_without_a_cost_is_not_said_to_be_missing() -> None:
    run, records = recorded(Synthetic(lengths=(512,), causal=(True,), workloads=(Workload.FIDELITY,)))
    without = read(Findings.of(run.model_copy(update={"costs": {}}), records))
    assert "Quality was measured here, and no cost beside it" in without.text
    assert "nothing was timed here" in read(Findings.of(run, records)).text


# pieces of it


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
    # a moment is said as far as it is known
    assert moment(changed(one, started="2026-01-02T03:04:05+02:00").run) == "2026-01-02 03:04:05+02:00"
    assert moment(changed(one, started="x").run) == "x"


def test_the_map_shows_each_status_in_its_place_and_without_a_failure_there_is_none(small: Synthetic) -> None:
    shown = failures(Board((found(small),)), 0)
    assert shown["words"] == "12 cells: 4 failed (3 wrong, 1 OOM). 2 methods ran at every length and are not listed."
    assert re.findall(r"<td class=(\S+) data-cell=\d+>(\w+)", str(shown["grid"])) == [
        *[("s-ok", "ok"), ("s-ok", "ok"), ("s-oom_host", "OOM")],
        *[("s-incorrect", "wrong")] * 3,
    ]
    assert any("memory limit of 17.2 GB reached" in reason for reason in shown["reasons"])
    # how it all was measured is told in a section of its own, but why cells failed with the map
    html = page([found(small)])
    told = html[html.index('<section id="conditions"') : html.index('<section id="again"')]
    assert [line for line in measured(found(small)) if f"<li>{escape(line)}" not in told] == shown["reasons"]
    small.laws = small.laws[1:2]
    assert failures(Board((found(small),)), 0) == {"words": "3 cells, all measured.", "grid": "", "reasons": []}


def test_what_was_not_run_or_interrupted_is_not_called_failed_wherever_cells_are_counted(small: Synthetic) -> None:
    stopped = Failed(status=Status.INTERRUPTED, reason="stopped by the user")
    for kept in (0, 3):
        findings = Findings.of(small.run(), [small.record(cell, stopped) for cell in small.run().cells[:kept]])
        assert failures(Board((findings,)), 0)["words"] == "12 cells: none failed, 12 not run."
        assert cells(findings.summaries) == "12 cells: 12 not run"
        assert "12 cells: 12 not run" in page([findings])
    unfinished = read(Findings.of(small.run(), small.records()[:5]))
    assert "not run" in unfinished.text
    assert len(unfinished.data["cells"]["N"]) == 12


def test_tables_hold_text_only_and_have_a_title_for_those_who_do_not_see_it() -> None:
    assert safe("a\nb\x00\u202ec") == "a b c"
    html = row(["<b>", 'a "quoted" & b'], frozenset({1}))
    assert html == "<tr><th scope=row>&lt;b&gt;<td><b>a &quot;quoted&quot; &amp; b</b>\n"
    html = table_html(Table("<title>", ("a", "b"), (("1", "2"),), frozenset({(0, 1)})))
    assert '<caption class="unseen">&lt;title&gt;</caption>' in html
    assert "<td><b>2</b>" in html


def test_files_of_others_are_as_they_came() -> None:
    vendor = Path(document.__file__).parent / "vendor"
    told = dict(re.findall(r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (vendor / "README.md").read_text(), re.MULTILINE))
    kept = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in vendor.iterdir()}
    assert told == {name: digest for name, digest in kept.items() if name != "README.md"}


def test_scripts_are_all_in_the_page_whole_and_never_make_markup_of_text() -> None:
    folder = Path(document.__file__).parent / "assets"
    assert {file.name for file in folder.glob("*.js")} == {*document.SCRIPTS, document.EARLY}
    for text in document.scripts():
        # or it would end early, or change on its way
        assert not any(found in text.lower() for found in ("</script", "<!--", "\r"))
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert forbidden not in document.scripts()[-1]


# the page of runs that train and generate: curves, images, quality against cost, what others printed


def methods(made: dict[str, Any], cells: list[int]) -> list[str]:
    return [made["methods"][made["cells"]["method"][cell]]["name"] for cell in cells]


def test_a_curve_is_the_median_of_the_seeds_with_their_range_and_what_failed_has_none(learning: Synthetic) -> None:
    findings = found(learning)
    made = data(findings)
    learnt = ["softmax.sdpa", "linear.chunked(chunk=64)", "lsh.reformer(rounds=4)"]
    assert methods(made, [each["cell"] for each in made["learning"]]) == learnt
    sdpa = made["learning"][0]["loss"]
    assert (sdpa["update"][0], sdpa["update"][-1]) == (0, 2000)
    assert sdpa["chance"] == pytest.approx(2.30259)
    low, middle, high = sorted(seed[-1] for seed in findings.summaries[0].series[CURVE[2]].values())
    assert [sdpa[name][-1] for name in ("low", "value", "high")] == pytest.approx([low, middle, high], rel=1e-5)


def test_other_scores_have_a_curve_too(learning: Synthetic, hearing: Synthetic, picturing: Synthetic, small: Synthetic) -> None:
    more = {"accuracy", "error_rate"}
    firsts = [data(found(run))["learning"][0] for run in (learning, hearing, picturing)]
    # a pixel has no right answer
    chances = [{name: first[name]["chance"] for name in more & first.keys()} for first in firsts]
    assert chances == [{"accuracy": 0.1}, {"error_rate": 1}, {}]
    assert "Held-out error rate: " in page([found(hearing)])
    assert data(found(small))["learning"] == []
    # a record without a curve is a row all the same
    findings = found(picturing)
    bare = Findings.over(findings.run, [replace(summary, series={}) for summary in findings.summaries])
    assert data(bare)["learning"] == []
    assert "softmax.sdpa" in page([bare])


def test_what_was_learnt_stands_in_tables_point_by_point(learning: Synthetic) -> None:
    document, heads = read(found(learning)), ["held-out loss", "accuracy"]
    assert document.text.index(headline(found(learning))) < document.text.index("At a glance: training, causal, float32")
    assert any("parameters" in row and "time per update" in row for row in document.rows)
    assert [head for head in document.heads if head in heads] == heads
    cells = document.rows[document.rows.index(document.heads) :]
    row = next(dict(zip(document.heads, row, strict=True)) for row in cells if row[0] == "softmax.sdpa")
    assert re.fullmatch(r"0\.0\d+ nats \[0\.0\d+, 0\.0\d+\]", row["held-out loss"])
    assert re.fullmatch(r"9\d\.\d% \[\d+\.\d, \d+\.\d\]", row["accuracy"])
    failed = next(row for row in cells if row[0] == "sparse.strided")
    assert "budget" in failed
    assert "40 of 2,000 updates in 300 s" in failed[-1]
    # every point of a curve, for those who do not see the chart
    loss, accuracy = (document.rows[number:] for number, row in enumerate(document.rows) if row[0] == "updates")
    assert loss[0] == ["updates", "softmax.sdpa", "linear.chunked(chunk=64)", "lsh.reformer(rounds=4)"]
    assert loss[1] == ["0", "2.30", "2.30", "2.30"]
    assert [row[0] for row in loss[1:22:10]] == ["0", "1,000", "2,000"]
    assert accuracy[1][1:] == ["10.0%", "10.0%", "10.0%"]


def test_images_are_files_within_the_page_that_say_whose_they_are(picturing: Synthetic, learning: Synthetic) -> None:
    html = page([found(picturing)])
    assert "img-src data:" in parsed(html).policy
    form = r'<img src="data:image/png;base64,([A-Za-z0-9+/=]+)" width="(\d+)" height="\d+" alt="([^"]*)"'
    images = re.findall(form, html)
    assert all(base64.b64decode(file).startswith(b"\x89PNG") for file, _, _ in images)
    assert [(int(width), words) for _, width, words in images] == [
        (318, f"{name}: 6 images given, the same completed below their half, and as many drawn")
        for name in ("softmax.sdpa", "linear.chunked(chunk=64)")
    ]
    document = read(found(learning))
    assert "img" not in document.elements
    assert "below their half" not in document.text


def test_hostile_names_of_what_draws_are_text(picturing: Synthetic) -> None:
    name, plain = '"><script>alert(1)</script><img src=x onerror=alert(1)>', read(found(picturing))
    fails = Law("b", 1e-3, 1.0, stop_at=1, status=Status.ERROR, reason=name)
    told = read(found(replace(picturing, laws=(Law(name, 1e-3, 1.0, learns=0.1), fails))))
    assert (told.elements["img"], told.elements["script"]) == (1, plain.elements["script"])
    assert "onerror" not in told.attributes


def test_what_a_model_has_learnt_is_weighed_against_what_its_generating_costs(generating: Synthetic) -> None:
    laws = (Law("softmax.sdpa", 3e-1, 1.95, learns=0.5, state=2**22), Law("linear.chunked", 2e-1, 1.0, learns=0.6, state=2**17))
    workloads = (Workload.TRAIN, Workload.GENERATE)
    made = data(found(replace(generating, laws=laws, lengths=(64,), workloads=workloads, batches=(Batch.FIXED,))))
    assert len(made["groups"]) == 2
    for group, _ in enumerate(made["groups"]):
        (pairs,) = (each for each in made["pairs"] if each["group"] == group)
        costs, losses = (set(part) for part in zip(*(key.split("/") for key in pairs["fronts"]), strict=True))
        assert {"time", "memory"} <= costs
        assert losses == {"bits", LOSS}
        paid, lost = ([pair[side] for pair in pairs["cells"]] for side in (0, 1))
        assert {made["groups"][made["cells"]["group"][cell]]["workload"] for cell in lost} == {"train"}
        assert methods(made, paid) == methods(made, lost)
    assert "state/bits" in made["pairs"][1]["fronts"]


def test_what_was_trained_for_longer_is_weighed_by_its_own_loss(picturing: Synthetic) -> None:
    picturing.trainings = tuple(Training(task=Task.PIXELS, updates=updates) for updates in (100, 2000))
    made = data(found(picturing))
    assert len(made["groups"]) == 2
    assert all(paid == lost for pairs in made["pairs"] for paid, lost in pairs["cells"])


def test_what_others_printed_stands_on_the_page(learning: Synthetic) -> None:
    claim = Published(
        where="Figure <2>",
        what="linear reaches softmax's loss",
        says="yes & no",
        ours=Ours(metric="loss", workload=Workload.TRAIN, of=Side(method="linear.chunked"), less=Side(method="softmax.sdpa")),
        reproduced=Band(at_most=0.05),
        comparable=Comparable.CLAIM,
    )
    plain = found(learning)
    suite = plain.run.suite.model_copy(update={"published": (claim,)})
    document = read(replace(plain, run=plain.run.model_copy(update={"suite": suite})))
    assert "Published and reproduced" in document.text
    assert "Published and reproduced" not in read(plain).text
    row = next(row for row in document.rows if "Figure <2>" in row[0])
    assert "reproduced" in row[-1]
