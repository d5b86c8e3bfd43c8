"""A page that notes every request, every message and every dialog; runs to make pages of."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.report.findings import Findings
from attnbench.report.page import page as html_of
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

LENGTHS = tuple(2**n for n in range(9, 15))


def slow(name: str, seconds: float, power: float, stop_at: int) -> Law:
    """Return a method that is over budget from some length on."""
    return Law(name, seconds, power, stop_at=stop_at, status=Status.BUDGET, reason=f"one call took {stop_at} µs, too long")


LAWS = (
    slow("softmax.sdpa", 8e-3, 1.9, 2**14),
    slow("softmax.naive", 2e-2, 2.0, 2**14),
    Law("linear.chunked", 9e-3, 1.0),
    Law("lsh.reformer", 3e-2, 1.1),
    slow("sparse.strided", 7e-3, 1.5, 2**9),
)


def plan(
    laws: Sequence[Law] = LAWS,
    lengths: tuple[int, ...] = LENGTHS,
    causal: tuple[bool, ...] = (True,),
    workloads: tuple[Workload, ...] = (Workload.FORWARD,),
) -> Synthetic:
    """Return a run to make up, of five replicates."""
    return Synthetic(laws, lengths, causal, workloads, replicates=5)


LEARNING = (
    Law("softmax.sdpa", 8e-3, 1.9, learns=0.02),
    Law("linear.chunked", 9e-3, 1.0, learns=0.03),
    Law("lsh.reformer", 3e-2, 1.1, learns=0.4),
    Law("sparse.strided", 7e-3, 1.5, stop_at=1, status=Status.BUDGET, reason="40 of 3,000 updates"),
)


def page_of(file: Path, *plans: Synthetic) -> Path:
    """Write the page of one run that did all of it."""
    cells = tuple(cell for each in plans for cell in each.run().cells)
    records = [record for each in plans for record in each.records()]
    file.write_text(html_of([Findings.of(plans[0].run().model_copy(update={"cells": cells}), records)]), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of images that are learnt and made, a copy task, and the attention alone."""
    made = plan(LEARNING, (64,), workloads=(Workload.TRAIN, Workload.GENERATE))
    images = replace(made, trainings=(Training(task=Task.PIXELS, drawings=3),), tokens=8 * 64)
    copying = replace(
        plan(LEARNING, (128,), workloads=(Workload.TRAIN,)), trainings=(Training(task=Task.COPY),), tokens=8 * 128
    )
    return page_of(tmp_path_factory.mktemp("learning") / "index.html", plan(), images, copying)


@pytest.fixture(scope="session")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of speech."""
    speech = replace(plan(LEARNING, (128,), (False,), workloads=(Workload.TRAIN,)), trainings=(Training(task=Task.SPEECH),))
    return page_of(tmp_path_factory.mktemp("hearing") / "index.html", speech)


@dataclass
class Watched:
    """A page, and all that it did behind the reader's back."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
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


Watch = Callable[[], Watched]


@pytest.fixture
def context(browser: "Browser") -> "Iterator[BrowserContext]":
    """A profile of its own, that may use the clipboard."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.grant_permissions(["clipboard-read", "clipboard-write"])
    yield made
    made.close()


@pytest.fixture
def watched(context: "BrowserContext") -> Watch:
    """A new page of that profile."""
    return lambda: Watched(context.new_page())


def opened(watched: Watch, file: Path, hash_: str = "") -> "Page":
    """Return a new page of a file, once it is shown."""
    found = watched()
    found.open(file, hash_)
    return found.page


def choose(page: "Page", what: str, value: str) -> None:
    """Choose a value of one of the page's menus."""
    page.get_by_role("combobox", name=what, exact=True).select_option(value)


def grave(page: "Page") -> list[tuple[str, str]]:
    """What stands in somebody's way, of all that the page has to unfold, too: the rule, and where it is broken."""
    from axe_playwright_python.sync_playwright import Axe

    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    violations = Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in violations if each["impact"] in {"serious", "critical"}]
