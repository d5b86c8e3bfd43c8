"""All files that a run folder gets besides its records; made from the records alone, and again at any time."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.report.questions.growth import long_form as long_table
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.store.files import write_within
from attnbench.store.run_folder import StoreError


def write(folder: Path, findings: Findings) -> list[Path]:
    """Write table.csv, table.md, table.tex, index.html and <workload>/<plot>.{png,svg,pdf,txt}; the paths, in that order.

    Each file is replaced as a whole. Also for runs that are unfinished, failed or empty. Raises StoreError.
    """
    files = []
    for name, content in contents(findings):
        try:
            files.append(write_within(folder, name, content))
        except OSError as error:
            again = f"attnbench report {shlex.quote(str(folder))}"
            raise StoreError(f"cannot write {error.filename}: {error.strerror}; the records are kept: {again}") from error
    return files


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
