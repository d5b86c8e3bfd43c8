"""Where the files of one run go, and how the index links to them."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from attnbench.report.text.names import one_line


@dataclass(frozen=True)
class Link:
    """Relative to the index."""

    href: str
    text: str


@dataclass(frozen=True)
class Shelf:
    """A folder of the site that is being made."""

    root: Path
    address: str

    @property
    def home(self) -> str:
        """The way back to the index."""
        return f"{'../' * (self.address.count('/') + 1)}index.html"

    def write(self, name: str, content: str | bytes) -> Link:
        """A file, by its path within the folder; raises OSError."""
        file = self.root / self.address / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Link(href(f"{self.address}/{name}"), one_line(name))

    def holds(self, name: str) -> bool:
        """Whether such a file was written."""
        return (self.root / self.address / name).exists()


def href(path: str) -> str:
    """A path of whatever bytes as a relative address."""
    return quote(os.fsencode(path))
