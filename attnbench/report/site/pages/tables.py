"""A page of words and tables, for what is no run of a suite: no script, nothing from elsewhere."""

from dataclasses import dataclass

from attnbench.report.site.pages.templates import rendered
from attnbench.report.text.html import table_html
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table


@dataclass(frozen=True)
class Sheet:
    """What stands on it; `home` is the way to the index."""

    title: str
    words: tuple[str, ...]
    tables: tuple[Table, ...]
    home: str


def tables_page(sheet: Sheet) -> str:
    """HTML; whatever is in a name or a reason is inert."""
    words = [one_line(line) for line in sheet.words if line.strip()]
    tables = [(table, table_html(table)) for table in sheet.tables]
    return rendered("tables.html", title=one_line(sheet.title), words=words, tables=tables, home=sheet.home)
