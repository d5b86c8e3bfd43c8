"""Bytes: windows of a text that are what they were cut from, and two parts that never meet."""

import hashlib
import math
from pathlib import Path

import pytest
import torch

from attnbench.training.tasks.text import START, Corpus, Text, python_sources, read_corpus, source_files
from tests.training.conftest import generator

TEXT = bytes(i % 251 for i in range(5000))


@pytest.fixture(scope="module")
def python() -> Corpus:
    return python_sources()


@pytest.fixture
def text(tmp_path: Path) -> Text:
    (tmp_path / "words.txt").write_bytes(TEXT)
    return Text(read_corpus(str(tmp_path / "words.txt")), 32)


def test_a_window_reads_back_as_the_text_it_was_cut_from(text: Text) -> None:
    batch = text.batch(20, generator())
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert tokens == [START, *targets[:-1]]
        assert bytes(targets) in TEXT[:4500]
    assert bool(batch.judged.all())
    assert text.vocabulary == START + 1


def test_held_out_windows_are_from_the_last_tenth_and_spread_over_all_of_it(text: Text) -> None:
    windows = [bytes(row) for row in text.held_out(5).targets.tolist()]
    assert windows[0] == TEXT[4500:4532]
    assert windows[-1] == TEXT[-32:]
    assert all(window in TEXT[4500:] for window in windows)
    assert torch.equal(text.held_out(5).tokens, text.held_out(5).tokens)


def test_no_more_windows_are_held_out_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(TEXT[:100])
    assert Text(read_corpus(str(tmp_path / "short")), 8).held_out(50).tokens.shape == (3, 8)


def test_windows_come_from_everywhere_in_the_part_that_is_trained_on() -> None:
    text = Text(Corpus("x", torch.arange(20, dtype=torch.uint8)), 2)
    begins = text.batch(2000, generator()).targets[:, 0].unique().tolist()
    assert begins == list(range(17))


def test_chance_is_what_the_frequencies_of_the_held_out_bytes_come_to(tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(b"x" * 900 + b"a" * 75 + b"b" * 25)
    text = Text(read_corpus(str(tmp_path / "two")), 4)
    log_shares = torch.full((256,), -math.inf)
    log_shares[ord("a")], log_shares[ord("b")] = math.log(0.75), math.log(0.25)
    loss = torch.nn.functional.nll_loss(log_shares.expand(100, 256), text.rest.long())
    assert text.chance.loss == pytest.approx(float(loss))
    assert text.chance.accuracy == 0.75


def test_a_unigram_model_reaches_chance_on_pythons_sources(python: Corpus) -> None:
    text = Text(python, 256)
    shares = torch.bincount(text.training, minlength=256).double() + 1
    log_shares = (shares / shares.sum()).log()
    targets = text.held_out(500).targets
    assert float(-log_shares[targets].mean()) == pytest.approx(text.chance.loss, rel=0.05)
    assert float((targets == ord(" ")).double().mean()) == pytest.approx(text.chance.accuracy, rel=0.1)


def test_pythons_sources_are_its_own_and_none_of_its_tests(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "site-packages/x.py", "a/test/x.py", "tests/x.py", "_sysconfigdata_x.py", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [file.relative_to(tmp_path).as_posix() for file in source_files(tmp_path)] == ["a/z.py", "a.py", "b.py"]


def test_pythons_sources_are_megabytes_of_python_with_a_digest(python: Corpus) -> None:
    assert len(python.text) > 3_000_000
    assert b"import sys" in python.text.numpy().tobytes()
    assert Text(python, 64).name.startswith("bytes of the sources of Python 3.")


def test_the_name_has_the_digest_of_the_text_and_no_folder(text: Text, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_bytes(TEXT[1:])
    assert text.name == f"bytes of words.txt ({hashlib.sha256(TEXT).hexdigest()[:8]})"
    assert str(tmp_path) not in text.name
    assert Text(read_corpus(str(tmp_path / "other.txt")), 32).name != text.name


@pytest.mark.parametrize(
    ("file", "words"),
    [("enwik8", "enwik8 cannot be read: No such file"), (".", "Is a directory; name a file"), ("nothing", "nothing is empty")],
)
def test_a_file_without_a_text_is_said_by_its_name(file: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "nothing").touch()
    with pytest.raises((FileNotFoundError, ValueError), match=rf"training\.data: .*{words}"):
        read_corpus(str(tmp_path / file))


def test_a_text_too_short_for_its_windows_says_how_much_there_is(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(TEXT[:100])
    with pytest.raises(ValueError, match="the tenth that is held out has 10 bytes; N=16 needs as many"):
        Text(read_corpus(str(tmp_path / "short")), 16)
