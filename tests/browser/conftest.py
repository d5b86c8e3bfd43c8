"""A page that notes every request, every message and every dialog; runs to make pages of."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.report.findings import Findings
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Job, Pass, Roof, Surroundings
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Counter, Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

LENGTHS = tuple(2**n for n in range(9, 15))
FACTS: dict[str, Scalar | None] = {"processor": "Intel(R) Xeon(R) Processor @ 2.70GHz", "cores": 2, "torch": "2.13.0+cpu"}


@dataclass(frozen=True)
class Law:
    """A method of `seconds` at N = 1024 that grows as N^power, until it is over budget from `stop` on."""

    name: str
    seconds: float
    power: float
    stop: int | None = None
    error: float = 0.5


LAWS = (
    Law("softmax.sdpa", 8e-3, 1.9, stop=2**14, error=1e-7),
    Law("softmax.naive", 2e-2, 2.0, stop=2**13, error=1e-7),
    Law("linear.chunked", 9e-3, 1.0, error=0.8),
    Law("lsh.reformer", 3e-2, 1.1, error=0.4),
    Law("sparse.strided", 7e-3, 1.5, stop=1, error=0.3),
)


@dataclass(frozen=True)
class Plan:
    """A run to make up."""

    laws: tuple[Law, ...] = LAWS
    lengths: tuple[int, ...] = LENGTHS
    causal: tuple[bool, ...] = (True, False)
    dtypes: tuple[str, ...] = ("float32",)
    workloads: tuple[Workload, ...] = (Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.FIDELITY)
    replicates: int = 5
    id: str = "20260102-030405-abcdef"

    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell(method=law.name, problem=Problem(N=N, causal=causal, dtype=dtype), workload=workload)
            for N in self.lengths
            for dtype in self.dtypes
            for causal in self.causal
            for workload in self.workloads
            for law in self.laws
        )

    def info(self) -> RunInfo:
        cells = self.cells()
        about = {law.name: described(law) for law in self.laws}
        axes = Axes(N=self.lengths, causal=self.causal)
        methods = tuple(Method(name=law.name) for law in self.laws)
        roofs = {dtype: Roof(flops_per_second=9e10, bytes_per_second=1.7e10) for dtype in self.dtypes}
        return RunInfo(
            id=self.id,
            suite=Suite(name="made", device="cpu", axes=axes, methods=methods, workloads=self.workloads),
            command="attnbench run made",
            started="2026-01-02T03:04:05+00:00",
            environment=FACTS,
            environment_digest="8f49cfc01159",
            surroundings=Surroundings(device="cpu", facts={}, memory_bytes=2**34, roof=roofs),
            methods=about,
            cells=cells,
            costs={cell.key: self.cost(cell) for cell in cells},
        )

    def cost(self, cell: Cell) -> Cost:
        N, flops = cell.problem.N, 1e5 * cell.problem.N
        return Cost(nominal_flops=2e3 * N**2, exact_flops=flops, executed_flops=flops, traffic_bytes=8e3 * N, peak_bytes=1.0)

    def findings(self) -> Findings:
        return Findings.of(self.info(), self.records())

    def records(self) -> Iterator[Record]:
        laws = {law.name: law for law in self.laws}
        for cell in self.cells():
            for replicate in range(self.replicates):
                yield from self.recorded(cell, laws[cell.method], replicate)

    def recorded(self, cell: Cell, law: Law, replicate: int) -> Iterator[Record]:
        N = cell.problem.N
        noise = random.Random(f"{cell.key}/{replicate}").uniform(0.97, 1.03)
        if law.stop is not None and law.stop <= N:
            if replicate == 0:
                kind = Pass.FIDELITY if cell.workload is Workload.FIDELITY else Pass.TIME
                yield record(cell, Failed(status=Status.BUDGET, reason=f"one call took {N} µs, too long"), 0, kind)
        elif cell.workload is Workload.FIDELITY:
            values = {OUTPUT_ERROR: law.error * noise, MASS_RECALL: 1 - min(1.0, law.error * noise)}
            samples = {name: Series(unit="1", values=(value,)) for name, value in values.items()}
            yield record(cell, Measured(samples=samples), replicate, Pass.FIDELITY)
        else:
            typical = law.seconds * (N / 1024) ** law.power * noise * (3 if cell.workload is Workload.FORWARD_BACKWARD else 1)
            yield record(cell, Measured(samples={"time": Series(unit="s", values=(typical,) * 10)}), replicate, Pass.TIME)
            if replicate == 0:
                memory = {"host_rss_peak": Counter(bytes=int(2**20 * (N / 1024) ** law.power), source="VmHWM")}
                yield record(cell, Measured(memory=memory), 0, Pass.MEMORY)


def described(law: Law) -> Description:
    return Description(method=law.name, paper="arXiv:1", tier="eager", causality="full", summary="Made up.", version="0")


def record(cell: Cell, outcome: Outcome, replicate: int, phase: Pass) -> Record:
    job = Job(cell=cell, phase=phase, replicate=replicate)
    return Record(job=job, outcome=outcome, environment="8f49cfc01159", started="x")


@pytest.fixture(scope="session")
def plan() -> type[Plan]:
    """The maker of runs."""
    return Plan


@pytest.fixture(scope="session")
def law() -> type[Law]:
    """One method of a made-up run."""
    return Law


@dataclass
class Watched:
    """A page, and all that it did behind the reader's back."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self._say(message.type, message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _say(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.messages.append(text)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, file: Path, hash_: str = "") -> None:
        """The file, and nothing else, has been asked for once it is shown."""
        self.page.goto(f"{file.as_uri()}{hash_}")
        self.page.locator("html.drawn").wait_for(state="attached")


@pytest.fixture
def context(browser: "Browser") -> "Iterator[BrowserContext]":
    """A profile of its own, that may use the clipboard."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.grant_permissions(["clipboard-read", "clipboard-write"])
    yield made
    made.close()


@pytest.fixture
def watched(context: "BrowserContext") -> Callable[[], Watched]:
    """A new page of that profile."""

    def _watched() -> Watched:
        found = Watched(context.new_page())
        found.listen()
        return found

    return _watched
