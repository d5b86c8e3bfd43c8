"""Pages and tables as HTML: whatever is in them is text."""

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

from attnbench.analyze.sections import grouped
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment


def safe(text: object) -> str:
    """Return a text on one line, without anything that HTML could take for markup."""
    return escape(one_line(str(text)))


def trusted(text: str) -> Markup:
    """Mark what is put into a page as it is: files of ours, and texts in which everything of others is escaped."""
    return Markup(text)  # noqa: S704


def digest(text: str) -> str:
    """Return what a Content-Security-Policy calls a script or a stylesheet that may be used."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def rendered(package: str, template: str, **values: object) -> str:
    """Return a page by a template in the folder of a package.

    Names, reasons and machines come from users: all that is neither in the template nor trusted is escaped, and on one line.
    """
    return _templates(package).get_template(template).render(**values)


@cache
def _templates(package: str) -> "Environment":
    # most commands make no page
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def plain(value: object) -> object:
        return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = PackageLoader(package, ".")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=plain
    )


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
    return trusted(f"<table>{caption}{head(table.headers)}<tbody>\n{rows}</tbody></table>")
