"""Pages that are opened and must be silent; runs to make pages of."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


def plan(laws: Sequence[Law] = LAWS, **fields: Any) -> Synthetic:
    """Return a run to make up, of five replicates; what is named replaces a field."""
    known: dict[str, Any] = {"lengths": LENGTHS, "causal": (True,), "workloads": (Workload.FORWARD,), "replicates": 5}
    return Synthetic(laws, **known | fields)


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
    drawing, copy = Training(task=Task.PIXELS, drawings=3), Training(task=Task.COPY)
    both = (Workload.TRAIN, Workload.GENERATE)
    images = plan(LEARNING, lengths=(64,), workloads=both, trainings=(drawing,), tokens=8 * 64)
    copying = plan(LEARNING, lengths=(128,), workloads=both[:1], trainings=(copy,), tokens=8 * 128)
    return page_of(tmp_path_factory.mktemp("learning") / "index.html", plan(), images, copying)


Opened = Callable[..., "Page"]


@contextmanager
def silent(browser: "Browser") -> Iterator[Opened]:
    """Open files, each in a new window; in the end nothing else was fetched, nothing said to be wrong, and nothing asked."""
    profiles: list[BrowserContext] = []
    files, fetched, said = set[str](), set[str](), list[str]()

    def _dismiss(dialog: Any) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    def _opened(file: Path, hash_: str = "", **options: Any) -> "Page":
        # one profile for all windows that do not ask for another, which may use the clipboard
        if options or not profiles:
            profiles.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
            profiles[-1].grant_permissions(["clipboard-read", "clipboard-write"])
        page = profiles[-1].new_page()
        page.on("request", lambda request: fetched.add(request.url.partition("#")[0]))
        page.on("console", lambda message: said.append(message.text) if message.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", _dismiss)
        files.add(file.as_uri())
        page.goto(f"{file.as_uri()}{hash_}")
        return page

    yield _opened
    for profile in profiles:
        profile.close()
    assert (fetched, said) == (files, [])


@pytest.fixture
def opened(browser: "Browser") -> Iterator[Opened]:
    """Opens a file, which is to be silent."""
    with silent(browser) as _opened:
        yield _opened


@pytest.fixture
def shown(opened: Opened) -> Opened:
    """Opens the page of a run, until its charts are there."""

    def _shown(file: Path, hash_: str = "", **options: Any) -> "Page":
        page = opened(file, hash_, **options)
        page.locator("html.drawn").wait_for(state="attached")
        return page

    return _shown


def choose(page: "Page", what: str, value: str) -> None:
    """Choose a value of one of the page's menus."""
    page.get_by_role("combobox", name=what, exact=True).select_option(value)


def grave(page: "Page") -> list[tuple[str, str]]:
    """What stands in somebody's way, of all that the page has to unfold, too: the rule, and where it is broken."""
    from axe_playwright_python.sync_playwright import Axe

    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    violations = Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in violations if each["impact"] in {"serious", "critical"}]
