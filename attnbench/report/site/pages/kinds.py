"""The pages of each kind of run, and the card that leads to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnbench.analyze.limits import Limit
from attnbench.analyze.selfcheck import Calibration, calibrate
from attnbench.report.findings import Findings
from attnbench.report.headline.sentence import headline
from attnbench.report.page import page
from attnbench.report.questions.growth import long_form as long_table
from attnbench.report.questions.limits.table import limits_csv, limits_tables
from attnbench.report.questions.selfcheck.notes import about, subject
from attnbench.report.questions.selfcheck.table import tables as selfcheck_tables
from attnbench.report.site.pages.picture import Picture, picture
from attnbench.report.site.pages.tables import Sheet, tables_page
from attnbench.report.site.pages.thumbnail import thumbnail
from attnbench.report.site.runs.addresses import INDEX
from attnbench.report.site.runs.shelf import Link, Shelf
from attnbench.report.site.runs.survey import Found
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.counts import cells
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import percent
from attnbench.report.text.table import Table
from attnbench.schema.run import RunInfo
from attnbench.store import selfcheck_plan
from attnbench.store.run_folder import RunFolder

_LIMITS = 6
LimitsOf = Callable[[RunInfo, RunFolder], list[Limit]]
"""What the records of a search come to."""


@dataclass(frozen=True)
class Made:
    """The page of a run, the tables beside it, and what the index says of it."""

    page: Link
    tables: tuple[Link, ...]
    words: tuple[str, ...]
    cells: str = ""
    picture: Picture | None = None


Write = Callable[[Shelf], Made]
"""Of a run that was read."""


def of_run(found: Found) -> Write:
    """A sweep over methods and lengths. Reads it; raises StoreError, ValueError, OverflowError."""
    folder = RunFolder(found.path)
    findings = Findings.of(folder.info(), folder.read())
    return lambda shelf: write_run(findings, shelf)


def write_run(findings: Findings, shelf: Shelf) -> Made:
    """Its page and its tables."""
    texts, run = tables(findings), findings.run
    shown = thumbnail(findings)
    return Made(
        page=shelf.write(INDEX, page([findings], shelf.home)),
        tables=(
            shelf.write("table.csv", long_table.csv(findings)),
            shelf.write("table.md", markdown.markdown(texts, f"{run.suite.name}, run {run.id}")),
            shelf.write("table.tex", latex.latex(texts)),
        ),
        words=tuple(one_line(line) for line in headline(findings).splitlines() if line.strip()),
        cells=cells(findings.summaries),
        picture=picture(shown) if shown else None,
    )


def of_limits(found: Found, limits_of: LimitsOf) -> Write:
    """A search for the longest sequence, or the largest batch. Raises as `of_run`."""
    folder = RunFolder(found.path)
    info = folder.info()
    findings, limits = Findings.of(info, ()), limits_of(info, folder)
    return lambda shelf: _write_limits(findings, limits, shelf)


def _write_limits(findings: Findings, limits: list[Limit], shelf: Shelf) -> Made:
    texts, run = limits_tables(findings, limits), findings.run
    title = f"{run.suite.name}, run {run.id}"
    return Made(
        page=shelf.write(INDEX, tables_page(Sheet(title, (run.suite.source,), tuple(texts), shelf.home))),
        tables=(
            shelf.write("maxlen.csv", limits_csv(findings, limits)),
            shelf.write("maxlen.md", markdown.markdown(texts, title)),
            shelf.write("maxlen.tex", latex.latex(texts)),
        ),
        words=tuple(_largest(table) for table in texts),
    )


def _largest(table: Table) -> str:
    """`Largest N that fits: forward, causal, float32: linear.chunked 1,048,576; softmax.naive 6,144`."""
    some = "; ".join(f"{row[0]} {row[3]}" for row in table.rows[:_LIMITS])
    more = f"; and {len(table.rows) - _LIMITS} more" if len(table.rows) > _LIMITS else ""
    return one_line(f"{table.title}: {some}{more}.")


def of_selfcheck(found: Found) -> Write:
    """One method under two names. Raises as `of_run`."""
    folder, plan = RunFolder(found.path), selfcheck_plan.recall(found.path)
    info, calibration = folder.info(), calibrate(plan, folder.records(), plan.margin)
    return lambda shelf: _write_selfcheck(calibration, info, shelf)


def _write_selfcheck(found: Calibration, info: RunInfo, shelf: Shelf) -> Made:
    texts = selfcheck_tables(found, info)
    title = f"selfcheck of {subject(found.plan)}"
    return Made(
        page=shelf.write(INDEX, tables_page(Sheet(title, (), tuple(texts), shelf.home))),
        tables=(shelf.write("selfcheck.md", markdown.markdown(texts, title)),),
        words=(about(found), *_floor(found.floor)),
    )


def _floor(floor: Sequence[tuple[int, float]]) -> list[str]:
    found = ", ".join(f"+{percent(effect)} with {replicates} a side" for replicates, effect in floor)
    return [f"Found nine times in ten: {found}."] if found else []
