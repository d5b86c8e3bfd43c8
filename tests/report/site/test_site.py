"""The site as a whole: every run is listed as what it is, every link leads somewhere, nothing is dropped in silence."""

import base64
import hashlib
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from attnbench.report.site.build import Built
from attnbench.report.site.pages import margin_of
from attnbench.report.site.runs import LeftOut
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Selfcheck
from attnbench.store.run_folder import RunFolder
from attnbench.version import __version__
from tests.analyze.test_calibration import records
from tests.report.page.reading import Read
from tests.report.site.conftest import HOSTILE, Lab

GOLDEN = Path(__file__).parent / "golden" / "index.txt"
SHELF = "amd-epyc-9b14-avx512-2-cores-2-threads"
EPYC = f"quick/{SHELF}"
pytestmark = pytest.mark.usefixtures("plain")
BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "li", "dt", "title", "label", "summary", "tr"}


@dataclass
class Page(Read):
    """What a browser would make of a page; its text in lines, with the links."""

    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=lambda: [""])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.lines += [""] if tag in BLOCKS else []
        if tag == "a":
            self.links.append(given["href"])
            self.lines[-1] += "["
        if tag == "img":
            assert given["src"].startswith("data:image/svg+xml;base64,")
            self.lines += [f"({given['alt']})", ""]

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if tag == "a":
            self.lines[-1] += f"]({self.links[-1]})"
        self.lines += [""] if tag in BLOCKS else []

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if not self.raw:
            self.lines[-1] += re.sub(r"\s+", " ", data)

    @property
    def told(self) -> str:
        """Lines of text and links, without what is empty."""
        return "".join(f"{line.strip()}\n" for line in self.lines if line.strip())


