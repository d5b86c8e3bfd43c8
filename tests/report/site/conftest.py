"""Run folders as the commands leave them: of a few laws, small, and each with one thing that is its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pytest

from attnbench.library.maxlen import limits_of
from attnbench.report.findings import Findings
from attnbench.report.site.build import Built, build
from attnbench.schema.cell import Workload
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from tests.cli.conftest import keep
from tests.report.conftest import Law, Synthetic

EPYC, XEON = "AMD EPYC 9B14", "Intel(R) Xeon(R) Processor @ 2.60GHz"
HOSTILE = "<script>alert(1)</script>"


@dataclass
class Lab:
    """Writes run folders below a folder."""

    results: Path

    def small(self) -> Synthetic:
        """Two methods at three lengths, two replicates."""
        laws = (Law("softmax.sdpa", 3e-3, 1.95, tier="library"), Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}))
        return Synthetic(laws, lengths=(512, 1024, 2048), workloads=(Workload.FORWARD,), causal=(True,), replicates=2)

    def info(self, made: Synthetic, suite: str, day: int, processor: str = EPYC, **changes: Any) -> RunInfo:
        """A run of that day; `changes` are fields of run.json."""
        info = made.run()
        facts = {**info.environment, "processor": processor}
        own = {
            "id": f"202601{day:02}-030405-abcdef",
            "suite": info.suite.model_copy(update={"name": suite, "source": f"what {suite} is for"}),
            "started": f"2026-01-{day:02}T03:04:05+00:00",
            "environment": facts,
            "surroundings": info.surroundings.model_copy(update={"facts": facts}),
            "git": {"commit": f"{day:02}" * 20, "dirty": False},
            "command": f"attnbench run {suite}",
        }
        return info.model_copy(update={**own, **changes})

    def write(self, place: str, info: RunInfo, records: Sequence[Record]) -> Path:
        """A folder with the two files that count."""
        return keep(self.results / place, info, records)

    def run(self, place: str, suite: str = "quick", day: int = 1, processor: str = EPYC, **changes: Any) -> Path:
        """A whole run of two methods."""
        made = self.small()
        return self.write(place, self.info(made, suite, day, processor, **changes), made.records())

    def build(self, out: Path, *, records: bool = False) -> Built:
        """The site of all of them."""
        return build(self.results, out, limits_of, records=records)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Nothing there yet."""
    (tmp_path / "results").mkdir()
    return Lab(tmp_path / "results")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where the site will be."""
    return tmp_path / "site"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page and a sentence of a line each, so that an index is about nothing but itself."""

    def page(runs: Sequence[Findings], home: str) -> str:
        return f'<!doctype html><title>{escape(runs[0].run.id)}</title><a href="{home}">All runs</a>'

    monkeypatch.setattr("attnbench.report.site.pages.page", page)
    monkeypatch.setattr("attnbench.report.site.pages.headline", lambda findings: f"The sentence of {findings.run.id}.")


@pytest.fixture
def results(lab: Lab, hostile: Synthetic) -> Lab:
    """Three suites on two machines and one whose name is markup; a run that stopped early, and two that are none."""
    for day in (1, 2, 3):
        lab.run(f"quick/2026010{day}", day=day)
    lab.run("reference/xeon/quick", day=2, processor=XEON, id="20260102-030405-fedcba")
    made = lab.small()
    info = lab.info(made, "other", 4)
    lab.write("other/20260104", info, made.records()[: len(info.cells)])
    info = lab.info(hostile, "markup", 5, HOSTILE, id=HOSTILE, command=HOSTILE, git={"commit": HOSTILE, "dirty": True})
    lab.write("markup/run", info, hostile.records())
    others = {
        "20260103/forward/time.png": "a figure",
        "20260103/forward/time.txt": "a caption",
        "20260103/profile.md": "# a profile",
        "broken/run.json": "{",
        "lost/records.jsonl": "{}",
    }
    for place, content in others.items():
        file = lab.results / "quick" / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    return lab
