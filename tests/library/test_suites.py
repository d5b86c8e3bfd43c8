"""The suites that ship: listed with what they are for, and copied to be changed."""

from pathlib import Path

import pytest

import attnbench
from attnbench.suite.load import load, shipped


def test_every_suite_says_in_a_sentence_what_it_is_for() -> None:
    found = attnbench.suites()
    assert found.keys() == shipped().keys()
    assert all(about[0].isupper() and about.endswith((".", "?", ")")) and "#" not in about for about in found.values())


def test_a_copy_is_a_suite_and_is_never_written_over_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy = attnbench.copy_suite("quick")
    assert copy == Path("quick.yaml")
    assert load("quick.yaml").suite == load(shipped()["quick"]).suite
    copy.write_text("mine")
    with pytest.raises(attnbench.UsageError, match=r"quick\.yaml is there already, and is not overwritten"):
        attnbench.copy_suite("quick")
    assert copy.read_text() == "mine"
    assert attnbench.copy_suite("quick", tmp_path / "b.yaml").is_file()
    with pytest.raises(attnbench.UsageError, match=r"to=.*: No such file or directory"):
        attnbench.copy_suite("quick", tmp_path / "none" / "b.yaml")
    with pytest.raises(attnbench.UsageError, match="did you mean 'quick'"):
        attnbench.copy_suite("quikc")


@pytest.mark.slow
def test_methods_are_listed_by_pattern_family_and_what_is_installed() -> None:
    assert list(attnbench.methods("softmax.s*")) == sorted(attnbench.methods("softmax.s*", family="softmax"))
    assert {name.partition(".")[0] for name in attnbench.methods(family="vq")} == {"vq"}
    every, there = attnbench.methods("linear.*"), attnbench.methods("linear.*", available=True)
    assert "linear.performer_pytorch" in every
    assert "linear.performer_pytorch" not in there
    assert "linear.chunked" in there
    with pytest.raises(attnbench.UsageError, match="did you mean 'linear'"):
        attnbench.methods(family="liner")
    with pytest.raises(attnbench.UsageError, match=r"no method 'linear\.chunky'"):
        attnbench.methods("linear.chunky")
