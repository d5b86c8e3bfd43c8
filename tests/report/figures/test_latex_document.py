"""Figures and table go into a two-column paper as they are: the real tool compiles it, and nothing is too wide."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.report.drawing.sheet import Style, Width, sheet
from attnbench.report.figures.kinds import Kind
from attnbench.report.figures.make import files
from attnbench.report.findings import Findings
from attnbench.report.tables import tables
from attnbench.report.text import latex
from attnbench.schema.cell import Workload

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

Everything = Callable[..., Findings]
Suited = Callable[..., Findings]

# both columns as wide as the figures are
_HEAD = r"""\documentclass[10pt,twocolumn]{article}
\usepackage[papersize={8.5in,11in},textwidth=7in,textheight=9.3in]{geometry}
\setlength{\columnsep}{0.3in}
\setlength{\parindent}{0pt}
\usepackage{graphicx,booktabs,pgf}
\begin{document}
"""
_FIGURE = "\\begin{{figure{star}}}[tp]\\centering {inside}\\caption{{{name}}}\\end{{figure{star}}}\n"


def figures(folder: Path, suited: Suited, width: Width) -> str:
    """Written in both formats; the lines that take them in."""
    star, lines = ("*", []) if width is Width.DOUBLE else ("", [])
    for kind in Kind:
        formats, findings = ("pdf",) if kind is Kind.DRAWINGS else ("pdf", "pgf"), suited(kind, causal=(True, False))
        for name, content in files(findings, kind, sheet(Style.PAPER, width), formats, "again").items():
            file = f"{width}-{name}"
            (folder / file).write_bytes(content)
            inside = {".pdf": f"\\includegraphics{{{file}}}", ".pgf": f"\\input{{{file}}}"}.get(Path(file).suffix)
            if inside:
                lines.append(_FIGURE.format(star=star, inside=inside, name=name) + "\\clearpage\n")
    return "".join(lines)


def compiled(folder: Path, body: str) -> str:
    """The log of pdflatex; fails where there is no PDF."""
    (folder / "paper.tex").write_text(f"{_HEAD}{body}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").stat().st_size > 50_000
    return done.stdout


@pytest.mark.slow
def test_a_paper_with_all_figures_and_the_table_compiles_and_nothing_is_too_wide(
    tmp_path: Path, everything: Everything, suited: Suited
) -> None:
    forward = everything(workloads=(Workload.FORWARD,))
    (tmp_path / "table.tex").write_text(latex.latex(tables(forward)))
    log = compiled(
        tmp_path,
        figures(tmp_path, suited, Width.SINGLE) + figures(tmp_path, suited, Width.DOUBLE) + "\\input{table.tex}\n",
    )
    assert re.findall(r"Overfull \\hbox.*", log) == []
    assert "Undefined control sequence" not in log


@pytest.mark.slow
def test_hostile_names_compile_as_letters(tmp_path: Path, hostile: "Synthetic") -> None:
    findings = Findings.of(hostile.run(), hostile.records())
    body = []
    for kind in (Kind.SCALING, Kind.MEMORY):
        for name, content in files(findings, kind, sheet(Style.PAPER, Width.DOUBLE), ("pgf",), "again").items():
            (tmp_path / name).write_bytes(content)
        body.append(_FIGURE.format(star="*", inside=f"\\input{{{kind}.pgf}}", name=kind))
    assert "x.tex" not in compiled(tmp_path, "".join(body))
