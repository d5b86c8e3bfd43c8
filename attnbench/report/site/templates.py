"""The templates of the site, with its stylesheet and script inline, and a policy that lets nothing else in."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnbench.report.text.html import table_html
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

_HERE, _ASSETS = "attnbench.report.site", "assets"
# names, reasons and machines come from users: all that is not in a template is escaped
_ENVIRONMENT = Environment(
    loader=PackageLoader(_HERE, _ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def rendered(template: str, *, scripted: bool = False, **values: object) -> str:
    """Return a whole page."""
    inline, policy = {"script": ""}, ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    for kind, name in (("style", "site.css"), ("script", "filter.js"))[: 2 if scripted else 1]:
        text = (files(_HERE) / _ASSETS / name).read_text(encoding="utf-8")
        # files of this package, and not of a user
        inline[kind] = Markup(text)  # noqa: S704
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy.append(f"{kind}-src 'sha256-{digest}'")
    return _ENVIRONMENT.get_template(template).render(**inline, policy="; ".join(policy), **values)


def tables_page(title: str, words: Sequence[str], tables: Sequence[Table], home: str) -> str:
    """Return a page of words and tables, for what is no run of a suite; whatever is in a name or a reason is inert."""
    lines = [one_line(line) for line in words if line.strip()]
    grids = [(table, table_html(table)) for table in tables]
    return rendered("tables.html", title=one_line(title), words=lines, tables=grids, home=home)
