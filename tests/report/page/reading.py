"""A page taken apart: what an HTML parser makes of it, and the numbers that its script is given."""

import json
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.report.page.board import Board
from attnbench.report.page.columns import columns
from attnbench.report.page.payload import payload

RAW, JSON = {"script", "style"}, "application/json"


@dataclass
class Read(HTMLParser):
    """What an HTML parser makes of a page."""

    shapes: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)
    """Elements, each with all its attributes."""
    targets: set[str] = field(default_factory=set)
    """What is linked or loaded."""
    comments: list[str] = field(default_factory=list)
    scripts: list[tuple[str, str]] = field(default_factory=list)
    """Type and text."""
    policy: str = ""
    text: str = ""
    """All that is read by people."""
    rows: list[list[str]] = field(default_factory=list)
    """Of all tables, the heads too."""
    raw: str = ""
    """The element whose text is not for people, while it is open."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.shapes[tag, frozenset(known)] += 1
        self.targets |= {value or "" for name, value in attrs if name in {"href", "src", "action", "xlink:href"}}
        self.raw = tag if tag in RAW else ""
        if tag == "script":
            self.scripts.append((known.get("type") or "", ""))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self.raw = ""

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if self.raw == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif not self.raw:
            self.text += data
            if self.rows and self.rows[-1]:
                self.rows[-1][-1] += data

    @property
    def elements(self) -> Counter[str]:
        """Count elements, whatever their attributes."""
        return sum((Counter({tag: count}) for (tag, _), count in self.shapes.items()), Counter[str]())

    @property
    def attributes(self) -> set[str]:
        """Return what attributes there are, of any element."""
        return {name for _, names in self.shapes for name in names}

    @property
    def code(self) -> list[str]:
        """The scripts that a browser would run."""
        return [text for kind, text in self.scripts if kind != JSON]

    @property
    def data(self) -> dict[str, Any]:
        """What the script is given."""
        (text,) = (text for kind, text in self.scripts if kind == JSON)
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def heads(self) -> list[str]:
        """The heads of the table of all cells."""
        return next(row for row in self.rows if "remarks" in row)


def parsed(text: str) -> Read:
    """Return what a parser makes of a page."""
    found = Read()
    found.feed(text)
    found.close()
    found.rows = [[text.strip() for text in row] for row in found.rows]
    return found


def read(*runs: Findings) -> Read:
    """Return the page of some runs, parsed."""
    return parsed(page(runs))


def data(*runs: Findings) -> dict[str, Any]:
    """Return the numbers that the script of their page is given."""
    board = Board(runs)
    return payload(board, columns(board))
