"""The numbers of a page: as stored for one small run, inert, and with what the script must not compute.

To renew the stored numbers after a wanted change: write `stored` to the file and read the difference.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.report.page.charts.columns import column, columns
from attnbench.report.page.charts.payload import dumps, payload
from attnbench.schema.cell import Workload

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

Found = Callable[["Synthetic"], Findings]
GOLDEN = Path(__file__).parent / "golden"


def data(*runs: Findings) -> dict[str, Any]:
    board = Board(runs)
    return payload(board, columns(board))


def stored(small: "Synthetic", found: Found) -> str:
    """Without the looks, which have tests of their own."""
    made = data(found(small))
    for method in made["methods"]:
        del method["color"], method["dash"], method["corners"], method["filled"]
    # a column a line
    text = json.dumps(made, indent=1)
    return re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def test_the_numbers_of_a_small_run_are_as_stored(small: "Synthetic", found: Found) -> None:
    small.replicates = 5
    assert stored(small, found) == (GOLDEN / "small.json").read_text(encoding="utf-8")


def test_failed_cells_have_no_value_and_never_zero(synthetic: "type[Synthetic]", found: Found) -> None:
    made = data(found(synthetic()))
    ok = next(number for number, status in enumerate(made["statuses"]) if status["key"] == "ok")
    failed = [cell for cell, status in enumerate(made["cells"]["status"]) if status != ok]
    assert failed
    for quantity in made["quantities"]:
        assert {quantity["value"][cell] for cell in failed} == {None}


def test_a_failed_cell_is_drawn_where_its_line_would_go_on(small: "Synthetic", found: Found) -> None:
    findings = found(small)
    board = Board((findings,))
    time = column(columns(board), "time")
    assert time is not None
    (failed,) = (n for n, p in enumerate(board.places) if p.summary.cell.method == "softmax.naive" and not p.summary.ok)
    before = time.points[failed - 1]
    assert before is not None
    # quadratic
    assert time.beyond[failed] == pytest.approx(4 * before.value, rel=0.1)


def test_a_method_that_never_ran_has_no_line_to_go_on(small: "Synthetic", found: Found) -> None:
    board = Board((found(small),))
    never = {n for n, place in enumerate(board.places) if place.summary.cell.method == "sparse.strided"}
    assert all(not never & set(each.beyond) for each in columns(board))


def test_growth_comes_from_the_analysis(small: "Synthetic", found: Found) -> None:
    small.replicates = 5
    board = Board((found(small),))
    time = column(columns(board), "time")
    assert time is not None
    naive, sdpa = board.labels[0], board.labels[1]
    assert time.fits[0, 0, board.labels.index(sdpa)].startswith("N^1.86 [")
    # two lengths are too few
    assert (0, 0, board.labels.index(naive)) not in time.fits


def test_throughput_and_time_turn_round_together(small: "Synthetic", found: Found) -> None:
    small.tokens = 4096
    board = Board((found(small),))
    known = columns(board)
    time, throughput = column(known, "time"), column(known, "throughput")
    assert time is not None
    assert throughput is not None
    for place, t, rate in zip(board.places, time.points, throughput.points, strict=True):
        if t and rate:
            N = place.summary.cell.problem.N
            assert rate.value == pytest.approx(N / t.value)
            assert rate.estimate.interval.low == pytest.approx(N / t.estimate.interval.high)
            assert rate.estimate.interval.low <= rate.value <= rate.estimate.interval.high


def test_the_front_is_that_of_the_analysis(weighed: Findings) -> None:
    made = data(weighed)
    forward = next(number for number, group in enumerate(made["groups"]) if group["workload"] == "forward")
    longest = next(pairs for pairs in made["pairs"] if pairs["group"] == forward and pairs["N"] == 1024)
    front = longest["fronts"]["time/output_error"]
    cells = [longest["cells"][place] for place in front]
    assert [made["methods"][made["cells"]["method"][paid]]["name"] for paid, _ in cells] == [
        "lsh.reformer(rounds=1)",
        "softmax.sdpa",
    ]
    assert all(made["groups"][made["cells"]["group"][lost]]["workload"] == "fidelity" for _, lost in cells)


def test_fidelity_of_another_run_is_weighed_against_the_times_of_this_one(weighed: Findings) -> None:
    def only(workload: Workload) -> Findings:
        cells = tuple(cell for cell in weighed.run.cells if cell.workload is workload)
        kept = tuple(summary for summary in weighed.summaries if summary.cell.workload is workload)
        sections = tuple(section for section in weighed.sections if section.workload is workload)
        return Findings(weighed.run.model_copy(update={"cells": cells}), kept, sections, weighed.counter)

    made = data(only(Workload.FORWARD), only(Workload.FIDELITY))
    assert {pairs["run"] for pairs in made["pairs"] if "time/output_error" in pairs["fronts"]} == {0}


def test_a_run_without_quality_weighs_nothing(small: "Synthetic", found: Found) -> None:
    assert data(found(small))["pairs"] == []


def test_every_cell_stands_once_in_the_order_of_its_line(synthetic: "type[Synthetic]", found: Found) -> None:
    made = synthetic(dtypes=("float32", "bfloat16"), lengths=(512, 1024))
    board = Board((found(made),))
    assert sorted(place.summary.cell.key for place in board.places) == sorted(cell.key for cell in made.run().cells)
    for one, other in zip(board.places, board.places[1:], strict=False):
        if (one.group, one.run, one.method) == (other.group, other.run, other.method):
            assert one.summary.cell.problem.N < other.summary.cell.problem.N


def test_a_cell_that_fits_into_no_section_is_shown_all_the_same(decoding: "Synthetic", found: Found) -> None:
    findings = found(decoding)
    (*kept, left) = findings.summaries
    sections = tuple(
        replace(section, summaries=tuple(s for s in section.summaries if s is not left)) for section in findings.sections
    )
    board = Board((Findings(findings.run, (*kept, left), sections, findings.counter),))
    assert len(board.places) == len(findings.summaries)
    assert board.groups[-1].conditions == "other"


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none(), st.lists(st.text()))))
def test_json_holds_nothing_that_html_could_take_for_markup(value: dict[str, Any]) -> None:
    text = dumps(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        dumps({"a": float("nan")})


def test_a_method_looks_as_in_the_figures(small: "Synthetic", found: Found, law: "type[Law]") -> None:
    findings = found(small)
    board = Board((findings,))
    method = data(findings)["methods"][1]
    look = board.looks[board.labels[1]]
    assert method["color"] == f"var(--c-{look.color.removeprefix('#').lower()})"
    assert method["filled"] is look.filled
