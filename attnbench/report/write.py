"""All files that a run folder gets besides its records; made from the records alone, and again at any time."""

from collections.abc import Iterator
from pathlib import Path

from attnbench.report import latex, long_table, markdown
from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.report.plots import plots
from attnbench.report.tables import tables


def write(folder: Path, findings: Findings) -> list[Path]:
    """Write table.csv, table.md, table.tex, index.html and <workload>/<plot>.{png,svg,pdf,txt}; the paths, in that order.

    Each file is replaced as a whole. Also for runs that are unfinished, failed or empty. Raises OSError.
    """
    return [_replaced(folder / name, content) for name, content in contents(findings)]


def contents(findings: Findings) -> Iterator[tuple[str, bytes]]:
    """Names relative to the folder, and bytes; all text is UTF-8, whatever the locale."""
    texts, run = tables(findings), findings.run
    yield "table.csv", long_table.csv(findings).encode()
    yield "table.md", markdown.markdown(texts, f"{run.suite.name}, run {run.id}").encode()
    yield "table.tex", latex.latex(texts).encode()
    yield "index.html", page([findings]).encode()
    for plot in plots(findings):
        for form, image in plot.images.items():
            yield f"{plot.workload.value}/{plot.kind}.{form}", image
        yield f"{plot.workload.value}/{plot.kind}.txt", plot.caption.encode()


def _replaced(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(content)
    partial.replace(file)
    return file
