"""Hostile names on pages: text, in a page that holds nothing but what its template does; and a browser runs nothing of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnbench.analyze.trend import Trends
from attnbench.report.findings import Findings
from attnbench.report.page import page
from attnbench.report.questions.trend import page as trend_page
from tests.report.hostile.conftest import Bundle, unseen
from tests.report.page.reading import JSON, Read, parsed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


ENDS = "\n\u00a0"
"""Ends of lines, and a space that is none of a name's."""


def check_html(text: str, harmless: str) -> Read:
    """Against a page of the same make, whose texts are plain."""
    found, known = parsed(text), parsed(harmless)
    assert found.shapes - known.shapes == set()
    assert found.targets - known.targets == set()
    assert found.code == known.code
    assert len(found.scripts) == len(known.scripts)
    assert found.comments == known.comments
    assert unseen(found.text, ENDS) == set()
    assert "default-src 'none'" in found.policy
    assert found.policy == known.policy
    return found


def strings(data: Any) -> Iterator[str]:
    """All that a JSON document holds, keys included."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        for value in data.values():
            yield from strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings(value)


def started(made: Bundle, when: str) -> Findings:
    """With a start that is no date."""
    return replace(made.findings, run=made.info.model_copy(update={"started": when}))


def test_the_page_holds_the_names_as_text_and_no_more(run: Bundle, plain: Bundle) -> None:
    found = check_html(page([started(run, run.nasty)]), page([started(plain, "plain")]))
    assert "<script>alert(1)</script>" in found.text
    assert "{{ 7 * 7 }}{% raw %}" in found.text
    for text in (text for kind, text in found.scripts if kind == JSON):
        assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
        assert {mark for each in strings(json.loads(text)) for mark in unseen(each, ENDS)} == set()


def test_the_page_of_several_runs_holds_no_more_either(run: Bundle, plain: Bundle) -> None:
    check_html(page([run.findings, run.findings]), page([plain.findings, plain.findings]))


def test_the_trend_page_holds_the_names_as_text(trends: Trends) -> None:
    found = parsed(trend_page.page(trends))
    assert (found.scripts, found.comments) == ([], [])
    assert {tag for tag, _ in found.shapes} & {"iframe", "object", "embed", "base", "form", "b onclick"} == set()
    assert [name for _, names in found.shapes for name in names if name.startswith("on")] == []
    assert all(target.startswith(("#s", "data:image/svg+xml;base64,")) for target in found.targets)
    assert "default-src 'none'" in found.policy
    assert "<script>alert(1)</script>" in found.text
    assert unseen(found.text, ENDS) == set()


@pytest.mark.slow
def test_a_browser_runs_nothing_of_a_name(tmp_path: Path, run: Bundle, trends: Trends, browser: "Browser") -> None:
    two = [run.findings, run.findings]
    pages = {"page": page(two[:1]), "two": page(two), "trend": trend_page.page(trends)}
    heard: list[str] = []
    for name, text in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(text, encoding="utf-8")
        _visit(browser, file.as_uri(), heard)
    assert heard == []


def _visit(browser: "Browser", address: str, heard: list[str]) -> None:
    """As it is, and with a view in the address that is as hostile."""
    for fragment in ("", "#methods=<img src=x onerror=alert(7)>&sort=</script>&filter=%3Cscript%3Ealert(8)"):
        tab = browser.new_page()
        _listen(tab, address, heard)
        tab.goto(f"{address}{fragment}", wait_until="load")
        _touch_everything(tab)
        harmful = "img:not([src^='data:image/svg+xml;base64,']), iframe, object, embed, [onclick], [onerror], [onload]"
        assert tab.evaluate("wanted => document.querySelectorAll(wanted).length", harmful) == 0
        tab.close()


def _listen(tab: Any, address: str, heard: list[str]) -> None:
    def on_dialog(dialog: Any) -> None:
        heard.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def on_request(request: Any) -> None:
        if request.url.partition("#")[0] != address:
            heard.append(f"request: {request.url}")

    def on_console(message: Any) -> None:
        if message.type == "error":
            heard.append(f"console: {message.text}")

    tab.on("dialog", on_dialog)
    tab.on("request", on_request)
    tab.on("console", on_console)
    tab.on("pageerror", lambda error: heard.append(f"error: {error}"))


def _touch_everything(tab: Any) -> None:
    """Every control once, and the pointer over the first marks of the charts."""
    tab.evaluate(
        """() => {
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
    )
    tab.wait_for_timeout(200)
