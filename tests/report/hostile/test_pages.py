"""Hostile names on pages: text, in a page that holds nothing but what its template does; and a browser runs nothing of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.analyze.trend import Trends
from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.report.questions.trend import page as trend_page
from tests.browser.conftest import silent
from tests.report.hostile.conftest import Bundle, unseen
from tests.report.page.reading import JSON, parsed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


ENDS = "\n\u00a0"
"""Ends of lines, and a space that is none of a name's."""


def strings(data: Any) -> list[str]:
    """Return all that a JSON document holds, keys included."""
    if isinstance(data, str):
        return [data]
    inner = [*data, *data.values()] if isinstance(data, dict) else data if isinstance(data, list) else []
    return [text for each in inner for text in strings(each)]


def started(made: Bundle, when: str) -> Findings:
    """With a start that is no date."""
    return replace(made.findings, run=made.info.model_copy(update={"started": when}))


@pytest.mark.parametrize("runs", [1, 2])
def test_the_page_holds_the_names_as_text_and_no_more(run: Bundle, plain: Bundle, runs: int) -> None:
    found, known = (parsed(page([started(each, each.nasty), each.findings][:runs])) for each in (run, plain))
    assert (found.shapes.keys() - known.shapes.keys(), found.targets - known.targets) == (set(), set())
    assert found.code == known.code
    assert (len(found.scripts), found.comments) == (len(known.scripts), known.comments)
    assert "default-src 'none'" in found.policy
    assert found.policy == known.policy
    assert unseen(found.text, ENDS) == set()
    assert "<script>alert(1)</script>" in found.text
    assert "{{ 7 * 7 }}{% raw %}" in found.text
    for text in (text for kind, text in found.scripts if kind == JSON):
        assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
        assert unseen("".join(strings(json.loads(text))), ENDS) == set()


def test_the_trend_page_holds_the_names_as_text(trends: Trends) -> None:
    found = parsed(trend_page.page(trends))
    assert (found.scripts, found.comments) == ([], [])
    assert found.elements.keys().isdisjoint({"iframe", "object", "embed", "base", "form", "b onclick"})
    assert [name for name in found.attributes if name.startswith("on")] == []
    assert all(target.startswith(("#s", "data:image/svg+xml;base64,")) for target in found.targets)
    assert "default-src 'none'" in found.policy
    assert "<script>alert(1)</script>" in found.text
    assert unseen(found.text, ENDS) == set()


HARMFUL = "img:not([src^='data:image/svg+xml;base64,']), iframe, object, embed, [onclick], [onerror], [onload]"
TOUCH_EVERYTHING = """() => {
  for (const box of document.querySelectorAll('input[type=checkbox], input[type=radio]')) box.click();
  for (const list of document.querySelectorAll('select')) {
    for (const option of list.options) {
      list.value = option.value;
      for (const kind of ['input', 'change']) list.dispatchEvent(new Event(kind, {bubbles: true}));
    }
  }
  for (const head of document.querySelectorAll('th button, th[aria-sort]')) head.click();
  for (const mark of [...document.querySelectorAll('svg circle, svg path, svg text')].slice(0, 300)) {
    for (const kind of ['pointerenter', 'pointermove', 'mouseover'])
      mark.dispatchEvent(new PointerEvent(kind, {bubbles: true}));
  }
}"""
"""Every control once, and the pointer over the first marks of the charts."""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["page", "two", "trend"])
def test_a_browser_runs_nothing_of_a_name(tmp_path: Path, run: Bundle, trends: Trends, browser: "Browser", which: str) -> None:
    file, runs = tmp_path / f"{which}.html", [run.findings] * (2 if which == "two" else 1)
    file.write_text(trend_page.page(trends) if which == "trend" else page(runs), encoding="utf-8")
    # as it is, and with a view in the address that is as hostile
    with silent(browser) as opened:
        for fragment in ("", "#methods=<img src=x onerror=alert(7)>&sort=</script>&filter=%3Cscript%3Ealert(8)"):
            found = opened(file, fragment)
            found.evaluate(TOUCH_EVERYTHING)
            found.wait_for_timeout(200)
            assert found.locator(HARMFUL).count() == 0
