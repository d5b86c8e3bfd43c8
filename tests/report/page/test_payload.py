"""The numbers of a page: which cells are shown in one view, what the script must not compute, and that it is inert."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.drawing.images import contrast, on_dark
from attnbench.report.drawing.style import looks
from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.report.page.payload import corners, dumps, rounded, variable, variables
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found
from tests.report.figures.conftest import recorded
from tests.report.page.reading import data
from tests.report.stored import as_stored


def test_the_numbers_of_a_small_run_are_as_stored(small: Synthetic) -> None:
    small.replicates = 5
    findings = found(small)
    made, board = data(findings), Board((findings,))
    for method, label in zip(made["methods"], board.labels, strict=True):
        # they are those of the figures
        assert method.pop("color") == f"var({variable(board.looks[label].color)})"
        assert method.pop("filled") is board.looks[label].filled
    # a column a line
    text = json.dumps(made, indent=1)
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    assert as_stored("page.json", f"{text}\n")


# quality against cost


def test_the_front_is_that_of_the_analysis_and_may_weigh_fidelity_of_another_run(small: Synthetic) -> None:
    # one exact, one fast and rough, one that is beaten in both
    laws = (
        Law("softmax.sdpa", 4e-3, 1.9, tier="library"),
        Law("lsh.reformer", 1e-3, 1.1, {"rounds": 1}),
        Law("linear.chunked", 2e-3, 1.0),
    )
    run = replace(small, laws=laws, lengths=(512, 1024), heads=(8, 16), workloads=(Workload.FORWARD, Workload.FIDELITY))
    made, places = data(weighed := Findings.of(*recorded(run))), Board((weighed,)).places
    problems = [{places[number].summary.cell.problem for number in pair} for each in made["pairs"] for pair in each["cells"]]
    assert all(len(each) == 1 for each in problems), "a cell is weighed by the scores of its own heads"
    forward = next(number for number, group in enumerate(made["groups"]) if group["workload"] == "forward")
    longest = next(pairs for pairs in made["pairs"] if pairs["group"] == forward and pairs["N"] == 1024)
    cells = [longest["cells"][place] for place in longest["fronts"]["time/output_error"]]
    names = [made["methods"][made["cells"]["method"][paid]]["name"] for paid, _ in cells]
    assert names == ["lsh.reformer(rounds=1)", "softmax.sdpa"]
    assert all(made["groups"][made["cells"]["group"][lost]]["workload"] == "fidelity" for _, lost in cells)
    assert data(found(small))["pairs"] == [], "a run without quality weighs nothing"
    timed, scored = (
        Findings.over(weighed.run, [each for each in weighed.summaries if each.cell.workload is workload])
        for workload in (Workload.FORWARD, Workload.FIDELITY)
    )
    made = data(timed, scored)
    assert {pairs["run"] for pairs in made["pairs"] if "time/output_error" in pairs["fronts"]} == {0}


# the order of cells


def test_every_cell_stands_once_in_the_order_of_its_line() -> None:
    made = Synthetic(dtypes=("float32", "bfloat16"), lengths=(512, 1024))
    board = Board((found(made),))
    assert sorted(place.summary.cell.key for place in board.places) == sorted(cell.key for cell in made.run().cells)
    for cells in board.lines.values():
        lengths = [board.places[cell].summary.cell.problem.N for cell in cells]
        assert lengths == sorted(set(lengths))


# JSON within HTML


def test_numbers_have_six_digits_and_whole_ones_all_of_theirs_and_what_is_none_is_refused() -> None:
    given = (67_108_864.0, 11_744_051, 0.123456789, 1234.56789, 0.0, math.nan, math.inf, None)
    assert rounded(given) == [67_108_864, 11_744_051, 0.123457, 1234.57, 0, None, None, None]
    with pytest.raises(ValueError, match="Out of range"):
        dumps({"a": float("nan")})


# colours, dashes and markers of the figures, as a page has them


@given(st.integers(0, 0xFFFFFF))
def test_every_colour_can_be_read_on_a_dark_ground(color: int) -> None:
    assert contrast(tuple(bytes.fromhex(on_dark(f"#{color:06x}")[1:])), (20, 23, 26)) >= 4.5


def test_a_colour_that_is_light_enough_stays_and_black_and_grey_stay_apart() -> None:
    assert [on_dark(color) for color in ("#56b4e9", "#e69f00", "#000000")] == ["#56b4e9", "#e69f00", "#ffffff"]
    assert on_dark("#7f7f7f") < "#999999"
    # as the guidelines have it
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


def test_every_colour_of_the_figures_has_a_variable() -> None:
    known = list(looks([f"method {i}" for i in range(60)]).values())
    text = variables(known)
    assert all(f"{variable(look.color)}:light-dark({look.color}," in text for look in known)
    assert text.count(":light-dark(") == len({look.color for look in known})


@pytest.mark.parametrize(("marker", "count"), {"o": 0, "s": 4, "^": 3, "D": 4, "p": 5, "h": 6, "P": 12, "X": 12}.items())
def test_a_marker_has_the_corners_of_its_shape(marker: str, count: int) -> None:
    found = corners(marker)
    assert len({tuple(corner) for corner in found}) == count
    assert all(abs(value) <= 1.5 for corner in found for value in corner)
    # a triangle that points up has its tip above
    assert marker != "^" or min(found, key=lambda corner: corner[1])[0] == 0


# which cells of several runs are shown in one view: those that are alike in all but the method and N


BOTH = (Batch.FIXED, Batch.LARGEST)


def shaped(**fields: Any) -> Findings:
    """Return findings of a small run; what is named replaces a field."""
    known: dict[str, Any] = {"lengths": (512, 1024), "causal": (True,), "workloads": (Workload.FORWARD,), "replicates": 1}
    return found(Synthetic((Law("softmax.sdpa", 3e-3, 1.95), Law("linear.chunked", 2e-3, 1.0)), **known | fields))


def trained(updates: int) -> dict[str, Any]:
    return {"workloads": (Workload.TRAIN,), "lengths": (128,), "trainings": (Training(task=Task.COPY, updates=updates),)}


def views(*runs: Findings) -> dict[str, list[int]]:
    """By title, the runs of each group."""
    return {group.section.title: [run for run, _ in group.members] for group in Board(runs).groups}


FORWARD = "forward, causal, float32"
HEADS, BATCHES = [{"heads": (2,)}, {"heads": (8,)}], [{"tokens": 1}, {"tokens": 8192}, {"batches": BOTH}]
SHARED = {
    "unlike heads": (HEADS, {f"{FORWARD}, H=2": [0], f"{FORWARD}, H=8": [1]}),
    "alike cells, whatever else varies in their runs": (
        [{"heads": (2, 8)}, {"heads": (8,), "lengths": (2048,)}],
        {f"{FORWARD}, H=2": [0], f"{FORWARD}, H=8": [0, 1]},
    ),
    "what is alike everywhere is not named": ([{"heads": (2,)}, {"heads": (2,), "lengths": (512,)}], {FORWARD: [0, 1]}),
    "unlike batches": (
        BATCHES,
        {f"{FORWARD}, B=1": [0, 2], f"{FORWARD}, tokens=8192": [1], f"{FORWARD}, largest B that fits": [2]},
    ),
    "models that were trained for longer": (
        [trained(100), trained(2000)],
        {"training, causal, float32, updates=100": [0], "training, causal, float32, updates=2000": [1]},
    ),
}


@pytest.mark.parametrize(("runs", "wanted"), SHARED.values(), ids=SHARED)
def test_what_is_alike_is_shown_together_under_what_differs(runs: list[dict[str, Any]], wanted: dict[str, list[int]]) -> None:
    assert views(*(shaped(**fields) for fields in runs)) == wanted


def test_the_view_that_is_shown_first_is_that_of_the_first_run_s_sentence() -> None:
    board = Board((shaped(workloads=(Workload.FORWARD, Workload.FORWARD_BACKWARD), heads=(2,)), shaped(heads=(8,))))
    assert board.groups[board.first].section.title == "forward + backward, causal, float32, H=2"


def test_a_run_alone_is_shown_under_the_titles_of_its_tables() -> None:
    findings = shaped(heads=(2, 8), batches=BOTH, causal=(True, False))
    assert list(views(findings)) == [section.title for section in findings.sections]
