"""Tables as GitHub-flavoured Markdown; whatever is in a name or a reason is escaped."""

import re
from collections.abc import Sequence

from tabulate import tabulate

from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

# an underscore or caret inside a word is no markup, and names are full of them
_SPECIAL = re.compile(r"[\\`*{}\[\]#|~$!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(tables: Sequence[Table], title: str) -> str:
    """A page of tables, each with its notes as a list."""
    return "\n".join([f"# {escape(title)}\n", *map(one_table, tables)])


def one_table(table: Table) -> str:
    """Heading, table, notes; numbers are right-aligned."""
    cells = [
        [f"**{escape(text)}**" if (row, column) in table.bold else escape(text) for column, text in enumerate(texts)]
        for row, texts in enumerate(table.rows)
    ]
    align = ("left", *("right" for _ in table.headers[1:]))
    grid = tabulate(cells, [escape(h) for h in table.headers], tablefmt="pipe", colalign=align, disable_numparse=True)
    notes = "".join(f"- {escape(note)}\n" for note in table.notes)
    return f"## {escape(table.title)}\n\n{grid}\n\n{notes}"


def escape(text: str) -> str:
    """Plain text, on one line, whatever it holds."""
    text = "".join(_HTML.get(c, c) for c in one_line(text))
    # the HTML entities above bring no character that is escaped here but `#`, which they do not use
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", text)
