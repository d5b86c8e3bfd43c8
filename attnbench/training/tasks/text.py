"""Bytes: predict the next byte of a text, which is the sources that come with Python, a file, or a folder of files.

Suffixes: B sequences, N tokens.
"""

import hashlib
import platform
import sysconfig
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Alphabet, Chance, Continued

# installed packages, and what some distributions of Python leave out
_NOT_OURS = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
# files that are written when Python is built, and that name folders of the build machine
_BUILT = ("_sysconfigdata", "_sysconfig_vars")
START = 256
ENWIK8 = (90_000_000, 5_000_000, 5_000_000)
"""The bytes that are customarily trained on, validated and tested on, in this order."""


class Corpus(NamedTuple):
    """The bytes (uint8) that are trained on, and those that are held out; the name ends in eight digits of their SHA-256."""

    name: str
    training: Tensor
    rest: Tensor


def python_sources() -> Corpus:
    """Return the sources of Python's standard library one after the other, by path, without its tests.

    Raises FileNotFoundError where Python came without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    text = b"".join(file.read_bytes() for file in source_files(root))
    if not text:
        raise FileNotFoundError("this Python has no sources; name a text by data: FILE")
    return _cut(f"the sources of Python {platform.python_version()}", text)


def source_files(root: Path) -> list[Path]:
    """List the modules below a folder, sorted by their path in it."""
    files = (file for file in root.rglob("*.py") if not _NOT_OURS.intersection(file.relative_to(root).parts))
    return sorted((file for file in files if not file.name.startswith(_BUILT)), key=lambda file: file.relative_to(root).parts)


def read_corpus(path: str) -> Corpus:
    """Read a file of any kind, or a folder of texts to train on and to test on, as PG-19 is.

    Of enwik8, known by its name, the customary test part is held out. Raises FileNotFoundError where something cannot be read,
    and ValueError where it is not what its name says.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        return _books(file, path)
    try:
        text = file.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"training.data: {path} cannot be read: {error.strerror}; name a file or a folder") from error
    if not text:
        raise ValueError(f"training.data: {path} is empty")
    if file.name != "enwik8":
        return _cut(file.name, text)
    if len(text) != sum(ENWIK8):
        found = f"training.data: {path} has {len(text):,} bytes, and enwik8 has {sum(ENWIK8):,}"
        raise ValueError(f"{found}; unpack all of enwik8.zip, or give a part of it another name")
    return _cut(file.name, text, *ENWIK8[:2])


def _cut(name: str, text: bytes, training: int | None = None, unused: int = 0) -> Corpus:
    """Train on the first bytes, nine tenths where nothing is said, and hold out all but a few unused ones behind these."""
    # bytearray, because torch warns of a buffer that cannot be written to
    whole = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    cut = len(text) * 9 // 10 if training is None else training
    return Corpus(f"{name} ({hashlib.sha256(text).hexdigest()[:8]})", whole[:cut], whole[cut + unused :])


def _books(folder: Path, path: str) -> Corpus:
    """Join the texts of the folder `train`, by name, and those of `test`, which are held out."""
    digest, parts = hashlib.sha256(), []
    for part in ("train", "test"):
        text = bytearray()
        for file in sorted((folder / part).glob("*.txt")):
            text += file.read_bytes()
        if not text:
            wanted = "a folder of texts has folders train and test, as PG-19 has, with .txt files in them"
            raise FileNotFoundError(f"training.data: {path} has no text in {part}/*.txt; {wanted}")
        digest.update(text)
        parts.append(torch.frombuffer(text, dtype=torch.uint8))
    return Corpus(f"{folder.resolve().name} ({digest.hexdigest()[:8]})", *parts)


class Text(Continued):
    """Windows of N bytes; each byte is to be said from those before it in its window, and the first one without any."""

    alphabet = Alphabet(257, start=START)

    def __init__(self, corpus: Corpus, N: int) -> None:
        self.corpus, self.name = corpus, f"bytes of {corpus.name}"
        for part, text in (("trained on", corpus.training), ("held out", corpus.rest)):
            if len(text) < N:
                raise ValueError(f"{corpus.name}: what is {part} has {len(text):,} bytes; N={N} needs as many")
        self.training, self.rest = (part.unfold(0, N, 1) for part in (corpus.training, corpus.rest))

    @cached_property
    def chance(self) -> Chance:
        """The entropy of the held-out bytes, taken independently: no guess that is always the same does better."""
        return Chance.frequent(torch.bincount(self.corpus.rest, minlength=256))
