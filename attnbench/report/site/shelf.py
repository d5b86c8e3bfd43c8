"""The places of the files of each run on the site, and the links of pages to them."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from attnbench.report.site.runs import Found, LeftOut, machine_words
from attnbench.report.text.names import one_line
from attnbench.store.history import files_of
from attnbench.store.run_folder import RUN, is_of_run

INDEX, TREND = "index.html", "trend.html"
_FIGURES = frozenset({".png", ".svg", ".pdf", ".pgf", ".txt"})
_TEXTS = frozenset({".md", ".csv", ".tex"})
_WIDTH, _DIGEST = 80, 8


@dataclass(frozen=True)
class Link:
    """An address relative to the index, and the words that lead there."""

    href: str
    text: str


@dataclass(frozen=True)
class Shelf:
    """A folder of the site that is being made."""

    root: Path
    address: str

    @property
    def home(self) -> str:
        """Return the way back to the index."""
        return f"{'../' * (self.address.count('/') + 1)}index.html"

    def write(self, name: str, content: str | bytes) -> Link:
        """Write a file, by its path within the folder; raises OSError."""
        file = self.root / self.address / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Link(quote(os.fsencode(f"{self.address}/{name}")), one_line(name))

    def copy(self, run: Found, *, records: bool) -> tuple[list[Link], list[LeftOut]]:
        """Copy what stands in a run folder beside its records: figures with their captions, tables, texts.

        Return links to what was copied, and the files that were not, with the reason. What is made anew is not copied over.
        Links are not followed: a folder from elsewhere must not publish files of this machine. Raises OSError of writing.
        """
        links, left_out = [], []
        for inner in files_of(run.path):
            name, parents = inner.as_posix(), inner.parents[:-1]
            # exports have folders, and a run that lies within this one is a run of its own
            beside = inner.suffix in _TEXTS or inner.name == "selfcheck.json" or (records and is_of_run(inner.name))
            wanted = inner.suffix in _FIGURES or (not parents and beside)
            if not wanted or any((run.path / part / RUN).exists() for part in parents):
                continue
            if (self.root / self.address / name).exists():
                continue
            why = ""
            try:
                if any((run.path / part).is_symlink() for part in (inner, *parents)):
                    why = "a link to somewhere else"
                else:
                    content = (run.path / inner).read_bytes()
            except OSError as error:
                why = error.strerror or "cannot be read"
            if why:
                left_out.append(LeftOut(one_line(f"{run.place}/{name}"), why))
            else:
                links.append(self.write(name, content))
        return links, left_out


def addresses(found: Iterable[Found]) -> dict[str, str]:
    """Return by place `<suite>/<machine>/<run>`, of plain letters, no two alike even where case does not count.

    The same runs have the same addresses, whatever order they come in.
    """
    runs = sorted(found, key=lambda each: each.place)
    suites = _names({name: name for name in sorted({each.entry.suite for each in runs})}, INDEX)
    machines = _names({name: machine_words(name).lower() for name in sorted({each.entry.machine for each in runs})})
    shelves: dict[str, dict[str, str]] = {}
    for each in runs:
        shelf = f"{suites[each.entry.suite]}/{machines[each.entry.machine]}"
        shelves.setdefault(shelf, {})[each.place] = each.entry.run
    return {place: f"{shelf}/{name}" for shelf, members in shelves.items() for place, name in _names(members, TREND).items()}


def _names(texts: Mapping[str, str], *taken: str) -> dict[str, str]:
    """Return by key a name made of the text; of those that would coincide, all but the first carry a digest of their key."""
    used, found = {name.casefold() for name in taken}, {}
    for key, text in texts.items():
        # neither hidden nor a path; ids of the index's own begin with an underscore
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_WIDTH].strip("._-") or "unnamed"
        if name.casefold() in used:
            name = f"{name[: _WIDTH - _DIGEST - 1]}-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:_DIGEST]}"
        used.add(name.casefold())
        found[key] = name
    return found
