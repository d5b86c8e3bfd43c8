"""Figures as files: formats, fonts, captions, the same bytes every time, and names that are data in PGF too."""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from attnbench.report.drawing.sheet import SLIDE, Sheet, Style, Width, sheet
from attnbench.report.figures.kinds import Kind
from attnbench.report.figures.make import FORMATS, files
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

Everything = Callable[..., Findings]
Suited = Callable[..., Findings]
PAPER = sheet(Style.PAPER, Width.SINGLE)


def made(findings: Findings, kind: Kind = Kind.SCALING, on: Sheet = PAPER, *formats: str) -> dict[str, bytes]:
    return files(findings, kind, on, formats or FORMATS, "attnbench plot RUN --kind scaling")


def vector(kind: Kind) -> tuple[str, ...]:
    return ("svg",) if kind is Kind.DRAWINGS else ("svg", "pgf")


def test_a_figure_is_a_file_a_format_and_a_caption(everything: Everything) -> None:
    found = made(everything())
    assert set(found) == {"scaling.pdf", "scaling.svg", "scaling.png", "scaling.pgf", "scaling.txt"}
    assert found["scaling.pdf"].startswith(b"%PDF")
    assert found["scaling.svg"].startswith(b"<?xml")
    with Image.open(io.BytesIO(found["scaling.png"])) as picture:
        assert picture.width == 670


def test_of_several_workloads_each_has_its_name_and_of_several_sheets_a_number(everything: Everything) -> None:
    findings = everything(workloads=(Workload.FORWARD, Workload.FORWARD_BACKWARD))
    assert set(made(findings, Kind.SCALING, PAPER, "svg")) == {
        f"scaling-{workload}.{form}" for workload in ("forward", "forward_backward") for form in ("svg", "txt")
    }
    many = everything(causal=(True, False), dtypes=("float32", "bfloat16"))
    assert set(made(many, Kind.SCALING, SLIDE, "svg")) == {"scaling.svg", "scaling-2.svg", "scaling.txt"}


def test_letters_in_a_pdf_are_truetype(everything: Everything) -> None:
    findings = everything(lengths=(512, 1024), workloads=(Workload.FORWARD, Workload.FIDELITY))
    for kind in (Kind.SCALING, Kind.PARETO, Kind.ROOFLINE, Kind.CROSSOVER):
        for name, content in made(findings, kind, PAPER, "pdf").items():
            if name.endswith(".pdf"):
                assert b"/FontFile2" in content
                assert b"/CIDFontType2" in content
                assert b"/Type3" not in content


@pytest.mark.parametrize("kind", list(Kind))
def test_the_same_records_give_the_same_bytes(kind: Kind, suited: Suited) -> None:
    findings = suited(kind, lengths=(512, 1024))
    assert made(findings, kind, PAPER, *vector(kind)) == made(findings, kind, PAPER, *vector(kind))


def test_a_caption_says_what_where_how_often_and_how_to_draw_it_again(suited: Suited) -> None:
    for kind in Kind:
        for name, content in made(suited(kind, lengths=(512, 1024, 2048)), kind, PAPER, *vector(kind)[-1:]).items():
            if name.endswith(".txt"):
                text = content.decode()
                assert "AMD EPYC 9B14" in text
                assert re.search(r"\bn = \d", text)
                assert "\nMeasured by: attnbench run synthetic\n" in text
                assert text.endswith("\nDrawn by: attnbench plot RUN --kind scaling\n")


def test_a_picture_in_pgf_is_as_large_as_the_others_and_runs_no_latex(
    everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    text = made(everything(), Kind.SCALING, PAPER, "pgf")["scaling.pgf"].decode()
    assert "\\pgfqpoint{3.350000in}" in text
    assert "\\begin{pgfpicture}" in text
    assert "softmax.sdpa" in text
    assert "DejaVu" not in text
    # no words of ours are left as they came
    assert not re.search(r"[^\\]_", text)


def test_names_that_are_commands_are_letters_in_pgf(hostile: "Synthetic") -> None:
    text = made(Findings.of(hostile.run(), hostile.records()), Kind.SCALING, PAPER, "pgf")["scaling.pgf"].decode()
    assert "\\input" not in text.replace("\\textbackslash{}input", "")
    assert "\\textbackslash{}input\\{x\\}" in text
    assert text.isascii()
