"""`attnbench published`: what the suites say others printed, against what runs came to, as one page of Markdown."""

import sys
from collections.abc import Iterator
from pathlib import Path

from attnbench.cli.errors import UsageError
from attnbench.cli.outs import check_outs, write_outs
from attnbench.cli.reading import summaries
from attnbench.report.findings import Findings
from attnbench.report.questions.published.page import Shown, published_page
from attnbench.report.site.runs.kind import Kind, kind_of
from attnbench.report.text.names import ascii_only, one_line
from attnbench.schema.run import RunInfo
from attnbench.store.found_runs import find_runs
from attnbench.store.run_folder import RunFolder, StoreError
from attnbench.suite.load import load, shipped

_Found = tuple[RunFolder, RunInfo]


def show_published(runs: tuple[Path, ...], out: Path | None) -> None:
    """Print the page, or write it to a file; of several runs of one suite the newest counts. Raises UsageError, StoreError."""
    outs = () if out is None else (out,)
    check_outs(outs, ("md",))
    suites = [suite for name in shipped() if (suite := load(name).suite).published]
    newest = _newest(runs, {suite.name for suite in suites})
    text = published_page([Shown(suite, _findings(newest.get(suite.name))) for suite in suites])
    if out is None:
        unicode = "utf" in (sys.stdout.encoding or "ascii").lower()
        print(text if unicode else "\n".join(map(ascii_only, text.split("\n"))), end="")
    write_outs(outs, lambda _: text.encode())


def _newest(runs: tuple[Path, ...], wanted: set[str]) -> dict[str, _Found]:
    """By suite, the run that was started last."""
    found: dict[str, _Found] = {}
    for folder, info in sorted(_all(runs), key=lambda each: (each[1].started, each[1].id)):
        if info.suite.name in wanted and kind_of(info) is Kind.RUN:
            found[info.suite.name] = folder, info
    return found


def _all(runs: tuple[Path, ...]) -> Iterator[_Found]:
    """Every run at or below these folders; what cannot be read is said on stderr, and is an error where nothing else is."""
    for root in runs:
        if not root.is_dir():
            raise UsageError(f"{root}: no such folder; name run folders, or a folder of them, as results")
        readable = False
        for path in find_runs(root, lambda error: _left_out(Path(str(error.filename)), error.strerror or "cannot be read")):
            folder = RunFolder(path)
            try:
                info = folder.info()
            except StoreError as error:
                _left_out(path, str(error))
                continue
            readable = True
            yield folder, info
        if not readable:
            raise UsageError(f"{root} holds no run that can be read; name run folders, or a folder of them, as results")


def _left_out(path: Path, why: str) -> None:
    print(one_line(f"left out: {path}: {why}"), file=sys.stderr)


def _findings(found: _Found | None) -> Findings | None:
    if found is None:
        return None
    folder, info = found
    return Findings.over(info, summaries(folder, info))
