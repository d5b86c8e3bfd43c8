"""A page of words and tables, for what is no run of a suite: no script, nothing from elsewhere."""

from dataclasses import dataclass

from attnbench.report.names import one_line
from attnbench.report.page.markup import table_html
from attnbench.report.site.templates import rendered
from attnbench.report.table import Table


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
