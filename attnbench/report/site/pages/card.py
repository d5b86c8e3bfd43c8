"""What the index says of one run, and how the parts of it are put into words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnbench.report.site.pages.picture import Picture
from attnbench.report.site.runs.files import RAW
from attnbench.report.site.runs.shelf import Link
from attnbench.report.text.names import one_line
from attnbench.schema.history import Entry


@dataclass(frozen=True)
class Card:
    """Text already."""

    address: str
    """Of its folder; also its name within the index."""
    page: Link
    facts: tuple[str, ...]
    words: tuple[str, ...]
    """What came out, a paragraph each."""
    picture: Picture | None
    links: tuple[Link, ...]
    files: tuple[Link, ...]
    """All others."""


def main_links(made: Sequence[Link], copied: Iterable[Link]) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """Tables that were made, and the records where they go along; and all others."""
    copied = list(copied)
    return (*made, *(link for link in copied if link.text in RAW)), tuple(link for link in copied if link.text not in RAW)


def started(entry: Entry) -> str:
    """`2026-01-02 03:04 UTC`."""
    return f"{entry.started[:16].replace('T', ' ')} UTC"


def commit(entry: Entry) -> str:
    """`commit 1a2b3c4d`; empty where the run was outside of a checkout."""
    return one_line(f"commit {entry.short_commit}") if entry.commit else ""
