"""What a selfcheck says: on a terminal, on a page, as JSON and as a figure."""

import json
import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from attnbench.analyze.selfcheck import Calibration, calibrate
from attnbench.report.questions.selfcheck import figure as selfcheck_plot
from attnbench.report.questions.selfcheck import table as selfcheck_table
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Selfcheck
from tests.report.conftest import Synthetic
from tests.report.stored import as_stored

PROBLEM = Problem(N=512)
HOSTILE = "<b>|x|*\\input{y}\n=cmd()"


@pytest.fixture
def info() -> RunInfo:
    return Synthetic(lengths=(512,)).run()


def planned(verdicts: int, replicates: int, injected: float = 0.0, method: str = "softmax.sdpa") -> Selfcheck:
    cells = [Cell(method=method, problem=PROBLEM)] * 2
    if injected:
        slowed = {"method": "attnbench.workloads.slowed:Slowed", "problem": PROBLEM}
        cells = [Cell.model_validate({**slowed, "params": {"method": method, "share": share}}) for share in (0.0, injected)]
    return Selfcheck(sides=(cells[0], cells[1]), verdicts=verdicts, replicates=replicates, injected=injected)


def records(plan: Selfcheck, spread: float = 0.02, fails: int | None = None, together: float = 0.0) -> list[Record]:
    """Processes, of which `fails` fails; by `together` the sides of a verdict differ in all its processes alike."""
    noise, shared, found = random.Random(3), random.Random(1), []
    off = [math.log1p(plan.injected) + shared.gauss(0, together) for _ in range(plan.verdicts)]
    for number in range(plan.processes):
        place = plan.place(number)
        log = noise.gauss(0, spread) + 0.004 * place.replicate + place.side * off[place.verdict]
        time = Series(unit="s", values=(5e-3 * math.exp(log),))
        outcome: Outcome = Measured(samples={"time": time}, flags=("loaded",) if number % 50 == 0 else ())
        if number == fails:
            outcome = Failed(status=Status.CRASHED, reason=f"SIGSEGV (signal 11) {HOSTILE}")
        job = Job(cell=plan.cell(number), replicate=number)
        found.append(Record(job=job, outcome=outcome, environment="e", started="2026-01-02T03:04:06+00:00"))
    return found


@cache
def found(verdicts: int = 100, replicates: int = 5, margin: float = 0.05, **how: Any) -> Calibration:
    """Of sides that are alike, or what `how` says of the plan and of its records."""
    plan = planned(verdicts, replicates, **{name: how[name] for name in how.keys() & {"injected", "method"}})
    return calibrate(plan, records(plan, **{name: how[name] for name in how.keys() & {"spread", "fails", "together"}}), margin)


def test_what_is_said_is_as_stored(info: RunInfo) -> None:
    alike = found(fails=7)
    assert as_stored("selfcheck.txt", selfcheck_table.console(alike, info) + "\n")
    assert as_stored("selfcheck.md", selfcheck_table.page(alike, info))
    assert as_stored("selfcheck.json", selfcheck_table.as_json(alike, info))
    assert as_stored("selfcheck_injected.txt", selfcheck_table.console(found(40, 5, injected=0.1), info) + "\n")


EVERY: dict[str, Callable[[], Calibration]] = {
    "three columns": lambda: found(20, 10),
    "the least": lambda: found(2, 2),
    "a very loud machine": lambda: found(1, 25, spread=0.5),
    "four columns": lambda: found(10, 20, margin=0.025),
    "a hostile name": lambda: found(3, 3, method=HOSTILE * 9),
    "a hostile name, slowed": lambda: found(3, 3, method=HOSTILE * 9, injected=1.0),
    "no records": lambda: calibrate(planned(20, 10), [], 0.05),
    "one record": lambda: calibrate(planned(20, 10), records(planned(20, 10))[:1], 0.05),
}


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("name", EVERY)
def test_80_columns_do_page_and_strict_json_can_be_written_and_words_stay_inside_the_figure(name: str, info: RunInfo) -> None:
    calibration = EVERY[name]()
    lines = selfcheck_table.console(calibration, info).split("\n")
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    page = selfcheck_table.page(calibration, info)
    assert "<b>" not in page
    assert not any(line.startswith("=cmd") for line in page.split("\n"))
    data = json.loads(selfcheck_table.as_json(calibration, info), parse_constant=lambda name: pytest.fail(name))
    assert data["schema_version"] == 2
    picture = selfcheck_plot.figure(calibration, info)
    FigureCanvasAgg(picture).draw()  # type: ignore[no-untyped-call]
    for text in (text for text in picture.findobj(Text) if isinstance(text, Text) and text.get_text() and text.get_visible()):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0, text
        assert (box.x1 <= picture.bbox.width, box.y1 <= picture.bbox.height) == (True, True), text


def test_processes_that_err_together_are_warned_of(info: RunInfo) -> None:
    assert "Warning: without a margin" in selfcheck_table.console(found(together=0.05), info)
    assert "Warning" not in selfcheck_table.console(found(), info)


@pytest.mark.usefixtures("settings")
def test_a_line_for_each_number_of_replicates_rises_from_chance_to_certainty(info: RunInfo) -> None:
    for axes in selfcheck_plot.figure(found(), info).axes:
        lines = {line.get_label(): line for line in axes.lines if str(line.get_label()).endswith("a side")}
        assert [str(name).strip("\u200b") for name in lines] == ["3 a side", "5 a side"]
        for line in lines.values():
            heights = [float(y) for y in np.asarray(line.get_ydata())]
            assert heights == sorted(heights)
            assert heights[0] < 0.1
            assert heights[-1] > 0.95