def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def tree(out: Path) -> dict[str, bytes]:
    return {file.relative_to(out).as_posix(): file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.fixture
def built(results: Lab, out: Path) -> Built:
    """What was said of the site of all runs, without their records."""
    return results.build(out)


def test_the_index_says_what_was_run_where_and_when_and_what_cannot_be_read_is_left_out(built: Built, out: Path) -> None:
    assert read(out / "index.html").told.replace(__version__, "VERSION") == GOLDEN.read_text(encoding="utf-8")
    broken, lost = built.left_out
    assert broken.place == "quick/broken"
    assert broken.why.startswith("run.json cannot be read: ")
    assert lost == LeftOut("quick/lost", "it is not a run folder: run.json: No such file or directory")


def test_every_link_leads_to_a_file_of_the_site_and_every_file_can_be_reached(results: Lab, out: Path) -> None:
    results.build(out, records=True)
    found = {file: read(file) for file in out.rglob("*.html")}
    reached = {out / "index.html", out / ".attnbench-site"}
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
    shown, _, older = read(out / "index.html").told.partition("\n3 older\n")
    assert re.findall(r"\[2026-01-0(\d) 03:04", shown) == list("987654")
    assert re.findall(r"\[2026-01-0(\d) 03:04", older) == list("321")


def test_machines_that_are_called_alike_are_both_in_the_contents(lab: Lab, out: Path) -> None:
    lab.run("a", processor="AMD EPYC")
    lab.run("b", processor="AMD EPYC Processor", id="another")
    lab.build(out)
    contents, _, _ = read(out / "index.html").told.partition("\nRuns\nquick\n")
    assert contents.count("AMD EPYC, AVX512, 2 cores, 2 threads\n[quick](#quick/amd-epyc-avx512-2-cores-2-threads") == 2
    one, other = sorted(folder.name for folder in (out / "quick").iterdir())
    assert one == "amd-epyc-avx512-2-cores-2-threads"
    assert other.startswith(f"{one}-")


def test_figures_and_texts_go_along_and_records_only_where_that_is_asked_for(results: Lab, out: Path) -> None:
    results.build(out)
    files, run = set(tree(out)), f"{EPYC}/20260103-030405-abcdef"
    assert {f"{run}/forward/time.png", f"{run}/forward/time.txt", f"{run}/profile.md"} <= files
    assert not any(name.endswith((".jsonl", "run.json")) for name in files)
    assert "The records that all of it is made from are not here." in read(out / "index.html").told
    results.build(out, records=True)
    assert {f"{run}/records.jsonl", f"{run}/run.json"} <= set(tree(out))
    assert "The records that all of it is made from are here too" in read(out / "index.html").told


def test_a_link_in_a_run_folder_does_not_publish_what_it_leads_to(lab: Lab, out: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("a secret")
    run = lab.run("a")
    (run / "caption.txt").symlink_to(secret / "key.txt")
    (run / "forward").symlink_to(secret)
    assert LeftOut("a/caption.txt", "a link to somewhere else") in lab.build(out).left_out
    assert not any(b"a secret" in content for content in tree(out).values())


def test_a_run_that_is_there_twice_is_shown_once_with_the_most_records(lab: Lab, out: Path) -> None:
    whole = lab.run("new/run")
    shutil.copytree(whole, lab.results / "a-copy")
    (lab.results / "a-copy/records.jsonl").write_text("")
    # folders that go round in a circle come to an end
    (lab.results / "again").symlink_to(lab.results)
    built = lab.build(out)
    assert built.extent == "1 run of 1 suite on 1 machine, 2026-01-01"
    assert built.left_out == (LeftOut("a-copy", "the same run as new/run, which is shown"),)
    assert "6 cells: 6 ok" in read(out / "index.html").told


def test_a_run_within_the_folder_of_another_is_a_run_of_its_own(lab: Lab, out: Path) -> None:
    lab.run("a", day=1)
    inner = lab.run("a/inner", day=2)
    (inner / "caption.txt").write_text("of the inner one")
    assert lab.build(out).extent.startswith("2 runs ")
    (copied,) = out.rglob("caption.txt")
    assert copied.parent.name == "20260102-030405-abcdef"


@pytest.mark.usefixtures("built")
def test_whatever_is_in_a_name_is_inert_and_no_script_or_style_may_run_but_those_of_the_page(out: Path) -> None:
    page, text = read(out / "index.html"), (out / "index.html").read_text()
    shown = {"html", "head", "meta", "title", "link", "style", "script", "body", "header", "nav", "main", "section", "footer"}
    shown |= {"h1", "h2", "h3", "h4", "h5", "p", "a", "ul", "li", "span", "div", "form", "label", "input", "output"}
    shown |= {"details", "summary", "img", "dl", "dt", "dd"}
    assert page.elements.keys() <= shown
    assert not any(name.startswith("on") or name == "style" for name in page.attributes)
    # of the machine, the commit and the methods; the id is in the title of its page alone
    assert page.told.count(HOSTILE) >= 3
    assert all(not link.startswith(("javascript:", "data:", "/", "..")) for link in page.links)
    names = (name for file in tree(out) for name in file.split("/"))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)
    rules = page.policy.split("; ")
    assert rules[0] == "default-src 'none'"
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in rules
    assert not any("http" in rule or "unsafe" in rule for rule in rules)


# folders of commands that measure for a purpose have their own words and tables


def text_of(file: Path) -> str:
    return " ".join(file.read_text(encoding="utf-8").split())


def index_of(lab: Lab, out: Path) -> str:
    lab.build(out)
    return text_of(out / "index.html")


def side(lab: Lab, name: str, **changes: Any) -> Path:
    own = {"id": f"turns-{name}", "interleaved": "turns", "command": "attnbench gate quick --base main --margin 25%"}
    return lab.run(f"quick/{name}", **{**own, **changes})


def test_two_commits_measured_in_turns_are_one_card_with_the_judgement_beside_the_runs(lab: Lab, out: Path) -> None:
    lab.run("quick/a")
    side(lab, "base", git={"commit": "a" * 40, "dirty": False})
    side(lab, "new", git={"commit": "b" * 40, "dirty": True})
    index = index_of(lab, out)
    assert "Comparisons of two commits" in index
    assert index.index('<h2 id="_run">Runs</h2>') < index.index('<h2 id="_comparison">')
    assert f'id="quick/{SHELF}"' in index
    assert f'id="_comparison/quick/{SHELF}"' in index
    assert "bbbbbbbbbb+ against aaaaaaaaaa: 6 SAME." in index
    assert "with a margin of 25%." in index
    assert index.count('<li class="card"') == 2
    base, new = (out / "quick" / SHELF / f"turns-{name}" for name in ("base", "new"))
    assert "Comparison of two commits" in text_of(new / "comparison.html")
    assert 'href="../../../index.html"' in text_of(new / "comparison.html")
    assert (new / "comparison.csv").read_text().count("\n") == 7
    assert (base / "index.html").is_file()
    assert (new / "index.html").is_file()


@pytest.mark.parametrize("broken", [False, True], ids=["the other is not there", "the other cannot be read"])
def test_one_side_alone_is_shown_and_said_to_be_one(lab: Lab, out: Path, broken: bool) -> None:
    side(lab, "new")
    if broken:
        records = side(lab, "base") / "records.jsonl"
        records.unlink()
        records.mkdir()
    left_out = [(each.place, each.why) for each in lab.build(out).left_out]
    assert left_out == [("quick/base", "cannot read records.jsonl: Is a directory")] * broken
    assert "The other side of this comparison is not here." in text_of(out / "index.html")


@pytest.mark.parametrize(
    ("command", "margin"),
    [
        ("attnbench gate quick --base main --margin 25%", 0.25),
        ("attnbench compare --live main --margin=0.1", 0.1),
        ("attnbench gate quick --base main", 0.05),
        ("attnbench gate quick --margin much", 0.05),
        ("attnbench gate quick --margin 0", 0.05),
        ("attnbench gate o'brien.yaml --margin 25%", 0.25),
    ],
)
def test_the_margin_is_the_one_that_was_asked_for(command: str, margin: float) -> None:
    assert margin_of(command) == pytest.approx(margin)


def test_a_crossover_that_was_measured_is_no_run_of_the_suite_and_has_no_trend(lab: Lab, out: Path) -> None:
    for day in (1, 2):
        command = "attnbench crossover quick --of a --over b --measure"
        lab.run(f"crossover-quick/{day}", suite="crossover-quick", day=day, command=command)
    index = index_of(lab, out)
    assert '<h2 id="_crossover">Crossovers</h2>' in index
    assert '<h2 id="_run">' not in index
    assert 'id="_crossover/crossover-quick"' in index
    assert not list(out.rglob("trend.html"))


def test_a_search_for_the_longest_sequence_has_its_table(lab: Lab, out: Path) -> None:
    made = lab.small()
    info = lab.info(made, "maxlen-quick", 1, command="attnbench maxlen o'brien/quick.yaml (from Python)")
    first = [cell for cell in info.cells if cell.problem.N == 512]
    records, full = list[Record](), Failed(status=Status.OOM_HOST, reason="memory limit of 17.2 GB reached")
    for cell in first:
        for N, fits in ((512, True), (1024, cell.method == "linear.chunked")):
            outcome = Measured(facts={"B": 1, "seconds": 0.125}) if fits else full
            records.append(made.record(cell.reshaped(N=N), outcome, phase=Pass.FIT))
    lab.write("maxlen-quick/a", info.model_copy(update={"cells": tuple(first)}), records)
    index = index_of(lab, out)
    assert '<h2 id="_limits">Longest sequences, largest batches</h2>' in index
    assert "Largest N that fits: forward, causal, float32: softmax.sdpa at least 512; linear.chunked(chunk=64)" in index
    (page,) = (out / "maxlen-quick").rglob("index.html")
    assert "memory (OOM at 1,024)" in text_of(page)
    assert sorted(file.name for file in page.parent.iterdir()) == ["index.html", "maxlen.csv", "maxlen.md", "maxlen.tex"]


def test_a_selfcheck_has_its_own_words_and_tables_and_is_left_out_without_its_plan(lab: Lab, out: Path) -> None:
    made = lab.small()
    info = lab.info(made, "selfcheck", 1, command="attnbench selfcheck --verdicts 4")
    cell = info.cells[0]
    plan = Selfcheck(sides=(cell, cell), verdicts=4, replicates=3)
    folder = lab.write("selfcheck/a", info.model_copy(update={"cells": (cell,)}), records(plan))
    RunFolder(folder).keep_plan(plan)
    (folder / "selfcheck.json").write_text("{}")
    lab.run("a")
    index = index_of(lab, out)
    assert '<h2 id="_selfcheck">Selfchecks</h2>' in index
    assert "selfcheck of softmax.sdpa: forward, causal, float32" in index
    assert "nothing differs between the sides, so whatever is found to differ is a false alarm" in index
    (page,) = (out / "selfcheck").rglob("index.html")
    assert "<h1>selfcheck of softmax.sdpa</h1>" in text_of(page)
    assert "false alarms, margin 5%" in text_of(page)
    assert sorted(file.name for file in page.parent.iterdir()) == ["index.html", "selfcheck.json", "selfcheck.md"]
    (folder / "plan.json").unlink()
    why = "it is not the folder of a selfcheck: plan.json: No such file or directory"
    assert [(each.place, each.why) for each in lab.build(out).left_out] == [("selfcheck/a", why)]
