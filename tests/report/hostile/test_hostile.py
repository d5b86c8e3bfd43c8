"""Names, reasons and facts come from users and are data: inert in every text and page, and what is around them stays whole.

Text that would be markup, a path, a formula or a control character stands wherever a run has room for text.
"""

import csv
import io
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import recorded
from attnbench.analyze.speedup import baseline
from attnbench.analyze.trend import Trends
from attnbench.analyze.verdict import LEVEL
from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.exports.exchange import Source
from attnbench.report.exports.formats import FORMATS
from attnbench.report.figures.make import folder_files
from attnbench.report.findings import Findings
from attnbench.report.frame import csv as long_csv
from attnbench.report.headline import headlines
from attnbench.report.page import page
from attnbench.report.questions.comparison.judgement import Judgement, judge_runs
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table, job_summary
from attnbench.report.questions.comparison.table import console as comparison_console
from attnbench.report.questions.crossover.table import crossover_csv, crossover_tables, lines
from attnbench.report.questions.trend import page as trend_page
from attnbench.report.questions.trend import words as trend_words
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.table import Table, wrapped
from tests.browser.conftest import Watched
from tests.report.hostile.conftest import Bundle, unseen
from tests.report.page.reading import JSON, parsed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")
BLOCKS = ("heading", "table", "thead", "tbody", "tr", "th", "td", "inline", "bullet_list", "list_item", "paragraph")


@pytest.fixture
def judgement(run: Bundle) -> Judgement:
    other = run.info.model_copy(update={"id": f"other {run.nasty}", "command": "x"})
    sides = [(info, run.findings.summaries) for info in (run.info, other)]
    return judge_runs(sides[0], sides[1], 0.05, LEVEL)


@pytest.fixture
def pairs(run: Bundle) -> list[Versus]:
    time = recorded(run.findings.summaries)["time"]
    bases = [(section, baseline(section)) for section in run.findings.sections]
    return [Versus(s, label, base, time) for s, base in bases if base is not None for label in s.series if label != base]


# CSV


def check_csv(text: str) -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(text), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(rows) == len(text.splitlines()), "a cell has several lines"
    assert [cell for row in rows for cell in row if cell.startswith(FORMULA)] == []
    assert unseen(text) == set()
    return rows


def test_no_cell_of_csv_is_a_formula(run: Bundle, judgement: Judgement, pairs: list[Versus]) -> None:
    rows = check_csv(long_csv(run.findings))
    assert len(rows) == 1 + len(run.info.cells)
    methods = {row[rows[0].index("method")] for row in rows}
    assert {"'=cmd()", "'+1", "'-1", "'@SUM(A1)", "'＝cmd()", "'=cmd()|' /C calc'!A0", "a|b||c", "x" * 10_000} <= methods
    check_csv(comparison_csv(judgement))
    check_csv(crossover_csv(pairs))


# Markdown


