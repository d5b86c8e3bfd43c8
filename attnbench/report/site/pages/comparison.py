"""Two commits that were measured in turns: both sides as runs, and the judgement between them."""

import re
import shlex
from itertools import pairwise

from attnbench.analyze.verdict import LEVEL, MARGIN
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.judging import judge_runs
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table
from attnbench.report.site.pages.kinds import Made, Write, write_run
from attnbench.report.site.pages.tables import Sheet, tables_page
from attnbench.report.site.runs.shelf import Link, Shelf
from attnbench.report.site.runs.survey import Found
from attnbench.report.text import latex, markdown
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import percent
from attnbench.store.run_folder import RunFolder

_TITLE = "Comparison of two commits"
_SHARE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(%?)")
_MOST = 10


def of_comparison(old: Found, new: Found, older: Shelf) -> Write:
    """`older` is where the page of the older side goes. Reads both; raises StoreError, ValueError, OverflowError."""
    before, now = (_findings(each) for each in (old, new))
    return lambda shelf: _write(before, now, older, shelf)


def _findings(found: Found) -> Findings:
    folder = RunFolder(found.path)
    return Findings.of(folder.info(), folder.read())


def _write(old: Findings, new: Findings, older: Shelf, shelf: Shelf) -> Made:
    judgement = judge_runs((old.run, old.summaries), (new.run, new.summaries), margin_of(new.run.command), LEVEL)
    table, about = comparison_table(judgement), _about(judgement)
    return Made(
        page=shelf.write("comparison.html", tables_page(Sheet(_TITLE, (about,), (table,), shelf.home))),
        tables=(
            Link(write_run(new, shelf).page.href, "the new side"),
            Link(write_run(old, older).page.href, "the old side"),
            shelf.write("comparison.csv", comparison_csv(judgement)),
            shelf.write("comparison.md", markdown.markdown([table], _TITLE)),
            shelf.write("comparison.tex", latex.latex([table])),
        ),
        words=(one_line(f"{judgement.names[1]} against {judgement.names[0]}: {judgement.conclusion}."), about),
    )


def _about(judgement: Judgement) -> str:
    return f"As attnbench compare judges the two, with a margin of {percent(judgement.terms.margin)}."


def margin_of(command: str) -> float:
    """The margin that the command line asked for; the usual one where it said nothing, or nothing that is a share."""
    try:
        words = shlex.split(command.replace("--margin=", "--margin "))
    except ValueError:
        return MARGIN
    named = next((after for word, after in pairwise(words) if word == "--margin"), "")
    match = _SHARE.fullmatch(named)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    return share if 0 < share <= _MOST else MARGIN
