"""What CONTRIBUTING says of where things are is so."""

import re
from pathlib import Path

import pytest

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
