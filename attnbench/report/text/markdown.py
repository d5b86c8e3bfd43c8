"""Tables as GitHub-flavoured Markdown; whatever is in a name or a reason is escaped."""

import html
import re
from collections.abc import Sequence

from tabulate import tabulate

from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

# an underscore or caret inside a word is no markup, and names are full of them
_SPECIAL = re.compile(r"[\\`*{}\[\]#|~$!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def markdown(tables: Sequence[Table], title: str, sentence: str = "", measured: Sequence[str] = ()) -> str:
    """Return a page: the sentence of result, the tables with their notes, and at the end how everything was measured."""
    parts = [f"# {escape(title)}\n", *([f"{escape(sentence)}\n"] if sentence else []), *map(one_table, tables)]
    how = "".join(f"- {escape(line)}\n" for line in measured)
    return "\n".join([*parts, *([f"## How it was measured\n\n{how}"] if how else [])])


def one_table(table: Table) -> str:
    """Return a heading, the table and its notes; numbers are right-aligned."""
    cells = [
        [f"**{escape(text)}**" if (row, column) in table.bold else escape(text) for column, text in enumerate(texts)]
        for row, texts in enumerate(table.rows)
    ]
    align = ("left", *("right" for _ in table.headers[1:]))
    grid = tabulate(cells, [escape(h) for h in table.headers], tablefmt="pipe", colalign=align, disable_numparse=True)
    notes = "".join(f"- {escape(note)}\n" for note in table.notes)
    return f"## {escape(table.title)}\n\n{grid}\n\n{notes}"


def escape(text: str) -> str:
    """Return a text on one line that is no markup, whatever it holds."""
    # the entities of HTML bring no character that is escaped here but `#`, which these do not use
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", html.escape(one_line(text), quote=False))
