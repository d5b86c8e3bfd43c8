"""Figures of training on the command's sheets: what a run lacks for them, and what a format cannot hold."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

from attnbench.report.drawing import style
from attnbench.report.drawing.sheet import FOLDER, SLIDE, Sheet, Style, Width, sheet
from attnbench.report.figures.kinds import CannotDrawError, Kind
from attnbench.report.figures.make import drawn, files
from attnbench.report.findings import Findings

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

Draw = Callable[[Findings, Kind, Sheet], list[Figure]]


def found(run: "Synthetic") -> Findings:
    return Findings.of(run.run(), run.records())


def refused(findings: Findings, kind: Kind) -> str:
    with style.applied(), pytest.raises(CannotDrawError) as error:
        drawn(findings, kind, FOLDER)
    return str(error.value)


def test_a_run_that_trains_nothing_says_what_would(small: "Synthetic", learning: "Synthetic") -> None:
    assert "workloads: [train]" in refused(found(small), Kind.CURVES)
    assert "drawings: 8" in refused(found(small), Kind.DRAWINGS)
    assert "drawings: 8" in refused(found(learning), Kind.DRAWINGS)


def test_files_are_named_after_their_kind(picturing: "Synthetic") -> None:
    findings = found(picturing)
    for kind in (Kind.CURVES, Kind.DRAWINGS):
        assert set(files(findings, kind, FOLDER, ("svg",), "again")) == {f"{kind}.svg", f"{kind}.txt"}


def test_pgf_holds_curves_and_no_pixels(picturing: "Synthetic") -> None:
    assert "curves.pgf" in files(found(picturing), Kind.CURVES, FOLDER, ("pgf",), "again")
    with pytest.raises(CannotDrawError, match="PGF holds no pixels; write it as pdf, svg or png"):
        files(found(picturing), Kind.DRAWINGS, FOLDER, ("svg", "pgf"), "again")


@pytest.mark.parametrize(
    ("on", "across"),
    [(FOLDER, 2), (sheet(Style.PAPER, Width.DOUBLE), 2), (sheet(Style.PAPER, Width.SINGLE), 1), (SLIDE, 2)],
)
def test_panels_stand_side_by_side_as_there_is_room(learning: "Synthetic", draw: Draw, on: Sheet, across: int) -> None:
    panels = [axes.get_position() for axes in draw(found(learning), Kind.CURVES, on)[0].axes]
    assert len({round(box.x0, 3) for box in panels}) == across


def test_what_has_nobody_of_its_section_beside_it_says_its_section(learning: "Synthetic", draw: Draw) -> None:
    (single, *_) = draw(found(learning), Kind.CURVES, sheet(Style.PAPER, Width.SINGLE))
    assert {axes.get_title(loc="left") for axes in single.axes} == {"copy, N=128"}


def test_names_are_letters_in_every_format(hostile: "Synthetic", learning: "Synthetic") -> None:
    learning.laws = hostile.laws
    made = files(found(learning), Kind.CURVES, FOLDER, ("svg", "pgf"), "again")
    assert b"<script>" not in made["curves.svg"]
    assert "\\input" not in made["curves.pgf"].decode().replace("\\textbackslash{}input", "")
    assert all(line.isprintable() for line in made["curves.txt"].decode().splitlines())


def test_generating_is_drawn_as_decoding_is_with_its_state_beside_the_time(generating: "Synthetic", draw: Draw) -> None:
    (picture,) = draw(found(generating), Kind.DECODE, FOLDER)
    assert [axes.get_ylabel() for axes in picture.axes[:2]] == ["time per sequence", "state of one sequence"]
    assert "neither a forward" in refused(found(generating), Kind.SCALING)
