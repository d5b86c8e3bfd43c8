"""Names, reasons and facts come from users and are data: inert in every text of a run, and what is around them stays whole.

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

import pytest
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from attnbench.analyze.crossover import Versus
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
from attnbench.report.questions.comparison.judgement import Judgement, judge_runs
from attnbench.report.questions.comparison.table import comparison_csv, comparison_table, job_summary
from attnbench.report.questions.comparison.table import console as comparison_console
from attnbench.report.questions.crossover.table import crossover_csv, crossover_tables, lines
from attnbench.report.questions.trend import words as trend_words
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.names import ascii_only
from attnbench.report.text.table import Table, wrapped
from tests.report.hostile.conftest import Bundle, unseen
from tests.report.papers import compiled
from tests.report.questions.test_crossover import compared

BLOCKS = ("heading", "table", "thead", "tbody", "tr", "th", "td", "inline", "bullet_list", "list_item", "paragraph")


@pytest.fixture
def judgement(run: Bundle) -> Judgement:
    other = run.info.model_copy(update={"id": f"other {run.nasty}", "command": "x"})
    return judge_runs(run.findings, replace(run.findings, run=other), 0.05, LEVEL)


@pytest.fixture
def pairs(run: Bundle) -> list[Versus]:
    return compared(run.findings)


# CSV


def check_csv(text: str) -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(text), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(rows) == len(text.splitlines()), "a cell has several lines"
    assert [
        cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r"))
    ] == []
    assert unseen(text) == set()
    return rows


def test_no_cell_of_the_table_is_a_formula(run: Bundle, judgement: Judgement, pairs: list[Versus]) -> None:
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
    head = f"\\documentclass[10pt]{{article}}\n\\usepackage[margin=1cm,landscape]{{geometry}}\n{packages}"
    assert "(/etc/passwd" not in compiled(tmp_path, head, r"\input{table.tex}")
    seen = subprocess.run(["pdftotext", "-layout", "paper.pdf", "-"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "root:x:0" not in seen.stdout
    assert all(word in seen.stdout for word in ("alert(1)", "/etc/passwd", "onerror=alert(2)", "=cmd()", "@SUM(A1)", "../../x"))


# text


def test_a_terminal_gets_no_control_character(run: Bundle, judgement: Judgement, pairs: list[Versus], trends: Trends) -> None:
    compared = comparison_console(judgement)
    for unicode in (True, False):
        texts = [console.summary(run.findings, unicode=unicode), compared if unicode else ascii_only(compared)]
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
    for name, content in FORMATS[form].make([Source(Findings.of(info, run.records), run.records)]).files.items():
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
