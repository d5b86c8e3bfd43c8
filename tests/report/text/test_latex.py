"""Tables go into a paper as they are: numbers aligned, names escaped; the real tool sets them in two kinds of paper."""

import re
import subprocess
from pathlib import Path

import pytest

from attnbench.report.findings import Findings
from attnbench.report.text import latex
from attnbench.report.text.table import Table
from attnbench.report.write import write
from tests.report.conftest import Synthetic

TABLE = Table(
    "Time: forward",
    ("method", "time per sample", "scaled"),
    (
        ("a_b", "1,234.5 ms ±3%", "1.2e-07"),
        ("[x]", "OOM", ""),
        ("c", "9.1 ms (-1 +12%)", "-0.3"),
    ),
    frozenset({(0, 1), (1, 1)}),
    ("Note_1.",),
)
PAPERS = {
    "neurips": r"\documentclass[10pt]{article}\usepackage[papersize={8.5in,11in},textwidth=5.5in,textheight=9in]{geometry}",
    "icml": r"\documentclass[10pt,twocolumn]{article}"
    r"\usepackage[papersize={8.5in,11in},textwidth=6.75in,textheight=9in]{geometry}\setlength{\columnsep}{0.25in}",
}
BODY = "\n\\usepackage{booktabs,graphicx,siunitx}\n\\begin{document}\n\\input{table.tex}\n\\end{document}\n"


def test_numbers_are_aligned_by_siunitx_and_what_is_no_number_is_in_braces() -> None:
    rows = [line.split(" & ") for line in latex.one_table(TABLE, "x").splitlines() if line.endswith(r"\\")][1:]
    assert [row[1] for row in rows] == [
        r"\bfseries 1234.5{\,ms $\pm$\,3\,\%}",
        r"{\textbf{OOM}}",
        r"9.1{\,ms $^{+12}_{-1}$\,\%}",
    ]
    assert [row[2] for row in rows] == [r"1.2{$\times10^{-7}$} \\", r" \\", r"-0.3{} \\"]


def test_a_row_that_begins_with_a_bracket_is_no_option_of_the_line_before() -> None:
    assert "\n{}[x] & " in latex.one_table(TABLE, "x")


def test_each_table_is_a_file_with_a_caption_and_a_label() -> None:
    files = latex.files([TABLE, TABLE, Table("<i>", ("a",), ())])
    assert list(files) == ["time-forward.tex", "time-forward-2.tex", "i.tex"]
    assert r"\caption{Time: forward}\label{tab:time-forward-2}" in files["time-forward-2.tex"]
    assert all(text.startswith(r"% needs \usepackage{booktabs,graphicx,siunitx}") for text in files.values())


def test_a_table_that_is_too_wide_goes_on_below_under_its_first_column() -> None:
    wide = Table("Wide", ("method", *(f"N={i}" for i in range(20))), (("a", *["12.3 ms ±3%"] * 20),))
    text = latex.one_table(wide, "wide")
    assert text.count(r"\begin{tabular}{") == text.count("\na & ") > 1
    assert text.count("12.3{") == 20


def compiled(folder: Path, paper: str) -> str:
    """The log of pdflatex over a paper with the table; fails where there is no PDF."""
    (folder / f"{paper}.tex").write_text(PAPERS[paper] + BODY)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", f"{paper}.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / f"{paper}.pdf").stat().st_size > 10_000
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("replicates", [3, 5])
def test_no_table_of_a_run_is_wider_than_the_paper(tmp_path: Path, replicates: int, paper: str) -> None:
    made = Synthetic(replicates=replicates)
    write(tmp_path, Findings.of(made.run(), made.records()))
    log = compiled(tmp_path, paper)
    assert re.findall(r"Overfull \\hbox.*", log) == []
    assert "Undefined control sequence" not in log
