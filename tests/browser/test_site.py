"""The site of real runs in a real browser, opened from its files: nothing is fetched, everything can be reached."""

import shutil
from pathlib import Path

import pytest

from attnbench.library.maxlen import limits_of
from attnbench.report.site.build import build
from attnbench.store.run_folder import RunFolder
from tests.browser.conftest import Opened, grave

pytestmark = pytest.mark.slow
REFERENCE = Path(__file__).parents[2] / "results" / "reference"
XEON = ("xeon-2-cores/decode", "xeon-2-cores/peers_sparse_long", "xeon-2-cores/linear_memory")
RUNS = (*XEON, "epyc-2-cores/transformers_are_rnns")
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ID = "20261121-194000"
CARDS = 13


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four runs; one of them again on seven later days, as two sides of a comparison, and with names that are markup."""
    folder = tmp_path_factory.mktemp("atlas")
    results, out = folder / "results", folder / "site"
    for run in RUNS:
        shutil.copytree(REFERENCE / run, results / run)
    short, start = results / RUNS[1], '"schema_version": 1,'
    for day in range(22, 29):
        changed(short, results / f"later{day}", {ID: f"202611{day}-194000", "2026-11-21T19": f"2026-11-{day}T19"})
    for side in ("base", "new"):
        changed(short, results / side, {f"{ID}-603653": f"turns-{side}", start: f'{start} "interleaved": "turns",'})
    own = {ID: "20261123-194001", "sparse.strided_masked": HOSTILE, "Intel(R) Xeon(R) Processor": HOSTILE}
    changed(short, results / "hostile", own)
    build(results, out, limits_of)
    return out


def changed(run: Path, copy: Path, words: dict[str, str]) -> None:
    """The two files that count, with other words in them."""
    copy.mkdir()
    # what was compressed to be kept is expanded
    RunFolder(run).repair()
    for name in ("run.json", "records.jsonl"):
        text = (run / name).read_text(encoding="utf-8")
        for old, new in words.items():
            assert old in text or name == "records.jsonl"
            text = text.replace(old, new)
        (copy / name).write_text(text, encoding="utf-8")


def test_every_page_opens_from_its_file_without_a_request_or_an_error(opened: Opened, site: Path) -> None:
    (trend,), (comparison,) = site.rglob("trend.html"), site.rglob("comparison.html")
    (hostile,) = (file for file in site.rglob("index.html") if "20261123-194001" in file.parent.name)
    (run,) = (site / "decode").rglob("index.html")
    for file in (site / "index.html", run, hostile, comparison, trend):
        page = opened(file)
        page.wait_for_load_state("networkidle")
        assert page.locator("h1").count() == 1


def test_the_filter_shows_the_runs_with_all_words_the_older_ones_too_and_no_empty_heading(opened: Opened, site: Path) -> None:
    page = opened(site / "index.html")
    cards, words = page.locator("li.card:visible"), page.get_by_label("Only runs with the words")
    oldest = page.locator(f'[id$="/{ID}-603653"]')
    assert cards.count() == CARDS - 2
    assert not oldest.is_visible()
    words.fill("peers_sparse_long 19:40 2026-11-21 intel cells")
    assert cards.count() == 1
    assert oldest.is_visible()
    words.fill("DECODE 2026")
    assert cards.count() == 1
    assert page.locator("main h3:visible").all_inner_texts() == ["decode"]
    assert page.locator("#_count").inner_text() == f"1 of {CARDS}"
    words.fill("no such run")
    assert cards.count() == 0
    words.fill("")
    assert cards.count() == CARDS
    assert page.locator("#_count").inner_text() == ""


def test_without_scripts_the_list_is_whole_and_there_is_no_filter(opened: Opened, site: Path) -> None:
    page = opened(site / "index.html", java_script_enabled=False)
    page.locator("details.older > summary").click()
    assert page.locator("li.card:visible").count() == CARDS
    assert not page.locator("#_filter").is_visible()


def test_the_keyboard_gets_to_the_runs_at_once(opened: Opened, site: Path) -> None:
    page = opened(site / "index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the runs"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('li.card') !== null")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window_or_stands_in_the_way_of_anybody(opened: Opened, site: Path, scheme: str) -> None:
    for file in (site / "index.html", *site.rglob("comparison.html"), *site.rglob("trend.html")):
        page = opened(file, color_scheme=scheme)
        for width in (360, 1280, 3840):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert file.name == "trend.html" or grave(page) == []
