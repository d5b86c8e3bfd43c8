"""The LaTeX table goes into a paper as it is: the real tool compiles it, hostile names included."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.report.findings import Findings
from attnbench.report.write import write

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

PAPER = r"""\documentclass[10pt]{article}
\usepackage[margin=2cm,landscape]{geometry}
\usepackage{booktabs}
\begin{document}
\input{table.tex}
\end{document}
"""


def compiled(folder: Path) -> str:
    """The log of pdflatex over a paper with the table; fails where there is no PDF."""
    (folder / "paper.tex").write_text(PAPER)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").stat().st_size > 10_000
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [3, 5])
def test_the_table_of_a_run_compiles(tmp_path: Path, synthetic: "type[Synthetic]", replicates: int) -> None:
    made = synthetic(replicates=replicates)
    write(tmp_path, Findings.of(made.run(), made.records()))
    assert "Undefined control sequence" not in compiled(tmp_path)


@pytest.mark.slow
def test_a_table_of_hostile_names_compiles_and_reads_no_file(tmp_path: Path, hostile: "Synthetic") -> None:
    write(tmp_path, Findings.of(hostile.run(), hostile.records()))
    log = compiled(tmp_path)
    assert "passwd" not in log
