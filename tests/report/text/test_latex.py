"""Tables go into a paper as they are: numbers aligned, names escaped; the real tool sets them in two kinds of paper."""

import re
import subprocess
from pathlib import Path

import pytest

from attnbench.report.text import latex
from attnbench.report.text.table import Table
from attnbench.report.write import write
from tests.report.conftest import Synthetic
from tests.report.drawn import found

TABLE = Table(
    "Time: forward",
    ("method", "time per sample", "scaled"),
    (("a_b", "1,234.5 ms ±3%", "1.2e-07"), ("[x]", "OOM", ""), ("c", "9.1 ms (-1 +12%)", "-0.3")),
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
    text = latex.one_table(TABLE, "x")
    rows = [line.split(" & ") for line in text.splitlines() if line.endswith(r"\\")][1:]
    assert [row[1] for row in rows] == [
        r"\bfseries 1234.5{\,ms $\pm$\,3\,\%}",
        r"{\textbf{OOM}}",
        r"9.1{\,ms $^{+12}_{-1}$\,\%}",
    ]
    assert [row[2] for row in rows] == [r"1.2{$\times10^{-7}$} \\", r" \\", r"-0.3{} \\"]
    # a row that begins with a bracket is no option of the line before
    assert "\n{}[x] & " in text


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


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("replicates", [3, 5])
def test_no_table_of_a_run_is_wider_than_the_paper(tmp_path: Path, replicates: int, paper: str) -> None:
    write(tmp_path, found(Synthetic(replicates=replicates)))
    (tmp_path / f"{paper}.tex").write_text(PAPERS[paper] + BODY)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", f"{paper}.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / f"{paper}.pdf").stat().st_size > 10_000
    assert re.findall(r"Overfull \\hbox.*", done.stdout) == []
    assert "Undefined control sequence" not in done.stdout
