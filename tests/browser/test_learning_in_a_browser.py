"""The page of a run that trains and generates, in a real browser."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.schema.cell import Workload
from attnbench.schema.training import Task, Training
from tests.browser.conftest import LEARNING, Opened, choose, page_of, plan

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def chart(page: "Page") -> str:
    return page.locator("#scaling-charts .chart").first.get_attribute("aria-label") or ""


def options(page: "Page", name: str) -> list[str]:
    return page.get_by_role("combobox", name=name, exact=True).locator("option").all_inner_texts()


def marks(page: "Page") -> list[int]:
    """How many lines there are, and levels of chance."""
    return [page.locator(f"#scaling-charts g[data-mark={mark}] > *").count() for mark in ("line", "rule")]


def test_it_begins_with_what_was_learnt_and_shows_each_workload(learnt: Path, shown: Opened) -> None:
    page = shown(learnt)
    assert page.locator("#scaling-head").inner_text() == "How it learns"
    assert "held-out loss, nats over updates" in chart(page)
    assert page.locator("#learning-about").is_visible()
    assert page.locator("#scaling-about").is_hidden()
    assert marks(page) == [3, 1]
    images = page.locator("#scaling .chosen .drawings img")
    sizes = images.evaluate_all("all => all.map(each => [each.complete, each.naturalWidth, each.naturalHeight])")
    assert sizes == [[True, 26, 26]] * 3
    for workload in ("generate", "forward", "train"):
        choose(page, "Workload", workload)


def test_errors_can_be_shown_on_either_scale(tmp_path: Path, shown: Opened) -> None:
    speech = (Training(task=Task.SPEECH),)
    hearing = plan(LEARNING, lengths=(64, 128), causal=(False,), workloads=(Workload.TRAIN,), trainings=speech)
    page, other = shown(page_of(tmp_path / "index.html", hearing)), tmp_path / "other.html"
    # chance is that of the length that is shown, the longest
    other.write_text((tmp_path / "index.html").read_text().replace('"chance":', '"chance":9', 1))
    assert len({each.locator("#scaling-charts").inner_html() for each in (page, shown(other))}) == 1
    choose(page, "Learnt", "error_rate")
    assert "held-out error rate" in chart(page)
    assert options(page, "Learnt") == ["loss", "error rate"]
    for scale in ("log", "linear"):
        choose(page, "Values", scale)
        assert marks(page) == [3, 1]
    assert "curve=error_rate" in page.url


def test_curves_go_over_time_and_accuracy_can_be_shown(learnt: Path, shown: Opened) -> None:
    page = shown(learnt)
    choose(page, "Over", "seconds")
    assert "over time of training" in chart(page)
    choose(page, "Conditions", next(text for text in options(page, "Conditions") if "copy" in text))
    choose(page, "Learnt", "accuracy")
    assert "held-out accuracy" in chart(page)
    assert page.get_by_role("combobox", name="Values", exact=True).count() == 0
    for word in ("over=seconds", "curve=accuracy"):
        assert word in page.url
    assert chart(shown(learnt, f"#{page.url.partition('#')[2]}")) == chart(page)
    choose(page, "Over", "N")
    assert page.locator("#scaling-head").inner_text() == "How it grows with length"


def test_a_point_says_when_and_how_much_and_can_be_reached_by_keys(learnt: Path, shown: Opened) -> None:
    page = shown(learnt)
    page.locator("#scaling-charts .chart").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    assert re.search(r"after 3,000 updates\s+held-out loss, nats 0\.0\d+", page.locator("#tip").inner_text())
    assert "after 3,000 updates" in page.locator("#said").inner_text()


def test_what_was_learnt_is_weighed_against_what_making_images_costs(learnt: Path, shown: Opened) -> None:
    page = shown(learnt, "#workload=generate&loss=bits")
    label = page.locator("#weighing-charts .chart").get_attribute("aria-label") or ""
    assert label.startswith("bits per dimension or byte by time per sequence at N = 64: 3 methods")
