"""Figures as files: formats, fonts, captions, the same bytes every time, and a paper that takes them in as they are."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from attnbench.report.drawing.sheet import SLIDE, WIDTHS, Sheet, Style, sheet
from attnbench.report.figures.make import FORMATS, files
from attnbench.report.findings import Findings
from attnbench.report.tables import tables
from attnbench.report.text import latex
from attnbench.schema.cell import Workload
from tests.report.conftest import Synthetic
from tests.report.drawn import found
from tests.report.figures.conftest import KINDS, Everything, Suited
from tests.report.papers import ICML, NEURIPS, PACKAGES, compiled
from tests.report.stored import as_stored

PAPER = sheet(Style.PAPER, "single")


def made(findings: Findings, kind: str = "scaling", on: Sheet = PAPER, *formats: str) -> dict[str, bytes]:
    return files(findings, kind, on, formats or FORMATS, "attnbench plot RUN --kind scaling")


def vector(kind: str) -> tuple[str, ...]:
    return ("svg",) if kind == "drawings" else ("svg", "pgf")


def test_a_figure_is_a_file_a_format_and_a_caption(everything: Everything) -> None:
    found = made(everything())
    assert set(found) == {"scaling.pdf", "scaling.svg", "scaling.png", "scaling.pgf", "scaling.txt", "scaling.tex"}
    assert found["scaling.pdf"].startswith(b"%PDF")
    assert found["scaling.svg"].startswith(b"<?xml")
    with Image.open(io.BytesIO(found["scaling.png"])) as picture:
        assert picture.width == 670


def test_of_several_workloads_each_has_its_name_and_of_several_sheets_a_number(everything: Everything) -> None:
    findings = everything(workloads=(Workload.FORWARD, Workload.FORWARD_BACKWARD))
    assert set(made(findings, "scaling", PAPER, "svg")) == {
        f"scaling-{workload}.{form}" for workload in ("forward", "forward_backward") for form in ("svg", "txt", "tex")
    }
    many = everything(causal=(True, False), dtypes=("float32", "bfloat16"))
    assert set(made(many, "scaling", SLIDE, "svg")) == {"scaling.svg", "scaling-2.svg", "scaling.txt", "scaling.tex"}


def test_letters_in_a_pdf_are_truetype(everything: Everything) -> None:
    findings = everything(lengths=(512, 1024), workloads=(Workload.FORWARD, Workload.FIDELITY))
    for kind in ("scaling", "pareto", "roofline", "crossover"):
        for name, content in made(findings, kind, PAPER, "pdf").items():
            if name.endswith(".pdf"):
                assert b"/FontFile2" in content
                assert b"/CIDFontType2" in content
                assert b"/Type3" not in content


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_records_give_the_same_bytes_and_a_caption_that_ends_with_how_to_make_them(kind: str, suited: Suited) -> None:
    findings = suited(kind, lengths=(512, 1024))
    first = made(findings, kind, PAPER, *vector(kind))
    # in pgf for one kind: it is the figure whose svg is the same
    again = made(findings, kind, PAPER, *(vector(kind) if kind == "scaling" else ("svg",)))
    assert {name: first[name] for name in again} == again
    captions = [content.decode() for name, content in first.items() if name.endswith(".txt")]
    assert captions
    end = "\nMeasured by: attnbench run synthetic\nDrawn by: attnbench plot RUN --kind scaling\n"
    assert [text for text in captions if not text.endswith(end)] == []


def test_a_picture_in_pgf_is_as_large_as_others_and_runs_no_latex(
    everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    text = made(everything(), "scaling", PAPER, "pgf")["scaling.pgf"].decode()
    wanted = ("\\pgfqpoint{3.350000in}", "\\begin{pgfpicture}", "softmax.sdpa")
    assert [words for words in wanted if words not in text] == []
    assert "DejaVu" not in text
    # no words of ours are left as they came
    assert not re.search(r"[^\\]_", text)


def test_a_caption_for_latex_has_a_label_and_in_names_commands_are_letters(hostile: Synthetic, everything: Everything) -> None:
    assert as_stored("words/scaling.tex", made(everything(), "scaling", PAPER, "svg")["scaling.tex"].decode())
    pgf, caption = (made(found(hostile), "scaling", PAPER, "pgf")[f"scaling.{form}"].decode() for form in ("pgf", "tex"))
    assert "\\input" not in pgf.replace("\\textbackslash{}input", "")
    assert "\\textbackslash{}input\\{x\\}" in pgf
    assert pgf.isascii()
    assert "\\input{x}" not in caption


# papers


_USED = PACKAGES + r"\setlength{\parindent}{0pt}\usepackage{pgf}"
_FIGURE = "\\begin{{figure{star}}}[p]\\centering {inside}{caption}\\end{{figure{star}}}\n"


def figures(folder: Path, suited: Suited, width: str) -> str:
    """Write all kinds as PDF and PGF with their captions; return the lines that take them in."""
    star, lines = ("*", []) if width.endswith("double") else ("", [])
    for kind in KINDS:
        formats, findings = ("pdf",) if kind == "drawings" else ("pdf", "pgf"), suited(kind, causal=(True, False))
        for name, content in files(findings, kind, sheet(Style.PAPER, width), formats, "again").items():
            file = f"{width}-{name}"
            (folder / file).write_bytes(content)
            inside = {".pdf": f"\\includegraphics{{{file}}}", ".pgf": f"\\input{{{file}}}"}.get(Path(file).suffix)
            if inside:
                lines.append(_FIGURE.format(star=star, inside=inside, caption="") + "\\clearpage\n")
            if file.endswith(".tex"):
                lines.append(_FIGURE.format(star=star, inside="", caption=f"\\input{{{file}}}") + "\\clearpage\n")
    return "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "widths"), [(ICML, ("icml", "icml-double")), (NEURIPS, ("neurips",))], ids=("icml", "neurips")
)
def test_a_paper_with_all_figures_and_the_table_compiles_and_nothing_is_too_wide(
    tmp_path: Path, everything: Everything, suited: Suited, head: str, widths: tuple[str, ...]
) -> None:
    assert set(widths) <= WIDTHS.keys()
    (tmp_path / "table.tex").write_text(latex.latex(tables(everything(workloads=(Workload.FORWARD,)))))
    body = "".join(figures(tmp_path, suited, width) for width in widths)
    log = compiled(tmp_path, head + _USED, body + ("\\input{table.tex}\n" if head == ICML else ""))
    assert re.findall(r"Overfull \\hbox.*", log) == []


@pytest.mark.slow
def test_hostile_names_compile_as_letters(tmp_path: Path, hostile: Synthetic) -> None:
    findings = found(hostile)
    body = []
    for kind in ("scaling", "memory"):
        for name, content in files(findings, kind, sheet(Style.PAPER), ("pgf",), "again").items():
            (tmp_path / name).write_bytes(content)
        inside, caption = f"\\input{{{kind}.pgf}}", f"\\input{{{kind}.tex}}"
        body.append(_FIGURE.format(star="*", inside=inside, caption=caption))
    assert "x.tex" not in compiled(tmp_path, ICML + _USED, "".join(body))
