"""The templates of the site, with its stylesheet and script inline, and a policy that lets nothing else in."""

from collections.abc import Sequence
from importlib.resources import files

from attnbench.report.text import html
from attnbench.report.text.table import Table

_HERE = "attnbench.report.site"


def rendered(template: str, *, scripted: bool = False, **values: object) -> str:
    """Return a whole page."""
    inline, policy = {"script": ""}, ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    for kind, name in (("style", "site.css"), ("script", "filter.js"))[: 2 if scripted else 1]:
        text = (files(_HERE) / "assets" / name).read_text(encoding="utf-8")
        inline[kind] = html.trusted(text)
        policy.append(f"{kind}-src {html.digest(text)}")
    return html.rendered(_HERE, f"assets/{template}", **inline, policy="; ".join(policy), **values)


def tables_page(title: str, words: Sequence[str], tables: Sequence[Table], home: str) -> str:
    """Return a page of words and tables, for what is no run of a suite; whatever is in a name or a reason is inert."""
    grids = [(table, html.table_html(table)) for table in tables]
    return rendered("tables.html", title=title, words=[line for line in words if line.strip()], tables=grids, home=home)
