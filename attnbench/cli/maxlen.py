"""`attnbench maxlen`: the largest length, or the largest batch, that fits; searched for, or read from an earlier search."""

import sys
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.limits import Limit, limits
from attnbench.cli.outs import TABLES, check_outs, write_outs
from attnbench.executors.local import MOST_ROWS
from attnbench.report.findings import Findings
from attnbench.report.questions.limits.table import limits_csv, limits_tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.names import ascii_only
from attnbench.report.text.plain import plain
from attnbench.schema.cell import Batch
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder
from attnbench.suite.load import shipped


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    what: tuple[str, ...]
    """A suite, methods, both, or the folder of an earlier search."""
    methods: tuple[str, ...]
    memory: str | None
    limit: str
    batch: bool
    impls: tuple[str, ...]
    device: str | None
    results: Path
    outs: tuple[Path, ...]
    fresh: bool
    wait: bool = True
    """Whether another run that measures on the device is waited for."""


def maxlen(options: Options) -> None:
    """Print a table a section, write what was asked for. Raises UsageError, SuiteError, ScoutError, StoreError.

    Exits with 130 or 143 when a search is interrupted, after saving.
    """
    check_outs(options.outs, TABLES)
    folder = _stored(options) or _measured(options)
    run = folder.info()
    findings, found = Findings.of(run, ()), limits_of(run, folder)
    text = plain(limits_tables(findings, found))
    print(text if "utf" in (sys.stdout.encoding or "ascii").lower() else ascii_only(text))
    write_outs(options.outs, lambda form: form_of(findings, found, form))


def limits_of(run: RunInfo, folder: RunFolder) -> list[Limit]:
    """What the records of a search come to."""
    batches = any(cell.batch is Batch.LARGEST for cell in run.cells)
    return limits(run.cells, folder.read(), MOST_ROWS if batches else max(run.suite.axes.N))


def form_of(findings: Findings, found: list[Limit], form: str) -> bytes:
    """Markdown, LaTeX or CSV."""
    if form == "csv":
        return limits_csv(findings, found).encode()
    tables, run = limits_tables(findings, found), findings.run
    text = markdown.markdown(tables, f"{run.suite.name}, run {run.id}") if form == "md" else latex.latex(tables)
    return text.encode()


def _stored(options: Options) -> RunFolder | None:
    """An earlier search, where a folder is named and no suite of that name ships."""
    first, *others = options.what
    if others or not Path(first).is_dir() or first in shipped():
        return None
    return RunFolder(Path(first))


def _measured(options: Options) -> RunFolder:
    # what measures need not be imported to read a run
    from attnbench.cli.maxlen_live import measure

    return measure(options)
