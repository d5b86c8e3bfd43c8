"""The templates of the site, with its stylesheet and script inline, and the policy that lets nothing else in."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnbench.report.page.appearance import on_dark

_HERE = "attnbench.report.site"
_ASSETS = "assets"


@cache
def _environment() -> Environment:
    # names, reasons and machines come from users: all that is not in a template is escaped
    loader = PackageLoader(_HERE, _ASSETS)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def rendered(template: str, colors: Iterable[str] = (), *, scripted: bool = False, **values: object) -> str:
    """A whole page; `colors` are classes of methods, as `cd55e00`."""
    style = f"{_asset('site.css')}{_shades(colors)}"
    script = _asset("filter.js") if scripted else ""
    policy = [
        "default-src 'none'",
        "img-src data:",
        f"style-src '{_digest(style)}'",
        *([f"script-src '{_digest(script)}'"] if script else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    inline = {"style": _as_is(style), "script": _as_is(script), "policy": "; ".join(policy)}
    return _environment().get_template(template).render(**inline, **values)


def _as_is(asset: str) -> Markup:
    """A file of this package, and not of a user."""
    return Markup(asset)  # noqa: S704


def _asset(name: str) -> str:
    return (files(_HERE) / _ASSETS / name).read_text(encoding="utf-8")


def _shades(colors: Iterable[str]) -> str:
    """Each on a light and on a dark page; on paper as on the light one."""
    names = sorted(set(colors))
    light = "".join(f".{name} {{ --ink: #{name[1:]}; }}\n" for name in names)
    dark = "".join(f"  .{name} {{ --ink: {on_dark(f'#{name[1:]}')}; }}\n" for name in names)
    return f"{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n" if names else ""


def _digest(text: str) -> str:
    """As a Content-Security-Policy names what may be inline."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
