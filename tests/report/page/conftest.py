"""A page taken apart, and runs that weigh quality against cost."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Measured, Series
from attnbench.schema.record import Record

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

RAW = {"script", "style"}


@dataclass
class Read(HTMLParser):
    """What an HTML parser makes of a page."""

    elements: Counter[str] = field(default_factory=Counter)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    """Element and attribute."""
    scripts: list[tuple[str, str]] = field(default_factory=list)
    """Type and text."""
    values: dict[str, str] = field(default_factory=dict)
    """Of attributes by element, attribute and the value of `id` or `name`."""
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    """Of all tables, the heads too."""
    _raw: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.elements[tag] += 1
        self.attributes |= {(tag, name) for name in known}
        name = known.get("id") or known.get("name") or known.get("http-equiv")
        self.values |= {f"{tag}/{name}/{key}": value or "" for key, value in attrs}
        self._raw = tag if tag in RAW else ""
        if tag == "script":
            self.scripts.append((known.get("type") or "", ""))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if self._raw == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif not self._raw:
            self.text += data
            if self.rows and self.rows[-1]:
                self.rows[-1][-1] += data

    @property
    def data(self) -> dict[str, Any]:
        """What the script is given."""
        (text,) = (text for kind, text in self.scripts if kind == "application/json")
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def policy(self) -> str:
        return self.values["meta/Content-Security-Policy/content"]


@pytest.fixture
def read() -> Callable[..., Read]:
    """The page of some runs, parsed."""

    def _read(*runs: Findings) -> Read:
        found = Read()
        found.feed(page(runs))
        found.close()
        found.rows = [[text.strip() for text in row] for row in found.rows]
        return found

    return _read


@pytest.fixture
def found() -> "Callable[[Synthetic], Findings]":
    """What is found in a synthetic run."""
    return lambda made: Findings.of(made.run(), made.records())


@pytest.fixture
def weighed(synthetic: "type[Synthetic]", law: "type[Law]") -> Findings:
    """Three methods, timed and measured for fidelity: one exact, one fast and rough, one that is beaten in both."""
    laws = (
        law("softmax.sdpa", 4e-3, 1.9, tier="library"),
        law("lsh.reformer", 1e-3, 1.1, {"rounds": 1}),
        law("linear.chunked", 2e-3, 1.0),
    )
    errors = {"softmax.sdpa": 1e-7, "lsh.reformer": 0.4, "linear.chunked": 0.7}
    made = synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=(Workload.FORWARD, Workload.FIDELITY))
    timed = [record for record in made.records() if record.job.cell.workload is Workload.FORWARD]
    cells = [cell for cell in made.run().cells if cell.workload is Workload.FIDELITY]
    kept = [_kept(made, cell, errors[cell.method], replicate) for cell in cells for replicate in range(made.replicates)]
    return Findings.of(made.run(), [*timed, *kept])


def _kept(made: "Synthetic", cell: Cell, error: float, replicate: int) -> Record:
    values = {OUTPUT_ERROR: error * (1 + 0.01 * replicate), MASS_RECALL: 1 - error}
    samples = {name: Series(unit="1", values=(value,)) for name, value in values.items()}
    return made.record(cell, Measured(samples=samples), replicate, Pass.FIDELITY)
