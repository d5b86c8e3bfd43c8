"""The site as a whole: every run has its page, every link leads somewhere, nothing is dropped in silence."""

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from attnbench.report.site.build import Built
from attnbench.report.site.runs import LeftOut
from attnbench.version import __version__
from tests.report.site.conftest import Lab

ASSETS = Path(__file__).parents[3] / "attnbench" / "report" / "site" / "assets"
GOLDEN = Path(__file__).parent / "golden" / "index.txt"
EPYC = "quick/amd-epyc-9b14-2-cores-2-threads"
pytestmark = pytest.mark.usefixtures("plain")
HOSTILE = "<script>alert(1)</script>"
BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "li", "dt", "title", "label", "summary", "tr"}


class Page(HTMLParser):
    """What a browser would make of a page, as far as tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.inline: dict[str, str] = {}
        self.lines = [""]
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.attributes |= set(given)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self._within = tag if tag in {"script", "style"} else ""
        self._begin(tag)
        if tag == "a":
            self.lines[-1] += "["
            self._href = given["href"]
        if tag == "img":
            assert given["src"].startswith("data:image/svg+xml;base64,")
            self.lines += [f"({given['alt']})", ""]

    def handle_endtag(self, tag: str) -> None:
        self._within = ""
        if tag == "a":
            self.lines[-1] += f"]({self._href})"
        self._begin(tag)

    def handle_data(self, data: str) -> None:
        if self._within:
            self.inline[self._within] = data
        else:
            self.lines[-1] += re.sub(r"\s+", " ", data)

    def _begin(self, tag: str) -> None:
        if tag in BLOCKS:
            self.lines.append("")

    @property
    def text(self) -> str:
        """Lines of text and links, without what is empty."""
        return "".join(f"{line.strip()}\n" for line in self.lines if line.strip())


def pages(out: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text(encoding="utf-8")) for file in sorted(out.rglob("*.html"))}


def index(out: Path) -> Page:
    return Page((out / "index.html").read_text(encoding="utf-8"))


def tree(out: Path) -> dict[str, bytes]:
    return {file.relative_to(out).as_posix(): file.read_bytes() for file in out.rglob("*") if file.is_file()}


@dataclass(frozen=True)
class Made:
    """A site: what was said of it, where it is, and where its runs are."""

    built: Built
    out: Path
    runs: Path


Site = Callable[..., Made]
_SITES: dict[bool, Made] = {}
"""By whether the records go along."""


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site of all runs, made once for those who only look."""

    def _site(*, records: bool = False) -> Made:
        if records not in _SITES:
            lab, out = request.getfixturevalue("results"), tmp_path_factory.mktemp("looked-at") / "site"
            _SITES[records] = Made(lab.build(out, records=records), out, lab.results)
        return _SITES[records]

    return _site


def test_the_index_says_what_was_run_where_and_when(site: Site) -> None:
    out = site().out
    assert index(out).text.replace(__version__, "VERSION") == GOLDEN.read_text(encoding="utf-8")


def test_every_link_leads_to_a_file_of_the_site_and_every_file_can_be_reached(site: Site) -> None:
    out = site(records=True).out
    found, reached = pages(out), {out / "index.html", out / ".attnbench-site"}
    for file, page in found.items():
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            path, fragment = urldefrag(link)
            target = (file.parent / unquote(path)).resolve() if path else file
            assert target.is_relative_to(out.resolve())
            assert target.is_file(), link
            assert not fragment or unquote(fragment) in found[target].ids
            reached.add(target)
        if file.name == "index.html" and file.parent != out:
            assert (file.parent / page.links[0]).resolve() == (out / "index.html").resolve()
            assert all((file.parent / f"table.{form}").stat().st_size > 100 for form in ("csv", "md", "tex"))
    # three runs of one suite and machine have a trend, a single one has none
    assert [file.parent for file in out.rglob("trend.html")] == [out / EPYC]
    assert "3 runs, 2026-01-01 to 2026-01-03" in (out / EPYC / "trend.html").read_text()
    assert reached == {file for file in out.rglob("*") if file.is_file()}


def test_the_same_runs_give_the_same_bytes(results: Lab, out: Path) -> None:
    results.build(out)
    results.build(out.with_name("again"))
    results.build(out)
    assert tree(out) == tree(out.with_name("again"))


def test_what_cannot_be_read_is_left_out_and_said_on_the_index_too(site: Site) -> None:
    made = site()
    assert [each.place for each in made.built.left_out] == ["quick/broken", "quick/lost"]
    broken, lost = made.built.left_out
    assert broken.why.startswith("run.json cannot be read: ")
    assert lost == LeftOut("quick/lost", "it is not a run folder: run.json: No such file or directory")
    for each in (broken, lost):
        assert f"\n{each.place}: {each.why}\n" in index(made.out).text
    assert str(made.runs) not in (made.out / "index.html").read_text()


def test_a_date_that_is_none_leaves_out_the_run_and_nothing_else(lab: Lab, out: Path) -> None:
    lab.run("a", day=1)
    lab.run("b", day=2, started="yesterday")
    (left,) = lab.build(out).left_out
    assert left.place == "b"
    assert "yesterday" in left.why


