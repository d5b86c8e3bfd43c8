"""`attnbench trend`: when the cells of a history changed, as a table, a page and a picture."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from attnbench.analyze import trend as analysis
from attnbench.analyze.gate import Exit
from attnbench.analyze.trend import Metric, Trends
from attnbench.cli.errors import UsageError
from attnbench.cli.history import look
from attnbench.cli.outs import write_out
from attnbench.report.questions.trend.console import console
from attnbench.report.questions.trend.json import trend_json
from attnbench.schema.cell import Cell
from attnbench.schema.history import Entry
from attnbench.store.indexed import Found

_PICTURES = ("png", "svg", "pdf")
_REGRESSION = "regression"


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    history: str
    suite: str | None
    method: str | None
    metric: str
    margin: float
    since: str | None
    html: Path | None
    png: Path | None
    json: Path | None
    fail_on: str | None


def show_trend(options: Options) -> None:
    """Print changes, write what was asked for; exits with 1 where that was asked for and something got worse.

    Raises UsageError, StoreError.
    """
    metric, since = _metric(options.metric), _since(options.since)
    form = _form(options.png)
    if options.fail_on not in {None, _REGRESSION}:
        raise UsageError(f"--fail-on {options.fail_on}: write --fail-on {_REGRESSION}")
    found = look(options.history, lambda suite, cell: _wanted(options, suite, cell))
    _refuse_nothing(options, found)
    trends = analysis.look(found.entries, found.tracks, metric, options.margin, since)
    print(console(trends, unicode="utf" in (sys.stdout.encoding or "").lower()))
    _write(options, trends, form)
    if options.fail_on and trends.regressed:
        sys.exit(Exit.REGRESSION)


def _metric(text: str) -> Metric:
    try:
        return Metric(text)
    except ValueError:
        raise UsageError(f"--metric {text}: one of {', '.join(Metric)}") from None


def _since(text: str | None) -> str:
    """As runs say when they were started."""
    if text is None:
        return ""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text}: write a date as 2026-01-31, or a time as 2026-01-31T12:00") from None


def _form(png: Path | None) -> str:
    form = png.suffix.removeprefix(".").lower() if png else _PICTURES[0]
    if form not in _PICTURES:
        raise UsageError(f"--png {png}: a picture is .png, .svg or .pdf")
    return form


def _wanted(options: Options, suite: str, cell: Cell) -> bool:
    names = (cell.method, cell.label)
    return (options.suite in {None, suite}) and (
        options.method is None or any(fnmatchcase(name, options.method) for name in names)
    )


def _refuse_nothing(options: Options, found: Found) -> None:
    """A suite or method that is not there is a slip; a history without points is not."""
    suites = sorted({entry.suite for entry in found.entries if not entry.problem})
    if options.suite is not None and options.suite not in suites:
        raise UsageError(f"--suite {options.suite}: {_has(options.suite, suites)}")
    if options.method is not None and not found.tracks:
        raise UsageError(f"--method {options.method}: {_has(options.method, _methods(options, found.entries))}")


def _methods(options: Options, entries: Iterable[Entry]) -> list[str]:
    return sorted({method for entry in entries if options.suite in {None, entry.suite} for method in entry.methods})


def _has(name: str, known: list[str]) -> str:
    meant = get_close_matches(name, known, n=1)
    return f"{f'did you mean {meant[0]!r}? ' if meant else ''}the history has: {', '.join(known) or 'none'}"


def _write(options: Options, trends: Trends, form: str) -> None:
    if options.html is not None:
        # jinja2 and matplotlib are imported only where they are needed
        from attnbench.report.questions.trend.page import page

        write_out(options.html, page(trends).encode(), "--html")
    if options.png is not None:
        from attnbench.report.questions.trend.figure import image

        write_out(options.png, image(trends, form), "--png")
    if options.json is not None:
        write_out(options.json, trend_json(trends).encode(), "--json")
