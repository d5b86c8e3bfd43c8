"""All that can be read in a figure and below it is as stored, of every kind and of runs of every sort.

RENEW=1 writes the texts anew after a wanted change.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from attnbench.schema.cell import Workload
from attnbench.schema.training import Task, Training
from tests.report.conftest import Synthetic
from tests.report.drawn import drawings, found, legend
from tests.report.figures.conftest import Everything
from tests.report.scored_runs import kept_findings, rounded_findings
from tests.report.stored import as_stored

FORWARD, SHORT = (Workload.FORWARD,), (512, 1024)
SWEEP = Synthetic(workloads=FORWARD)
"""Every kind of failure."""
LAYERS = tuple(Training(task=Task.COPY, updates=100, layers=layers) for layers in (1, 2))


def ticks(axis: Axis) -> str:
    """Those that are drawn: there are others beyond the ends."""
    low, high = sorted(axis.get_view_interval())
    drawn = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return " ".join(label.get_text() for label in drawn if label.get_visible())


def lines(picture: Figure) -> Iterable[str]:
    yield f"title: {picture.get_suptitle()}"
    for axes in picture.axes:
        yield f"panel: {axes.get_title(loc='left')}"
        yield f"  above or within: {'; '.join(text.get_text() for text in axes.texts)}"
        yield f"  across: {axes.get_xlabel()} | {ticks(axes.xaxis)}"
        yield f"  up: {axes.get_ylabel()} | {ticks(axes.yaxis)}"
    others = [text.get_text() for text in picture.texts if text.get_text() != picture.get_suptitle()]
    yield f"beside or below: {'; '.join(others)}"
    yield f"legend: {'; '.join(legend(picture)) if picture.legends else 'none'}"


@pytest.mark.parametrize(
    ("name", "kind", "made", "changes"),
    [
        *(
            (kind, kind, "everything", {})
            for kind in ("scaling", "memory", "ratio", "crossover", "roofline", "decode", "pareto")
        ),
        ("pareto-without-times", "pareto", "everything", {"workloads": (Workload.FIDELITY,)}),
        ("time", "time", SWEEP, {}),
        ("time-of-two-dtypes", "time", SWEEP, {"dtypes": ("float32", "bfloat16"), "lengths": SHORT}),
        ("time-there-and-back", "time", "small", {"workloads": (Workload.FORWARD_BACKWARD,)}),
        ("time-of-one-length", "time", "small", {"lengths": (512,)}),
        ("time-decoding", "time", "decoding", {"workloads": (Workload.FORWARD, Workload.DECODE), "lengths": SHORT}),
        ("state-decoding", "state", "decoding", {"workloads": (Workload.FORWARD, Workload.DECODE), "lengths": SHORT}),
        ("decode-generating", "decode", "generating", {}),
        ("curves", "curves", "learning", {}),
        ("curves-of-two-lengths", "curves", "learning", {"lengths": (64, 128)}),
        ("curves-of-two-depths", "curves", "learning", {"trainings": LAYERS}),
        ("curves-of-one-seed", "curves", "learning", {"replicates": 1}),
        ("curves-of-speech", "curves", "hearing", {}),
        ("curves-of-images", "curves", "picturing", {}),
        ("drawings", "drawings", "picturing", {}),
        ("pareto-of-a-task", "pareto", "learning", {}),
        ("pareto-of-images", "pareto", "both", {}),
        ("fidelity", "fidelity", kept_findings, {}),
        ("numerics", "numerics", rounded_findings, {}),
        ("pareto-of-rounding", "pareto", rounded_findings, {}),
    ],
)
def test_what_can_be_read_in_a_figure_and_below_it_is_as_stored(
    request: pytest.FixtureRequest, name: str, kind: str, made: str | Synthetic | Everything, changes: dict[str, Any]
) -> None:
    run = request.getfixturevalue(made) if isinstance(made, str) else made
    findings = found(replace(run, **changes)) if isinstance(run, Synthetic) else run(**changes)
    shown = [
        line
        for drawing in drawings(findings, kind)
        for sheet in drawing.sheets
        for line in (*lines(sheet), "", drawing.caption, "")
    ]
    text = "\n".join(line.rstrip() for line in shown)
    assert as_stored(f"words/{name}.txt", text)
