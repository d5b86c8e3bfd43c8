"""Lines over length: panels, axes, what was not measured, and the files of a run folder."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.quantities import Unit
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.report.drawing import style
from attnbench.report.drawing.lines import Plotted, beyond, failures, parts
from attnbench.report.drawing.sheet import FOLDER, Sheet
from attnbench.report.figures.make import folder_files
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, found, legend, pictures, words

FORWARD, SHORT = (Workload.FORWARD,), (512, 1024)


def time_figure(run: Synthetic) -> Figure:
    return pictures(found(run), "time")[0]


def above(axes: Axes) -> list[str]:
    """Words above a panel."""
    return [text.get_text() for text in axes.texts]


def test_a_third_set_of_conditions_under_one_mask_starts_a_new_row() -> None:
    run = Synthetic(workloads=FORWARD, causal=(True,), dtypes=("float32", "bfloat16", "float16"), lengths=SHORT)
    first, second, third = (axes.get_position() for axes in time_figure(run).axes)
    assert first.y0 == second.y0 > third.y1
    assert first.x0 == pytest.approx(third.x0)
    assert third.x0 < second.x0


def test_what_was_not_measured_is_noted_above_the_panel_at_the_first_length_without_a_number() -> None:
    findings = found(Synthetic(workloads=FORWARD))
    causal, other = pictures(findings, "time")[0].axes
    assert causal.get_ylim() == other.get_ylim()
    floor = causal.get_window_extent().y1
    assert all(text.get_window_extent().y0 >= floor for text in causal.texts)
    naive = next(line for line in causal.lines if line.get_label() == "\u200bsoftmax.naive")
    assert np.max(naive.get_xdata()) == 8192
    notes = [(note.N, note.words) for note in failures(findings.sections[0], style.looks(findings.labels))]
    assert notes == [(2**14, "OOM"), (2**16, "budget"), (0, "unsupported"), (2**15, "crashed"), (0, "wrong")]


def test_notes_of_one_panel_do_not_meet() -> None:
    laws = [Law(f"m.{i}", 1.0, 1.0, stop_at=2 ** (9 + i % 4), status=status) for i, status in enumerate(Status)]
    run = Synthetic(laws, workloads=FORWARD, causal=(True,), lengths=(512, 1024, 2048, 4096, 8192))
    (axes,) = time_figure(run).axes
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: (round(box.y0), box.x0))
    for left, right in pairwise(boxes):
        assert left.x1 <= right.x0 or left.y1 <= right.y0 + 2


def test_without_failures_only_what_has_numbers_is_drawn() -> None:
    findings = found(Synthetic(workloads=FORWARD, causal=(True,)))
    (drawing,) = drawings(findings, "time", Sheet(failures=False))
    (picture,) = drawing.sheets
    assert above(picture.axes[0]) == []
    assert not any(name.startswith(("sparse.strided", "linear.full")) for name in legend(picture))
    assert "Above the panel" not in drawing.caption


def test_a_line_is_drawn_further_by_its_two_nearest_points() -> None:
    points = {N: Estimate.exact(value) for N, value in ((1, 50.0), (2, 4.0), (4, 16.0))}
    assert beyond(points, 8) == pytest.approx(64.0)
    assert (beyond({1: points[1]}, 8), beyond({}, 8)) == (50.0, None)


def test_a_range_as_narrow_as_rounding_is_drawn_as_a_point(small: Synthetic) -> None:
    narrow = Estimate(1e-7, Interval(1e-7 * (1 - 2e-16), 1e-7 * (1 + 2e-16), Spread.BAND))
    points = Plotted("rounding", lambda _: narrow, Unit.SHARE).points(found(small).summaries)
    assert {point.is_exact for point in points.values()} == {True}


def test_a_run_in_which_everything_failed_still_has_its_panels() -> None:
    laws = [Law(f"m.{i}", 1.0, 1.0, stop_at=1, status=status, reason="because") for i, status in enumerate(Status)]
    picture = time_figure(Synthetic(laws, workloads=FORWARD))
    for axes in picture.axes:
        assert "nothing was measured" in above(axes)
    assert len(legend(picture)) == len(Status)


def test_names_are_drawn_as_they_are_or_as_the_suite_calls_them(small: Synthetic, hostile: Synthetic) -> None:
    def shown(run: Synthetic, **labels: str) -> list[str]:
        run.report = ReportSpec(labels=labels)
        return [name.partition(" ")[0] for name in legend(time_figure(run))]

    assert {"../../x", "\\input{x}"} <= set(shown(hostile))
    assert shown(small, **{"linear.chunked": "Linear", "softmax.sdpa": "Flash"})[1:3] == ["Flash", "Linear(chunk=64)"]
    # two methods that are called the same keep their own names
    assert "Flash" not in shown(small, **{"linear.chunked(chunk=64)": "Flash", "softmax.sdpa": "Flash"})


# files of a run folder


def test_only_the_plots_that_the_suite_asks_for_are_drawn_and_no_setting_is_changed(small: Synthetic) -> None:
    small.report = ReportSpec(plots=("memory",))
    with mpl.rc_context({"font.size": 31.0, "axes.facecolor": "red"}):
        before = dict(mpl.rcParams)
        changed = folder_files(found(small))
        assert dict(mpl.rcParams) == before
    assert changed == folder_files(found(small))
    assert {name.partition(".")[0] for name in changed} == {"forward/memory"}


# many methods


def section(names: list[str]) -> Section:
    laws = [Law(name, 1e-3, 1.0) for name in names]
    (one,) = found(Synthetic(laws, lengths=SHORT, causal=(True,), workloads=FORWARD)).sections
    return one


def test_what_fits_stays_one_panel_and_of_more_methods_families_stay_together_and_a_large_one_is_cut() -> None:
    few = section([f"a.{i}" for i in range(FOLDER.methods)])
    assert parts(few, FOLDER.methods) == [few]
    whole = section([*(f"a.{i}" for i in range(17)), "b.x", "c.y", "b.z"])
    made = parts(whole, 16)
    assert [part.conditions for part in made] == ["float32, a (1 of 2)", "float32, a, b, c (2 of 2)"]
    assert [len(part.series) for part in made] == [9, 11]
    assert sorted(s.cell.key for part in made for s in part.summaries) == sorted(s.cell.key for s in whole.summaries)
    picture = time_figure(Synthetic([Law(f"m.{i}", 1e-3, 1.0) for i in range(40)], SHORT, (True,), FORWARD))
    assert (len(picture.axes), len(legend(picture))) == (3, 40)
    assert "nothing was measured" not in words(picture)
