"""Bytes: windows of a text that are what they were cut from, and two parts that never meet."""

import hashlib
import math
from pathlib import Path

import pytest
import torch

from attnbench.training.tasks import text as text_module
from attnbench.training.tasks.text import START, Corpus, Text, python_sources, read_corpus, source_files
from tests.training.conftest import generator

TEXT = bytes(i % 251 for i in range(5000))


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
    assert text.alphabet.vocabulary == START + 1


def test_held_out_windows_are_from_the_last_tenth_and_spread_over_all_of_it(text: Text) -> None:
    windows = [bytes(row) for row in text.held_out(5).targets.tolist()]
    assert windows[0] == TEXT[4500:4532]
    assert windows[-1] == TEXT[-32:]
    assert all(window in TEXT[4500:] for window in windows)


def test_windows_come_from_everywhere_in_the_part_that_is_trained_on() -> None:
    text = Text(Corpus("x", torch.arange(18, dtype=torch.uint8), torch.arange(18, 20, dtype=torch.uint8)), 2)
    assert text.batch(2000, generator()).targets[:, 0].unique().tolist() == list(range(17))


def test_chance_is_what_the_frequencies_of_the_held_out_bytes_come_to(tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(b"x" * 900 + b"a" * 75 + b"b" * 25)
    text = Text(read_corpus(str(tmp_path / "two")), 4)
    log_shares = torch.full((256,), -math.inf)
    log_shares[ord("a")], log_shares[ord("b")] = math.log(0.75), math.log(0.25)
    loss = torch.nn.functional.nll_loss(log_shares.expand(100, 256), text.corpus.rest.long())
    assert text.chance.loss == pytest.approx(float(loss))
    assert text.chance.accuracy == 0.75


@pytest.mark.slow
def test_pythons_sources_are_megabytes_of_python_on_which_a_unigram_model_reaches_chance() -> None:
    text = Text(python_sources(), 256)
    assert len(text.corpus.training) > 3_000_000
    assert text.name.startswith("bytes of the sources of Python 3.")
    shares = torch.bincount(text.corpus.training, minlength=256).double() + 1
    log_shares = (shares / shares.sum()).log()
    targets = text.held_out(500).targets
    assert float(-log_shares[targets].mean()) == pytest.approx(text.chance.loss, rel=0.05)
    assert float((targets == ord(" ")).double().mean()) == pytest.approx(text.chance.accuracy, rel=0.1)


def test_pythons_sources_are_its_own_and_none_of_its_tests(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "site-packages/x.py", "a/test/x.py", "tests/x.py", "_sysconfigdata_x.py", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [file.relative_to(tmp_path).as_posix() for file in source_files(tmp_path)] == ["a/z.py", "a.py", "b.py"]


def test_the_name_has_the_digest_of_the_text_and_no_folder(text: Text, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_bytes(TEXT[1:])
    assert text.name == f"bytes of words.txt ({hashlib.sha256(TEXT).hexdigest()[:8]})"
    assert str(tmp_path) not in text.name
    assert Text(read_corpus(str(tmp_path / "other.txt")), 32).name != text.name


def test_a_file_without_a_text_is_said_by_name_and_one_too_short_for_its_windows_by_how_much_there_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"training\.data: .*enwik8 cannot be read: No such file"):
        read_corpus(str(tmp_path / "enwik8"))
    (tmp_path / "nothing").touch()
    with pytest.raises(ValueError, match=r"training\.data: .*nothing is empty"):
        read_corpus(str(tmp_path / "nothing"))
    (tmp_path / "short").write_bytes(TEXT[:100])
    assert Text(read_corpus(str(tmp_path / "short")), 8).held_out(50).tokens.shape == (3, 8), "no more than there are"
    with pytest.raises(ValueError, match=r"short .*: what is held out has 10 bytes; N=16 needs as many"):
        Text(read_corpus(str(tmp_path / "short")), 16)


def test_of_enwik8_the_first_90_million_bytes_are_trained_on_and_the_last_5_held_out_and_no_part_is_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert text_module.ENWIK8 == (90_000_000, 5_000_000, 5_000_000)
    monkeypatch.setattr(text_module, "ENWIK8", (90, 5, 6))
    (tmp_path / "enwik8").write_bytes(TEXT[:101])
    corpus = read_corpus(str(tmp_path / "enwik8"))
    assert (bytes(corpus.training.tolist()), bytes(corpus.rest.tolist())) == (TEXT[:90], TEXT[95:101])
    assert corpus.name == f"enwik8 ({hashlib.sha256(TEXT[:101]).hexdigest()[:8]})"
    (tmp_path / "enwik8").write_bytes(TEXT)
    words = r"enwik8 has 5,000 bytes, and enwik8 has 101; unpack all of enwik8\.zip, or give a part of it another name"
    with pytest.raises(ValueError, match=rf"^training\.data: .*{words}"):
        read_corpus(str(tmp_path / "enwik8"))


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Two books to train on, one to validate and one to test on, and a file that is no book."""
    for name, words in {"train/9": "ninth ", "train/10": "tenth ", "validation/1": "unseen", "test/2": "second"}.items():
        (tmp_path / "pg19" / f"{name}.txt").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pg19" / f"{name}.txt").write_text(words)
    (tmp_path / "pg19" / "train" / "metadata.csv").write_text("9,Ninth")
    return tmp_path / "pg19"


def test_of_a_folder_of_books_those_of_train_are_joined_and_those_of_test_held_out(books: Path) -> None:
    corpus = read_corpus(str(books))
    assert (bytes(corpus.training.tolist()), bytes(corpus.rest.tolist())) == (b"tenth ninth ", b"second")
    assert corpus.name == f"pg19 ({hashlib.sha256(b'tenth ninth second').hexdigest()[:8]})"
    assert bytes(Text(corpus, 6).held_out(1).targets[0].tolist()) == b"second"


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_folder_without_books_says_which_part_it_lacks(part: str, books: Path) -> None:
    for file in (books / part).glob("*.txt"):
        file.unlink()
    words = rf"training\.data: .*pg19 has no text in {part}/\*\.txt; a folder of texts has folders train and test, as PG-19 has"
    with pytest.raises(FileNotFoundError, match=words):
        read_corpus(str(books))


def test_books_that_are_too_short_to_train_on_say_how_much_there_is(books: Path) -> None:
    (books / "test" / "2.txt").write_text("long enough for it")
    with pytest.raises(ValueError, match=r"pg19 .*: what is trained on has 12 bytes; N=16 needs as many"):
        Text(read_corpus(str(books)), 16)
