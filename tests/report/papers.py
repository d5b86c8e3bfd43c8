"""Papers that pdflatex makes, with columns of two widths."""

import subprocess
from pathlib import Path

# columns as wide as those of ICML, and one as wide as that of NeurIPS
ICML = r"""\documentclass[10pt,twocolumn]{article}
\usepackage[papersize={8.5in,11in},textwidth=6.75in,textheight=9.3in]{geometry}
\setlength{\columnsep}{0.25in}
"""
NEURIPS = r"""\documentclass[10pt]{article}
\usepackage[papersize={8.5in,11in},textwidth=5.5in,textheight=9.3in]{geometry}
"""
PACKAGES = r"\usepackage{booktabs,graphicx,siunitx}"


def compiled(folder: Path, head: str, body: str) -> str:
    """The log of pdflatex; fails where there is no PDF with something in it."""
    (folder / "paper.tex").write_text(f"{head}\n\\begin{{document}}\n{body}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert (folder / "paper.pdf").stat().st_size > 10_000
    assert "Undefined control sequence" not in done.stdout
    return done.stdout