def check_markdown(text: str, count: int) -> set[str]:
    """The texts of a page of so many tables, each with its notes in one list, and one more on how all was measured."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert {token.type.removesuffix("_open").removesuffix("_close") for token in tokens} <= set(BLOCKS)
    types = [token.type for token in tokens]
    assert types.count("table_open") == count
    assert types.count("bullet_list_open") <= count + ("\n## How it was measured\n" in text)
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children or []}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    for grid in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        pipes = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in grid.splitlines()}
        assert len(pipes) == 1, grid
    assert unseen(text) == set()
    return {"".join(child.content for child in token.children or []) for token in inline}


def test_markdown_shows_every_name_as_it_is(run: Bundle, judgement: Judgement, pairs: list[Versus]) -> None:
    texts = tables(run.findings)
    text = markdown.markdown(texts, f"synthetic, run {run.nasty}", "", measured(run.findings))
    shown = check_markdown(text, len(texts))
    assert set(run.findings.names.values()) <= shown
    assert any(name.startswith("<script>alert(1)</script>") for name in shown)
    check_markdown(markdown.markdown([comparison_table(judgement)], "x"), 1)
    check_markdown(job_summary(judgement, run.nasty), 1)
    crossovers = crossover_tables(run.findings, pairs)
    check_markdown(markdown.markdown(crossovers, run.nasty), len(crossovers))


# LaTeX


def test_latex_has_no_command_of_a_name(run: Bundle, judgement: Judgement, pairs: list[Versus]) -> None:
    for texts in (tables(run.findings), [comparison_table(judgement)], crossover_tables(run.findings, pairs)):
        text = latex.latex(texts)
        assert text.isascii()
        assert not re.search(r"\\(input|immediate|write)", text)
        assert "^^" not in text
        bare = re.sub(r"\\\\|\\[{}]", "", text)
        assert bare.count("{") == bare.count("}")
        # a bracket after the end of a line would be its option
        assert not re.search(r"\\\\\s*[\[*]", text)


@pytest.mark.slow
def test_the_tables_compile_and_the_names_can_be_read(tmp_path: Path, run: Bundle, judgement: Judgement) -> None:
    texts: list[Table] = [*tables(run.findings), comparison_table(judgement)]
    table = latex.latex(texts)
    (tmp_path / "table.tex").write_text(table, encoding="utf-8")
    packages = "\n".join(re.findall(r"\\usepackage(?:\[[^\]]*\])?\{[^}]*\}", table))
    head = f"\\documentclass[10pt]{{article}}\n\\usepackage[margin=1cm,landscape]{{geometry}}\n{packages}\n"
    (tmp_path / "paper.tex").write_text(f"{head}\\begin{{document}}\n\\input{{table.tex}}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "(/etc/passwd" not in done.stdout
    seen = subprocess.run(["pdftotext", "-layout", "paper.pdf", "-"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "root:x:0" not in seen.stdout
    assert all(word in seen.stdout for word in ("alert(1)", "/etc/passwd", "onerror=alert(2)", "=cmd()", "@SUM(A1)", "../../x"))


# text


def test_a_terminal_gets_no_control_character(run: Bundle, judgement: Judgement, pairs: list[Versus], trends: Trends) -> None:
    for unicode in (True, False):
        texts = [console.summary(run.findings, unicode=unicode), comparison_console(judgement, unicode=unicode)]
        assert max(len(line) for text in texts for line in text.splitlines()) <= 80
        for text in (*texts, trend_words.console(trends, unicode=unicode)):
            assert unseen(text) == set()
            assert unicode or text.isascii()
    assert unseen("\n".join(wrapped(line) for line in lines(run.findings, pairs))) == set()
    # the sentences of result are one line each
    said = headlines(run.findings)
    assert len(said) == len(run.findings.sections)
    assert all(line.isprintable() for line in said)
    assert any("softmax.[x]" in line for line in said)


def test_captions_and_drawings_hold_no_more_than_text(run: Bundle) -> None:
    section = next(section for section in run.findings.sections if not section.causal)
    # in one panel, not in one for each family: the device of a name is in its title
    labels = [label for label, series in section.series.items() if any(cell.ok for cell in series)][: FOLDER.methods - 1]
    few = replace(section, summaries=tuple(cell for cell in section.summaries if cell.cell.label in labels))
    files = {name.rpartition(".")[2]: content for name, content in folder_files(replace(run.findings, sections=(few,))).items()}
    assert unseen(files["txt"].decode()) == set()
    elements = list(ET.fromstring(files["svg"]).iter())
    assert {e.tag.rpartition("}")[2] for e in elements} & {"script", "foreignObject", "image", "a", "iframe"} == set()
    assert [name for e in elements for name in e.attrib if name.rpartition("}")[2].startswith("on")] == []


# exports


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if form.text])
def test_exports_are_whole_and_their_names_plain(run: Bundle, form: str) -> None:
    # a commit is a hash wherever one is needed
    info = run.info.model_copy(update={"git": {"commit": "ab" * 20, "dirty": False}})
    source = Source(Findings.of(info, run.records), run.records)
    for name, content in FORMATS[form].make([source]).files.items():
        text = content.decode()
        assert re.fullmatch(r"[\w./+-]+", name)
        assert ".." not in name
        if name.endswith(".csv"):
            check_csv(text)
        elif name.endswith(".yaml"):
            assert YAML(typ="safe", pure=True).load(text)
        else:
            assert json.loads(text)
        assert unseen(text) == set()


# pages: text, in a page that holds nothing but what its template does


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
def test_the_page_holds_the_names_as_text_and_no_more_than_one_with_plain_names(run: Bundle, plain: Bundle, runs: int) -> None:
    found, known = (parsed(page([started(each, each.nasty), each.findings][:runs])) for each in (run, plain))
    assert found.shapes.keys() - known.shapes.keys() == set()
    assert found.targets - known.targets == set()
    assert found.code == known.code
    assert len(found.scripts) == len(known.scripts)
    assert found.comments == known.comments
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
    for fragment in ("", "#methods=<img src=x onerror=alert(7)>&sort=</script>&filter=%3Cscript%3Ealert(8)"):
        found = Watched(browser.new_page())
        found.page.goto(f"{file.as_uri()}{fragment}", wait_until="load")
        found.page.evaluate(TOUCH_EVERYTHING)
        found.page.wait_for_timeout(200)
        assert found.page.locator(HARMFUL).count() == 0
        assert {url.partition("#")[0] for url in found.requests} == {file.as_uri()}
        assert found.messages == found.dialogs == []
        found.page.close()
