"""The page of runs that train and generate: curves, images, quality against cost, what others printed."""

import base64
import re
from dataclasses import replace
from typing import Any

import pytest

from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.page import page
from attnbench.report.page.parts import drawings
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import CURVE, LOSS, Status
from attnbench.schema.published import Band, Comparable, Ours, Published, Side
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.page.reading import data, read

MOST_BYTES = 2_000_000


def methods(made: dict[str, Any], cells: list[int]) -> list[str]:
    return [made["methods"][made["cells"]["method"][cell]]["name"] for cell in cells]


# curves


def test_a_curve_is_the_median_of_the_seeds_with_their_range(learning: Synthetic) -> None:
    findings = found(learning)
    made = data(findings)
    assert methods(made, [each["cell"] for each in made["learning"]]) == [
        "softmax.sdpa",
        "linear.chunked(chunk=64)",
        "lsh.reformer(rounds=4)",
    ]
    sdpa = made["learning"][0]["loss"]
    assert (sdpa["update"][0], sdpa["update"][-1]) == (0, 2000)
    assert sdpa["chance"] == pytest.approx(2.30259)
    ends = [seed[-1] for seed in findings.summaries[0].series[CURVE[2]].values()]
    assert sdpa["low"][-1] == pytest.approx(min(ends), rel=1e-5)
    assert sdpa["high"][-1] == pytest.approx(max(ends), rel=1e-5)
    assert sdpa["value"][-1] == pytest.approx(sorted(ends)[1], rel=1e-5)


def test_accuracy_has_a_curve_where_there_is_a_right_answer(learning: Synthetic, picturing: Synthetic) -> None:
    assert data(found(learning))["learning"][0]["accuracy"]["chance"] == 0.1
    assert "accuracy" not in data(found(picturing))["learning"][0]


def test_speech_has_a_curve_of_errors(hearing: Synthetic) -> None:
    made = data(found(hearing))
    assert made["learning"][0]["error_rate"]["chance"] == 1
    assert "accuracy" not in made["learning"][0]
    assert "Error rate, held out" in page([found(hearing)])


def test_a_method_that_failed_has_no_curve_and_a_row_with_its_reason(learning: Synthetic) -> None:
    document = read(found(learning))
    row = next(row for row in document.rows if row[0] == "sparse.strided" and "40 of 2,000 updates in 300 s" in row[-1])
    assert "budget" in row
    cells = document.data["cells"]
    ok = next(number for number, status in enumerate(document.data["statuses"]) if status["key"] == "ok")
    assert all(cells["status"][each["cell"]] == ok for each in document.data["learning"])


def test_a_run_that_trains_nothing_has_no_curves(small: Synthetic) -> None:
    assert data(found(small))["learning"] == []


def test_a_record_without_a_curve_is_a_row_all_the_same(picturing: Synthetic) -> None:
    findings = found(picturing)
    bare = Findings.over(findings.run, [replace(summary, series={}) for summary in findings.summaries])
    assert data(bare)["learning"] == []
    assert "softmax.sdpa" in page([bare])


# the tables


def test_what_was_learnt_stands_in_the_table_of_all_cells(learning: Synthetic) -> None:
    document = read(found(learning))
    heads = document.heads
    assert [head for head in heads if head in {"accuracy", "held-out loss"}] == ["held-out loss", "accuracy"]
    row = next(row for row in document.rows[document.rows.index(heads) :] if row[0] == "softmax.sdpa")
    assert re.fullmatch(r"9\d\.\d% \[\d+\.\d, \d+\.\d\]", row[heads.index("accuracy")])
    assert re.fullmatch(r"0\.0\d+ nats \[0\.0\d+, 0\.0\d+\]", row[heads.index("held-out loss")])


def test_the_summary_of_a_training_is_that_of_its_table(learning: Synthetic) -> None:
    document = read(found(learning))
    assert document.text.index(headline(found(learning))) < document.text.index("At a glance: train, causal, float32")
    assert any("parameters" in row and "time per update" in row for row in document.rows)


def test_generating_has_a_summary_for_each_length_and_both_baselines(generating: Synthetic) -> None:
    document = read(found(generating))
    heads = [row for row in document.rows if "images/s" in row]
    assert len(heads) == 6
    assert {"speed-up over softmax.sdpa", "speed-up over softmax.recompute (uncached)"} <= set(heads[0])
    assert "N=784" in document.text
    assert document.data["quantities"][0]["titles"] == ["time per sequence", "time per sequence"]
    assert "state" in [quantity["key"] for quantity in document.data["quantities"]]


# images


def test_images_are_files_within_the_page(picturing: Synthetic) -> None:
    document = read(found(picturing))
    assert document.elements["img"] == 2
    assert "img-src data:" in document.policy
    images = re.findall(r'<img src="data:image/png;base64,([A-Za-z0-9+/=]+)" width="(\d+)"', page([found(picturing)]))
    assert all(base64.b64decode(file).startswith(b"\x89PNG") for file, _ in images)
    assert {int(width) for _, width in images} == {318}


