"""The pages of each kind of run with the tables beside them, what the index says of it, and the trends."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.limits import Limit
from attnbench.analyze.points import points
from attnbench.analyze.quantities import MEMORY, TIME
from attnbench.analyze.selfcheck import calibrate
from attnbench.analyze.trend import look, quantity_called
from attnbench.analyze.verdict import LEVEL, MARGIN
from attnbench.report import frame
from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.page import page
from attnbench.report.questions.comparison.judgement import judge_runs
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table
from attnbench.report.questions.limits import limits_csv, limits_tables
from attnbench.report.questions.selfcheck.table import about, subject
from attnbench.report.questions.selfcheck.table import tables as selfcheck_tables
from attnbench.report.questions.trend.page import page as trend_page
from attnbench.report.questions.trend.words import conclusion
from attnbench.report.site.picture import Picture, picture
from attnbench.report.site.runs import Found, Kind, Members
from attnbench.report.site.shelf import INDEX, TREND, Link, Shelf
from attnbench.report.site.templates import tables_page
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.numbers import percent
from attnbench.report.text.statuses import cells
from attnbench.report.text.table import Table
from attnbench.schema.history import Entry
from attnbench.schema.run import RunInfo
from attnbench.schema.units import counted
from attnbench.store.index import Index
from attnbench.store.run_folder import RunFolder

_LIMITS = 6
_COMPARISON = "Comparison of two commits"
_MARGIN = re.compile(r"--margin[ =](\d+(?:\.\d+)?|\.\d+)(%?)(?!\S)")
_MOST = 10
"""The largest margin that a comparison may have had."""
LimitsOf = Callable[[RunInfo, RunFolder], list[Limit]]
"""What the records of a search come to."""


@dataclass(frozen=True)
class Made:
    """The page of a run, the tables beside it, and what the index says of it."""

    page: Link
    tables: tuple[Link, ...]
    words: tuple[str, ...]
    """What came out, a paragraph each."""
    cells: str = ""
    picture: Picture | None = None


def made(members: Members, shelves: Mapping[str, Shelf], limits_of: LimitsOf) -> Made:
    """Read a run, or both sides of a comparison, and write its pages and tables to its shelf.

    Reading raises StoreError, ValueError or OverflowError, before anything is written; writing raises OSError.
    """
    newest = members[-1]
    shelf = shelves[newest.place]
    if len(members) > 1:
        return _of_comparison(_findings(members[0]), _findings(newest), shelves[members[0].place], shelf)
    if newest.kind is Kind.LIMITS:
        return _of_limits(newest, shelf, limits_of)
    if newest.kind is Kind.SELFCHECK:
        return _of_selfcheck(newest, shelf)
    alone = ["The other side of this comparison is not here."] if newest.kind is Kind.COMPARISON else []
    return _of_run(_findings(newest), shelf, *alone)


def _findings(found: Found) -> Findings:
    folder = RunFolder(found.path)
    refused = list[str]()
    return Findings.of(folder.info(), folder.read(refused.append), refused)


def _texts(shelf: Shelf, name: str, title: str, csv: str, tables: Sequence[Table]) -> tuple[Link, ...]:
    """Write tables as three files."""
    return (
        shelf.write(f"{name}.csv", csv),
        shelf.write(f"{name}.md", markdown.markdown(tables, title)),
        shelf.write(f"{name}.tex", latex.latex(tables)),
    )


def _of_run(findings: Findings, shelf: Shelf, *more: str) -> Made:
    """Write a sweep over methods and lengths."""
    run = findings.run
    return Made(
        page=shelf.write(INDEX, page([findings], shelf.home)),
        tables=_texts(shelf, "table", f"{run.suite.name}, run {run.id}", frame.csv(findings), tables(findings)),
        words=(headline(findings), *more),
        cells=cells(findings.summaries),
        picture=picture(findings),
    )


def _of_limits(found: Found, shelf: Shelf, limits_of: LimitsOf) -> Made:
    """Write a search for the longest sequence, or the largest batch."""
    folder = RunFolder(found.path)
    info = folder.info()
    limits = limits_of(info, folder)
    grids, title, words = limits_tables(info, limits), f"{info.suite.name}, run {info.id}", []
    for table in grids:
        some = "; ".join(f"{row[0]} {row[3]}" for row in table.rows[:_LIMITS])
        more = f"; and {len(table.rows) - _LIMITS} more" if len(table.rows) > _LIMITS else ""
        words.append(f"{table.title}: {some}{more}.")
    return Made(
        page=shelf.write(INDEX, tables_page(title, [info.suite.source], grids, shelf.home)),
        tables=_texts(shelf, "maxlen", title, limits_csv(info, limits), grids),
        words=tuple(words),
    )


def _of_selfcheck(found: Found, shelf: Shelf) -> Made:
    """Write how one method under two names came out."""
    folder = RunFolder(found.path)
    plan = folder.plan()
    info, calibration = folder.info(), calibrate(plan, folder.records(), plan.margin)
    grids, title = selfcheck_tables(calibration, info), f"selfcheck of {subject(plan)}"
    floor = ", ".join(f"+{percent(effect)} with {replicates} a side" for replicates, effect in calibration.floor)
    return Made(
        page=shelf.write(INDEX, tables_page(title, [], grids, shelf.home)),
        tables=(shelf.write("selfcheck.md", markdown.markdown(grids, title)),),
        words=(about(calibration), *([f"Found nine times in ten: {floor}."] if floor else [])),
    )


def _of_comparison(old: Findings, new: Findings, older: Shelf, shelf: Shelf) -> Made:
    """Write both sides of a comparison as runs, each to its own shelf, and the judgement between them."""
    judgement = judge_runs(old, new, margin_of(new.run.command), LEVEL)
    table = comparison_table(judgement)
    terms = f"As attnbench compare judges the two, with a margin of {percent(judgement.terms.margin)}."
    return Made(
        page=shelf.write("comparison.html", tables_page(_COMPARISON, [terms], [table], shelf.home)),
        tables=(
            Link(_of_run(new, shelf).page.href, "the new side"),
            Link(_of_run(old, older).page.href, "the old side"),
            *_texts(shelf, "comparison", _COMPARISON, comparison_csv(judgement), [table]),
        ),
        words=(f"{judgement.names[1]} against {judgement.names[0]}: {judgement.conclusion}.", terms),
    )


def margin_of(command: str) -> float:
    """Return the margin that a command line asked for; the usual one where it said nothing, or nothing that is a share."""
    match = _MARGIN.search(command)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    return share if 0 < share <= _MOST else MARGIN


def write_trend(runs: Sequence[Found], shelf: Shelf) -> tuple[Link, str]:
    """Write the trend of two or more runs: of time, or of memory where nothing was timed. Return a link, and the conclusion."""
    with Index(None) as index:
        for found in runs:
            folder = RunFolder(found.path)
            info = folder.info()
            summary = points(info, folder.read())
            index.add(Entry.of(found.place, info, summary), summary.points)
        timed = TIME in index.quantities() or MEMORY not in index.quantities()
        quantity = quantity_called(TIME if timed else MEMORY)
        entries, tracks = index.entries(), index.tracks(lambda *_: True, quantity.name)
    trends = look(entries, tracks, quantity, MARGIN)
    link = shelf.write(TREND, trend_page(trends))
    words = f"Trend of {quantity.title} over {counted(len(runs), 'run')}"
    return Link(link.href, words), f"{conclusion(trends)}."
