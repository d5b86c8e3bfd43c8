"""Folders of the site: `<suite>/<machine>/<run>`, of plain letters, no two alike even where case does not count."""

import hashlib
import re
from collections.abc import Iterable, Mapping

from attnbench.report.site.runs.machines import machine_words
from attnbench.report.site.runs.survey import Found

INDEX, TREND = "index.html", "trend.html"
_WIDTH, _DIGEST = 80, 8


def addresses(found: Iterable[Found]) -> dict[str, str]:
    """By place among the results; the same runs have the same addresses, whatever order they come in."""
    runs = sorted(found, key=lambda each: each.place)
    suites = _names({name: name for name in sorted({each.entry.suite for each in runs})}, INDEX)
    machines = _names({name: machine_words(name).lower() for name in sorted({each.entry.machine for each in runs})})
    shelves: dict[str, dict[str, str]] = {}
    for each in runs:
        shelf = f"{suites[each.entry.suite]}/{machines[each.entry.machine]}"
        shelves.setdefault(shelf, {})[each.place] = each.entry.run
    return {place: f"{shelf}/{name}" for shelf, members in shelves.items() for place, name in _names(members, TREND).items()}


def _names(texts: Mapping[str, str], *taken: str) -> dict[str, str]:
    """By key, a name made of the text; of those that would coincide, all but the first carry a digest of their key."""
    used, found = {name.casefold() for name in taken}, {}
    for key, text in texts.items():
        name = _plain(text)
        if name.casefold() in used:
            name = f"{name[: _WIDTH - _DIGEST - 1]}-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:_DIGEST]}"
        used.add(name.casefold())
        found[key] = name
    return found


def _plain(text: str) -> str:
    """Neither hidden nor a path; ids of the index's own begin with an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_WIDTH].strip("._-") or "unnamed"