def test_an_image_says_whose_it_is_and_what_it_shows(picturing: Synthetic) -> None:
    findings = found(picturing)
    first, second = drawings(findings, findings.sections[0])
    assert (first["name"], second["name"]) == ("softmax.sdpa", "linear.chunked(chunk=64)")
    assert first["words"] == "softmax.sdpa: 6 images given, the same completed below their half, and as many drawn"


def test_where_nothing_was_drawn_there_are_no_images(learning: Synthetic) -> None:
    document = read(found(learning))
    assert "img" not in document.elements
    assert "below their half" not in document.text


def test_hostile_names_of_what_draws_are_text(picturing: Synthetic) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    picturing.laws = (Law(evil, 1e-3, 1.0, learns=0.1), Law("b", 1e-3, 1.0, stop_at=1, status=Status.ERROR, reason=evil))
    document = read(found(picturing))
    assert document.elements["img"] == 1
    assert ("img", "onerror") not in document.attributes
    plain = read(found(replace(picturing, laws=(Law("a", 1e-3, 1.0), Law("b", 1e-3, 1.0, stop_at=1, reason="x")))))
    assert document.elements["script"] == plain.elements["script"]


# quality against cost


@pytest.fixture
def both(generating: Synthetic) -> Findings:
    """Images that are learnt, and made by the same methods."""
    generating.laws = (
        Law("softmax.sdpa", 3e-1, 1.95, learns=0.5, state=2**22),
        Law("linear.chunked", 2e-1, 1.0, learns=0.6, state=2**17),
    )
    generating.workloads, generating.lengths = (Workload.TRAIN, Workload.GENERATE), (64,)
    generating.batches = (Batch.FIXED,)
    return found(generating)


def test_what_a_model_has_learnt_is_weighed_against_what_its_generating_costs(both: Findings) -> None:
    made = data(both)
    (train, generate) = (number for number, _ in enumerate(made["groups"]))
    for group in (train, generate):
        (pairs,) = (each for each in made["pairs"] if each["group"] == group)
        costs = {key.partition("/")[0] for key in pairs["fronts"]}
        assert {"time", "memory"} <= costs
        assert {key.partition("/")[2] for key in pairs["fronts"]} == {"bits", LOSS}
        lost = [cell for _, cell in pairs["cells"]]
        assert {made["groups"][made["cells"]["group"][cell]]["workload"] for cell in lost} == {"train"}
        paid = [cell for cell, _ in pairs["cells"]]
        assert methods(made, paid) == methods(made, lost)
    assert "state/bits" in made["pairs"][1]["fronts"]


def test_a_model_that_learnt_something_else_is_not_what_generates(both: Findings) -> None:
    def of(summary: Any) -> Any:
        if summary.cell.workload is Workload.TRAIN:
            return summary
        other = summary.cell.model_copy(update={"training": Training(task=Task.PIXELS, data="mnist")})
        return replace(summary, cell=other)

    made = data(Findings.over(both.run, [of(summary) for summary in both.summaries]))
    assert {made["groups"][pairs["group"]]["workload"] for pairs in made["pairs"]} == {"train"}


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
    findings = found(learning)
    suite = findings.run.suite.model_copy(update={"published": (claim,)})
    told = replace(findings, run=findings.run.model_copy(update={"suite": suite}))
    document, plain = read(told), read(findings)
    assert "Published and reproduced" in document.text
    assert "Published and reproduced" not in plain.text
    row = next(row for row in document.rows if "Figure <2>" in row[0])
    assert "reproduced" in row[-1]


# size


def test_many_trainings_stay_within_two_megabytes(picturing: Synthetic) -> None:
    picturing.laws = tuple(Law(f"family{i % 9}.method_{i}", 1e-3 * (1 + i), 1.0, learns=0.1 + i / 50) for i in range(24))
    assert len(page([found(picturing)]).encode()) < MOST_BYTES


def test_every_point_of_a_curve_stands_in_a_table(learning: Synthetic) -> None:
    document = read(found(learning))
    loss, accuracy = (number for number, row in enumerate(document.rows) if row[0] == "updates")
    assert document.rows[loss] == ["updates", "softmax.sdpa", "linear.chunked(chunk=64)", "lsh.reformer(rounds=4)"]
    assert document.rows[loss + 1] == ["0", "2.30", "2.30", "2.30"]
    assert [row[0] for row in document.rows[loss + 1 : loss + 22]][::10] == ["0", "1,000", "2,000"]
    assert document.rows[accuracy + 1][1:] == ["10.0%", "10.0%", "10.0%"]


def test_what_was_trained_for_longer_is_weighed_by_its_own_loss(picturing: Synthetic) -> None:
    picturing.trainings = tuple(Training(task=Task.PIXELS, updates=updates) for updates in (100, 2000))
    made = data(found(picturing))
    assert len(made["groups"]) == 2
    assert all(paid == lost for pairs in made["pairs"] for paid, lost in pairs["cells"])
