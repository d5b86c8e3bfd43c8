"""The page of runs that train and generate: curves, images, quality against cost, what others printed."""

import base64
import re
from dataclasses import replace
from typing import Any

import pytest

from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.page import page
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import CURVE, LOSS, Status
from attnbench.schema.published import Band, Comparable, Ours, Published, Side
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.page.reading import Read, data, parsed, read


def methods(made: dict[str, Any], cells: list[int]) -> list[str]:
    return [made["methods"][made["cells"]["method"][cell]]["name"] for cell in cells]


# curves


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


def test_what_is_judged_besides_the_loss_has_a_curve_too(
    learning: Synthetic, hearing: Synthetic, picturing: Synthetic, small: Synthetic
) -> None:
    more = {"accuracy", "error_rate"}
    firsts = [data(found(run))["learning"][0] for run in (learning, hearing, picturing)]
    # a pixel has no right answer
    chances = [{name: first[name]["chance"] for name in more & first.keys()} for first in firsts]
    assert chances == [{"accuracy": 0.1}, {"error_rate": 1}, {}]
    assert "Error rate, held out" in page([found(hearing)])
    assert data(found(small))["learning"] == []


def test_a_record_without_a_curve_is_a_row_all_the_same(picturing: Synthetic) -> None:
    findings = found(picturing)
    bare = Findings.over(findings.run, [replace(summary, series={}) for summary in findings.summaries])
    assert data(bare)["learning"] == []
    assert "softmax.sdpa" in page([bare])


# the tables


def test_what_was_learnt_stands_in_tables_point_by_point(learning: Synthetic) -> None:
    document, heads = read(found(learning)), ["held-out loss", "accuracy"]
    assert document.text.index(headline(found(learning))) < document.text.index("At a glance: train, causal, float32")
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


# images


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
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'

    def document(name: str) -> Read:
        fails = Law("b", 1e-3, 1.0, stop_at=1, status=Status.ERROR, reason=name)
        return read(found(replace(picturing, laws=(Law(name, 1e-3, 1.0, learns=0.1), fails))))

    told, plain = document(evil), document("a")
    assert [told.elements[tag] for tag in ("img", "script")] == [plain.elements[tag] for tag in ("img", "script")]
    assert "onerror" not in told.attributes


# quality against cost


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


# what others printed


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


def test_many_trainings_stay_within_two_megabytes(picturing: Synthetic) -> None:
    picturing.laws = tuple(Law(f"family{i % 9}.method_{i}", 1e-3 * (1 + i), 1.0, learns=0.1 + i / 50) for i in range(24))
    assert len(page([found(picturing)]).encode()) < 2_000_000
