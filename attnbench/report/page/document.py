"""The page as a document: what stands in it, in which order; everything but the charts is in the HTML itself."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from attnbench.analyze.cells import NOT_RUN, OK
from attnbench.analyze.sections import Section
from attnbench.report import conditions
from attnbench.report.conditions import short_machine
from attnbench.report.findings import Findings
from attnbench.report.headline.sentence import headline
from attnbench.report.page import assets
from attnbench.report.page.appearance import variables
from attnbench.report.page.board import Board
from attnbench.report.page.charts.columns import Column, columns
from attnbench.report.page.charts.payload import dumps, payload
from attnbench.report.page.drawings import Drawn, drawings
from attnbench.report.page.run_names import moment
from attnbench.report.page.tables import facts
from attnbench.report.page.tables.cells import CellTable, cell_table
from attnbench.report.page.tables.crossovers import crossover_of
from attnbench.report.page.tables.failures import FailureMap, failure_map
from attnbench.report.page.tables.learning import learning_tables
from attnbench.report.questions.fidelity.tables import score_summary
from attnbench.report.questions.growth.summary import summary_table
from attnbench.report.questions.learning.generation import generate_tables
from attnbench.report.questions.learning.table import train_tables
from attnbench.report.questions.published.table import published_tables
from attnbench.report.text.html import table_html
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.version import __version__

_SUMMARIES: Mapping[Workload, Callable[[Findings, Section], list[Table]]] = {
    **{each: lambda findings, section: [score_summary(findings, section)] for each in Workload if not each.is_timed},
    Workload.TRAIN: train_tables,
    Workload.GENERATE: generate_tables,
}
"""Of those that are told in columns of their own."""
_LONG = 20
"""Rows of a table."""


@dataclass(frozen=True)
class _Shown:
    """A table of one run; the run is named where there are several, and so is the table."""

    run: str
    grid: Markup
    notes: tuple[str, ...]
    long: bool
    """Whether it scrolls in a box of its own."""


@dataclass(frozen=True)
class _Group:
    """All that stands in the page for one group."""

    number: int
    title: str
    summaries: tuple[_Shown, ...]
    crossovers: tuple[_Shown, ...]
    curves: tuple[_Shown, ...]
    drawings: tuple[Drawn, ...]
    failures: FailureMap


@dataclass(frozen=True)
class _Run:
    """One run at the head of the page."""

    name: str
    sentence: str
    about: str
    notes: tuple[str, ...]
    again: facts.Again


@dataclass(frozen=True)
class _Page:
    title: str
    policy: str
    style: Markup
    early: Markup
    libraries: tuple[Markup, ...]
    script: Markup
    data: Markup
    suites: str
    runs: tuple[_Run, ...]
    first: int
    groups: tuple[_Group, ...]
    published: tuple[_Shown, ...]
    has_loss: bool
    has_roof: bool
    cells: CellTable
    count: int
    environment: Markup
    methods: Markup
    version: str = __version__


def page(runs: Sequence[Findings], home: str | None = None) -> str:
    """HTML of one file, for one run or several side by side; needs no network, and whatever is in a name is inert.

    Where it is one of many, `home` is the address of what lists them, relative to it.
    """
    # names, reasons and machines come from users: all that is not in the template or marked below is escaped, and on one line
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_plain)
    return environment.from_string(assets.asset("page.html")).render(page=_page(Board(tuple(runs))), home=home)


def _plain(value: object) -> object:
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _page(board: Board) -> _Page:
    found = columns(board)
    data, cells = payload(board, found), cell_table(board, found)
    notes = [tuple(facts.notes(findings)) for findings in board.runs]
    return _Page(
        title=_title(board),
        policy=assets.policy(),
        style=_style(board, cells),
        early=_trusted(assets.early()),
        libraries=tuple(_trusted(assets.library(name)) for name in assets.LIBRARIES),
        script=_trusted(assets.script()),
        data=_trusted(dumps(data)),
        suites=", ".join(dict.fromkeys(findings.run.suite.name for findings in board.runs)),
        runs=tuple(_run(*each) for each in zip(board.runs, board.names, notes, strict=True)),
        first=board.first,
        groups=tuple(_group(board, number, notes) for number in range(len(board.groups))),
        published=tuple(_published(board)),
        has_loss=_has_pairs(found, data["pairs"]),
        has_roof=bool(data["roofline"]["rate"]),
        cells=cells,
        count=len(board.places),
        environment=table_html(facts.environment(board)),
        methods=table_html(facts.methods(board)),
    )


def _style(board: Board, cells: CellTable) -> Markup:
    """Colours of the methods, columns of text, and all the rest, which is the same for every page."""
    texts = ",".join(f":nth-child({place})" for place, head in enumerate(cells.heads, 1) if head.is_text)
    own = f":root{{{variables(board.looks.values())}}}\n#cells-table :is({texts}):is(th,td){{text-align:left}}"
    return _trusted(f"{assets.asset('page.css')}{own}\n")


def _trusted(text: str) -> Markup:
    """Files of ours, and JSON that holds no markup."""
    return Markup(text)  # noqa: S704


def _title(board: Board) -> str:
    suites = ", ".join(dict.fromkeys(findings.run.suite.name for findings in board.runs))
    if len(board.runs) == 1:
        return f"{suites}, run {one_line(board.runs[0].run.id)}"
    return f"{suites}: {len(board.runs)} runs"


def _has_pairs(found: Sequence[Column], pairs: Sequence[object]) -> bool:
    return bool(pairs) and any(column.quantity.cost for column in found)


def _run(findings: Findings, name: str, notes: tuple[str, ...]) -> _Run:
    run = findings.run
    about = [short_machine(findings), moment(run), _counts(findings), _replicates(findings)]
    return _Run(name, headline(findings), " · ".join(filter(None, about)), notes, facts.again(findings))


def _counts(findings: Findings) -> str:
    """`24 cells: 20 measured, 4 failed`."""
    statuses = Counter(summary.status for summary in findings.summaries)
    ok, not_run = statuses[OK], statuses[NOT_RUN]
    failed = statuses.total() - ok - not_run
    parts = [f"{ok} measured", *([f"{failed} failed"] if failed else []), *([f"{not_run} not run"] if not_run else [])]
    return f"{statuses.total():,} cells: {', '.join(parts)}"


def _replicates(findings: Findings) -> str:
    """`3 replicates a cell`, or `2 to 3`; empty where nothing was measured."""
    counts = sorted({summary.replicates for summary in findings.summaries if summary.ok})
    if not counts:
        return ""
    several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    return f"{several} replicate{'' if counts == [1] else 's'} a cell"


def _group(board: Board, number: int, notes: Sequence[tuple[str, ...]]) -> _Group:
    group, summaries, crossovers = board.groups[number], list[_Shown](), list[_Shown]()
    curves, drawn = list[_Shown](), list[Drawn]()
    for run, section in group.members:
        findings, name = board.runs[run], _run_name(board, run)
        elsewhere = _elsewhere(findings, section) | {*notes[run]}
        tables = _SUMMARIES.get(section.workload, _summary)(findings, section)
        summaries += _all_shown(name, tables, elsewhere)
        curves += _all_shown(name, learning_tables(findings, section), elsewhere, titled=True)
        drawn += [replace(each, name=", ".join(filter(None, (each.name, name)))) for each in drawings(findings, section)]
        if crossover := crossover_of(findings, section):
            crossovers.append(_shown(name, crossover, elsewhere))
    return _Group(
        number=number,
        title=group.title,
        summaries=tuple(summaries),
        crossovers=tuple(crossovers),
        curves=tuple(curves),
        drawings=tuple(drawn),
        failures=failure_map(board, number),
    )


def _summary(findings: Findings, section: Section) -> list[Table]:
    return [summary_table(findings, section)]


def _run_name(board: Board, run: int) -> str:
    """Empty of a run that is alone."""
    return board.names[run] if len(board.runs) > 1 else ""


def _published(board: Board) -> Iterator[_Shown]:
    """What others printed, run by run, beside what was measured."""
    for run, findings in enumerate(board.runs):
        yield from _all_shown(_run_name(board, run), published_tables(findings), set())


def _all_shown(name: str, tables: Sequence[Table], elsewhere: set[str], *, titled: bool = False) -> list[_Shown]:
    """Each with its title where there are several."""
    titles = [table.title if titled or len(tables) > 1 else "" for table in tables]
    names = [", ".join(filter(None, (name, title))) for title in titles]
    return [_shown(each, table, elsewhere) for each, table in zip(names, tables, strict=True)]


def _shown(name: str, table: Table, elsewhere: set[str]) -> _Shown:
    """Without the notes that the page has elsewhere."""
    notes = tuple(note for note in table.notes if note not in elsewhere)
    return _Shown(name, table_html(table), notes, len(table.rows) > _LONG)


def _elsewhere(findings: Findings, section: Section) -> set[str]:
    """Reasons stand beside the map of failures, conditions at the end of the page."""
    told = {*reasons(section.summaries), *conditions.conditions(findings, section.summaries)}
    return told | {*conditions.replication(section.summaries), *conditions.memory_notes(findings, section.summaries)}
