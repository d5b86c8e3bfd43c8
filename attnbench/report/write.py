"""All files that a run folder gets besides its records; made from the records alone, and again at any time."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from attnbench.report.conditions import measured
from attnbench.report.figures.make import folder_files
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.headline import headline
from attnbench.report.page import page
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.store.files import write_within
from attnbench.store.run_folder import StoreError


def write(folder: Path, findings: Findings) -> list[Path]:
    """Write table.{csv,md,tex}, index.html, tables/<title>.tex and <workload>/<plot>.{png,svg,pdf,txt}; return the paths.

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
    """Yield names relative to the folder, and bytes; all text is UTF-8, whatever the locale."""
    texts, run = tables(findings), findings.run
    yield "table.csv", csv(findings).encode()
    yield (
        "table.md",
        markdown.markdown(texts, f"{run.suite.name}, run {run.id}", headline(findings), measured(findings)).encode(),
    )
    yield "table.tex", latex.latex(texts).encode()
    yield "index.html", page([findings]).encode()
    yield from ((f"tables/{name}", text.encode()) for name, text in latex.files(texts).items())
    yield from folder_files(findings).items()
