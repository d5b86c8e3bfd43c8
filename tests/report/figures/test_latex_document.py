"""Figures and table go into a two-column paper as they are: the real tool compiles it, and nothing is too wide."""

import re
import subprocess
from pathlib import Path

import pytest

from attnbench.report.drawing.sheet import WIDTHS, Style, sheet
from attnbench.report.figures.make import files
from attnbench.report.tables import tables
from attnbench.report.text import latex
from attnbench.schema.cell import Workload
from tests.report.conftest import Synthetic
from tests.report.drawn import found
from tests.report.figures.conftest import KINDS, Everything, Suited

# columns as wide as those of ICML; the figures of one wide column are those of NeurIPS
_TWO = r"""\documentclass[10pt,twocolumn]{article}
\usepackage[papersize={8.5in,11in},textwidth=6.75in,textheight=9.3in]{geometry}
\setlength{\columnsep}{0.25in}
"""
_ONE = r"""\documentclass[10pt]{article}
\usepackage[papersize={8.5in,11in},textwidth=5.5in,textheight=9.3in]{geometry}
"""
_USED = r"""\setlength{\parindent}{0pt}
\usepackage{graphicx,booktabs,siunitx,pgf}
\begin{document}
"""
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


def compiled(folder: Path, head: str, body: str) -> str:
    """The log of pdflatex; fails where there is no PDF."""
    (folder / "paper.tex").write_text(f"{head}{_USED}{body}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").stat().st_size > 50_000
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("head", "widths"), [(_TWO, ("icml", "icml-double")), (_ONE, ("neurips",))], ids=("icml", "neurips"))
def test_a_paper_with_all_figures_and_the_table_compiles_and_nothing_is_too_wide(
    tmp_path: Path, everything: Everything, suited: Suited, head: str, widths: tuple[str, ...]
) -> None:
    assert set(widths) <= WIDTHS.keys()
    forward = everything(workloads=(Workload.FORWARD,))
    (tmp_path / "table.tex").write_text(latex.latex(tables(forward)))
    body = "".join(figures(tmp_path, suited, width) for width in widths)
    log = compiled(tmp_path, head, body + ("\\input{table.tex}\n" if head == _TWO else ""))
    assert re.findall(r"Overfull \\hbox.*", log) == []
    assert "Undefined control sequence" not in log


@pytest.mark.slow
def test_hostile_names_compile_as_letters(tmp_path: Path, hostile: Synthetic) -> None:
    findings = found(hostile)
    body = []
    for kind in ("scaling", "memory"):
        for name, content in files(findings, kind, sheet(Style.PAPER), ("pgf",), "again").items():
            (tmp_path / name).write_bytes(content)
        inside, caption = f"\\input{{{kind}.pgf}}", f"\\input{{{kind}.tex}}"
        body.append(_FIGURE.format(star="*", inside=inside, caption=caption))
    assert "x.tex" not in compiled(tmp_path, _TWO, "".join(body))
