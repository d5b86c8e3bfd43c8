"""Tables as HTML: whatever is in them is text."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

from markupsafe import Markup

from attnbench.analyze.sections import grouped
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table


def safe(text: object) -> str:
    """Return a text on one line, without anything that HTML could take for markup."""
    return escape(one_line(str(text)))


def row(texts: Sequence[str], bold: Collection[int] = ()) -> str:
    """Return a row whose first entry is its head. HTML lets the ends of rows and cells be left out, and so does this."""
    first, *others = (f"<b>{safe(text)}</b>" if place in bold else safe(text) for place, text in enumerate(texts))
    return f"<tr><th scope=row>{first}{''.join(f'<td>{text}' for text in others)}\n"


def head(texts: Iterable[str]) -> str:
    """Return the row of column heads."""
    return f"<thead><tr>{''.join(f'<th scope=col>{safe(text)}' for text in texts)}</thead>"


def table_html(table: Table) -> Markup:
    """Return the grid, with its title for those who cannot see it; the notes are left to whoever shows it."""
    bold = grouped(table.bold)
    rows = "".join(row(texts, bold.get(number, ())) for number, texts in enumerate(table.rows))
    caption = f'<caption class="unseen">{safe(table.title)}</caption>'
    # every text above went through `safe`
    return Markup(f"<table>{caption}{head(table.headers)}<tbody>\n{rows}</tbody></table>")  # noqa: S704
