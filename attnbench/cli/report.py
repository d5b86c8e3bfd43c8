"""`attnbench report`: tables, plots and the page from the records of run folders; of several runs also a page of them all."""

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench.cli.errors import UsageError
from attnbench.cli.outs import write_out
from attnbench.cli.reading import summaries
from attnbench.store.run_folder import RunFolder

if TYPE_CHECKING:
    from attnbench.report.findings import Findings

COMMON_PAGE = Path("report.html")


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    runs: tuple[Path, ...]
    out: Path | None = None
    opens: bool = False
    """Whether the page is shown in the browser."""


def report(options: Options) -> None:
    """Write everything again and say which files; of several runs, or where a file is named, also one page of them all.

    Raises StoreError, and UsageError where the page cannot be written.
    """
    out = options.out or (COMMON_PAGE if len(options.runs) > 1 else None)
    _check(out)
    made = [_remade(RunFolder(run)) for run in options.runs]
    for _, files in made:
        print(*files, sep="\n")
    page = _common(out, [findings for findings, _ in made]) if out else options.runs[0] / "index.html"
    if options.opens:
        _open(page)


def make_report(folder: RunFolder) -> list[Path]:
    """Write everything, print the summary."""
    return _remade(folder)[1]


def _remade(folder: RunFolder) -> "tuple[Findings, list[Path]]":
    # pandas and matplotlib take seconds to import; a run that is only starting need not wait for them
    from attnbench.report import console, write
    from attnbench.report.findings import Findings

    run = folder.info()
    findings = Findings.over(run, summaries(folder, run))
    files = write.write(folder.path, findings)
    encoding = (sys.stdout.encoding or "ascii").lower()
    print(console.summary(findings, unicode="utf" in encoding))
    return findings, files


def _check(out: Path | None) -> None:
    """Before anything is read."""
    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--out {out}: the page of the runs is one HTML file; its name must end in .html")


def _common(out: Path, runs: "list[Findings]") -> Path:
    from attnbench.report.page import page

    write_out(out, page(runs).encode())
    return out


def _open(page: Path) -> None:
    """What cannot be opened is said, and is no error: the file is there."""
    if not webbrowser.open(page.resolve().as_uri()):
        print(f"no browser could be started; open {page}", file=sys.stderr)
