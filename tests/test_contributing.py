"""What CONTRIBUTING says of where things are, and of what it takes to add one, is so."""

import re
from pathlib import Path
from typing import get_args

import pytest

from attnbench.report.exports.formats import FORMATS
from attnbench.report.figures.make import KINDS
from attnbench.schema.figures import FIGURES
from attnbench.schema.suite import TableKind

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WHERE = TEXT.partition("## Where things are")[2].partition("\n## ")[0]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:attnbench|tests)/[\w/.]+)`", TEXT))))
def test_every_file_that_is_named_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("answer", re.findall(r"`(\w+(?:\.\w+)?)`[^`]* in\s+`([\w/]+\.py)`", WHERE))
def test_what_an_answer_names_is_in_the_file_that_it_names(answer: tuple[str, str]) -> None:
    name, path = answer
    text = (ROOT / path).read_text(encoding="utf-8")
    assert all(re.search(rf"\b{part}\b", text, re.IGNORECASE) for part in name.split("."))


def test_every_question_is_answered_by_at_most_three_files() -> None:
    answers = re.split(r"^- ", WHERE, flags=re.MULTILINE)[1:]
    assert len(answers) >= 5
    assert all(len(re.findall(r"[\w/]+\.py", answer)) <= 3 for answer in answers)


def test_the_examples_are_there() -> None:
    assert "first_call" in FIGURES
    assert "speedup" in get_args(TableKind)
    assert "roofline" in KINDS
    assert "otava" in FORMATS
