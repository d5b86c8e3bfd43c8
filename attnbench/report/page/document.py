"""The page as a document: what stands in it, in which order; everything but the charts is in the HTML itself."""

from collections.abc import Sequence
from functools import cache
from importlib import resources

from attnbench.analyze.quantities import Center
from attnbench.report.conditions import measured, short_machine
from attnbench.report.findings import Findings
from attnbench.report.headline import headline
from attnbench.report.page import parts
from attnbench.report.page.board import Board, moment
from attnbench.report.page.columns import columns
from attnbench.report.page.payload import dumps, payload, variables
from attnbench.report.questions.published.table import published_tables
from attnbench.report.tables import summaries
from attnbench.report.text.html import digest, rendered, table_html, trusted
from attnbench.report.text.statuses import cells, reasons
from attnbench.report.text.table import Table
from attnbench.schema.units import counted
from attnbench.version import __version__

_LONG = 20
"""Rows from which on a table scrolls in a box of its own."""
LIBRARIES = ("d3.min.js", "plot.umd.min.js")
"""The files of others, in the order in which they are needed."""
SCRIPTS = ("data.js", "view.js", "chart.js", "growth.js", "weighing.js", "controls.js", "table.js", "main.js")
EARLY = "early.js"
_POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""The page's own scripts run and no other, and nothing is fetched."""
Context = dict[str, object]


def page(runs: Sequence[Findings], home: str | None = None) -> str:
    """Return HTML of one file, for one run or several side by side; needs no network, and whatever is in a name is inert.

    Where it is one of many, `home` is the address of what lists them, relative to it.
    """
    board = Board(tuple(runs))
    found = columns(board)
    data, every_cell = payload(board, found), parts.cell_table(board, found)
    suites = ", ".join(dict.fromkeys(findings.run.suite.name for findings in runs))
    # why cells failed is told with the map of failures
    members = [member for group in board.groups for member in group.members]
    why = tuple(line for run, section in members for line in reasons(section.summaries, runs[run].names))
    notes = [[line for line in measured(findings) if not line.endswith(why)] for findings in runs]
    published = [(run, table) for run, findings in enumerate(runs) for table in published_tables(findings)]
    # columns of text in the table of all cells begin at the left
    texts = ",".join(f":nth-child({place})" for place, (_, _, is_text) in enumerate(every_cell["heads"], 1) if is_text)
    aligned = f"#cells-table :is({texts}):is(th,td){{text-align:left}}\n"
    early, *libraries, script = scripts()
    context: Context = {
        "title": f"{suites}: {len(runs)} runs" if len(runs) > 1 else f"{suites}, run {runs[0].run.id}",
        "suites": suites,
        "version": __version__,
        "policy": _POLICY.format(hashes=" ".join(map(digest, scripts()))),
        "style": trusted(f"{_file('assets/page.css')}:root{{{variables(board.looks.values())}}}\n{aligned}"),
        "early": trusted(early),
        "libraries": [trusted(each) for each in libraries],
        "script": trusted(script),
        "data": trusted(dumps(data)),
        "runs": [_run(findings, name, own) for findings, name, own in zip(runs, board.names, notes, strict=True)],
        "first": board.first,
        "groups": [_group(board, number, notes) for number in range(len(board.groups))],
        "published": [_shown(board, run, table) for run, table in published],
        "has_loss": any(each["fronts"] for each in data["pairs"]),
        "has_quality": any(column.quantity.center is Center.SUMS for column in found),
        "has_roof": bool(data["roofline"]["rate"]),
        "cells": every_cell,
        "count": counted(len(board.places), "cell"),
        "environment": table_html(parts.environment(board)),
        "methods": table_html(parts.methods(board)),
    }
    return rendered("attnbench.report.page", "assets/page.html", page=context, home=home)


@cache
def _file(path: str) -> str:
    """Return the text of a file that every page is put together from."""
    return (resources.files(__package__) / path).read_text(encoding="utf-8")


@cache
def scripts() -> tuple[str, ...]:
    """Return what runs before anything is drawn, so that nothing flickers; the files of others; and all of ours as one.

    Ours leave no name of theirs to the page.
    """
    ours = "".join(f"{_file(f'assets/{name}')}\n" for name in SCRIPTS)
    early, late = (f'"use strict";(()=>{{\n{text}}})();' for text in (_file(f"assets/{EARLY}"), ours))
    return early, *(_file(f"vendor/{name}") for name in LIBRARIES), late


def _run(findings: Findings, name: str, notes: list[str]) -> Context:
    """Return what is said of a run at the head of the page, and below how it was measured and is made again."""
    replicates = sorted({summary.replicates for summary in findings.summaries if summary.ok})
    several = " to ".join(map(str, dict.fromkeys((replicates[0], replicates[-1])))) if replicates else ""
    about = [
        short_machine(findings),
        moment(findings.run),
        cells(findings.summaries),
        f"{several} replicate{'' if replicates == [1] else 's'} a cell" if replicates else "",
    ]
    return {
        "name": name,
        "sentence": headline(findings),
        "about": " · ".join(filter(None, about)),
        "notes": notes,
        "again": parts.again(findings.run),
    }


def _group(board: Board, number: int, notes: Sequence[list[str]]) -> Context:
    group = board.groups[number]
    told, crossings, curves, drawn = list[Context](), list[Context](), list[Context](), list[Context]()
    for run, section in group.members:
        findings, elsewhere = board.runs[run], notes[run]
        several = summaries(findings, section)
        told += [_shown(board, run, table, elsewhere, title=table.title if len(several) > 1 else "") for table in several]
        crossings += [_shown(board, run, table, elsewhere) for table in parts.crossovers(findings, section)]
        curves += [_shown(board, run, table, title=table.title) for table in parts.curve_tables(findings, section)]
        own = f", {board.names[run]}" if len(board.runs) > 1 else ""
        drawn += [{**each, "name": f"{each['name']}{own}"} for each in parts.drawings(findings, section)]
    return {
        "number": number,
        "title": group.section.title,
        "summaries": told,
        "crossovers": crossings,
        "curves": curves,
        "drawings": drawn,
        "failures": parts.failures(board, number),
    }


def _shown(board: Board, run: int, table: Table, elsewhere: Sequence[str] = (), title: str = "") -> Context:
    """Return a table without the notes that the page has elsewhere; where there are several runs, its own is named."""
    name = ", ".join(filter(None, (board.names[run] if len(board.runs) > 1 else "", title)))
    notes = [note for note in table.notes if note not in elsewhere]
    return {"name": name, "grid": table_html(table), "notes": notes, "long": len(table.rows) > _LONG}