def test_of_many_runs_the_newest_are_shown_at_once_and_the_older_ones_a_click_away(lab: Lab, out: Path) -> None:
    for day in range(1, 10):
        lab.run(f"quick/{day}", day=day)
    lab.build(out)
    shown, _, older = index(out).text.partition("\n3 older\n")
    assert [date[-2:] for date in re.findall(r"\[(2026-01-\d\d) 03:04", shown)] == ["09", "08", "07", "06", "05", "04"]
    assert [date[-2:] for date in re.findall(r"\[(2026-01-\d\d) 03:04", older)] == ["03", "02", "01"]


def test_machines_that_are_called_alike_are_both_in_the_contents(lab: Lab, out: Path) -> None:
    lab.run("a", processor="AMD EPYC")
    lab.run("b", processor="AMD EPYC Processor", id="another")
    lab.build(out)
    contents, _, _ = index(out).text.partition("\nRuns\nquick\n")
    assert contents.count("AMD EPYC, 2 cores, 2 threads\n[quick](#quick/amd-epyc-2-cores-2-threads") == 2
    assert sorted(folder.name[:27] for folder in (out / "quick").iterdir()) == [
        "amd-epyc-2-cores-2-threads",
        "amd-epyc-2-cores-2-threads-",
    ]


def test_figures_and_texts_go_along_and_records_only_where_that_is_asked_for(site: Site) -> None:
    out = site().out
    files = set(tree(out))
    run = f"{EPYC}/20260103-030405-abcdef"
    assert {f"{run}/forward/time.png", f"{run}/forward/time.txt", f"{run}/profile.md"} <= files
    assert not any(name.endswith((".jsonl", "run.json")) for name in files)
    assert "The records that all of it is made from are not here." in index(out).text
    out = site(records=True).out
    assert {f"{run}/records.jsonl", f"{run}/run.json"} <= set(tree(out))
    assert "The records that all of it is made from are here too" in index(out).text


def test_a_link_in_a_run_folder_does_not_publish_what_it_leads_to(lab: Lab, out: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("a secret")
    run = lab.run("a")
    (run / "caption.txt").symlink_to(secret / "key.txt")
    (run / "forward").symlink_to(secret)
    built = lab.build(out)
    assert LeftOut("a/caption.txt", "a link to somewhere else") in built.left_out
    assert not any(b"a secret" in content for content in tree(out).values())


def test_a_run_that_is_there_twice_is_shown_once_with_the_most_records(lab: Lab, out: Path) -> None:
    whole = lab.run("new/run")
    shutil.copytree(whole, lab.results / "a-copy")
    (lab.results / "a-copy/records.jsonl").write_text("")
    built = lab.build(out)
    assert built.extent == "1 run of 1 suite on 1 machine, 2026-01-01"
    assert built.left_out == (LeftOut("a-copy", "the same run as new/run, which is shown"),)
    assert "6 cells: 6 ok" in index(out).text


def test_folders_that_go_round_in_a_circle_come_to_an_end(lab: Lab, out: Path) -> None:
    lab.run("a")
    (lab.results / "again").symlink_to(lab.results)
    built = lab.build(out)
    assert built.extent.startswith("1 run ")
    assert built.left_out == ()


def test_a_run_within_the_folder_of_another_is_a_run_of_its_own(lab: Lab, out: Path) -> None:
    lab.run("a", day=1)
    inner = lab.run("a/inner", day=2)
    (inner / "caption.txt").write_text("of the inner one")
    assert lab.build(out).extent.startswith("2 runs ")
    (copied,) = out.rglob("caption.txt")
    assert copied.parent.name == "20260102-030405-abcdef"


def test_whatever_is_in_a_name_is_inert(site: Site) -> None:
    out = site().out
    page = index(out)
    shown = {"html", "head", "meta", "title", "link", "style", "script", "body", "header", "nav", "main", "section", "footer"}
    shown |= {"h1", "h2", "h3", "h4", "h5", "p", "a", "ul", "li", "span", "div", "form", "label", "input", "output"}
    shown |= {"details", "summary", "img", "dl", "dt", "dd"}
    assert page.tags <= shown
    assert not any(name.startswith("on") or name == "style" for name in page.attributes)
    # of the machine, the commit and the methods; the id is in the title of its page alone
    assert page.text.count(HOSTILE) >= 3
    assert all(not link.startswith(("javascript:", "data:", "/", "..")) for link in page.links)
    names = (name for file in tree(out) for name in file.split("/"))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)


def test_the_policy_lets_in_the_inline_script_and_style_and_nothing_else(site: Site) -> None:
    out = site().out
    text = (out / "index.html").read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = policy.replace("&#39;", "'").split("; ")
    digests = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
        for name, content in index(out).inline.items()
    }
    assert rules[0] == "default-src 'none'"
    assert f"script-src {digests['script']}" in rules
    assert f"style-src {digests['style']}" in rules
    assert not any("http" in rule or "unsafe" in rule for rule in rules)


@pytest.mark.slow
def test_the_script_passes_the_type_checker(tmp_path: Path) -> None:
    subprocess.run(["npm", "install", "--silent", "--prefix", tmp_path, "typescript@5"], check=True, capture_output=True)
    options = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]
    command = [str(tmp_path / "node_modules/.bin/tsc"), *options, str(ASSETS / "filter.js")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
