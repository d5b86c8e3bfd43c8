"""Bytes: predict the next byte of a text, which is the sources that come with Python, or a file.

Suffixes: B sequences, N tokens.
"""

import hashlib
import platform
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Batch, Chance, TaskData

# installed packages, and what some distributions of Python leave out
_NOT_OURS = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
# files that are written when Python is built, and that name folders of the build machine
_BUILT = ("_sysconfigdata", "_sysconfig_vars")


START = 256


class Corpus(NamedTuple):
    """A text as bytes (uint8), and its name with the first eight digits of its SHA-256."""

    name: str
    text: Tensor


def python_sources() -> Corpus:
    """Return the sources of Python's standard library one after the other, by path, without its tests.

    Raises FileNotFoundError where Python came without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    text = b"".join(file.read_bytes() for file in source_files(root))
    if not text:
        raise FileNotFoundError("this Python has no sources; name a text by data: FILE")
    return _corpus(f"the sources of Python {platform.python_version()}", text)


def source_files(root: Path) -> list[Path]:
    """List the modules below a folder, sorted by their path in it."""
    files = (file for file in root.rglob("*.py") if not _NOT_OURS.intersection(file.relative_to(root).parts))
    return sorted((file for file in files if not file.name.startswith(_BUILT)), key=lambda file: file.relative_to(root).parts)


def read_corpus(path: str) -> Corpus:
    """Read a file of any kind. Raises FileNotFoundError where it cannot be read, and ValueError where it is empty."""
    file = Path(path).expanduser()
    try:
        text = file.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"training.data: {path} cannot be read: {error.strerror}; name a file") from error
    if not text:
        raise ValueError(f"training.data: {path} is empty")
    return _corpus(file.name, text)


def _corpus(name: str, text: bytes) -> Corpus:
    digest = hashlib.sha256(text).hexdigest()[:8]
    # bytearray, because torch warns of a buffer that cannot be written to
    return Corpus(f"{name} ({digest})", torch.frombuffer(bytearray(text), dtype=torch.uint8))


class Text(TaskData):
    """Windows of N bytes; each byte is to be said from those before it in its window, and the first one without any.

    The first nine tenths of the text are trained on, the last tenth is held out.
    """

    vocabulary = 257
    start = START

    def __init__(self, corpus: Corpus, N: int) -> None:
        cut = len(corpus.text) * 9 // 10
        self.training, self.rest, self.N = corpus.text[:cut], corpus.text[cut:], N
        self.name = f"bytes of {corpus.name}"
        if len(self.rest) < N:
            raise ValueError(f"{corpus.name}: the tenth that is held out has {len(self.rest):,} bytes; N={N} needs as many")

    @property
    def chance(self) -> Chance:
        """The entropy of the held-out bytes, taken independently: no guess that is always the same does better."""
        return Chance.frequent(torch.bincount(self.rest, minlength=256))

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B windows from anywhere in the part that is trained on."""
        return self._windows(self.training, torch.randint(len(self.training) - self.N + 1, (B,), generator=generator))

    def held_out(self, count: int) -> Batch:
        """Return windows spread evenly over the part that is held out."""
        last = len(self.rest) - self.N
        return self._windows(self.rest, torch.linspace(0, last, min(count, last + 1), dtype=torch.float64).long())

    def _windows(self, text: Tensor, begin_B: Tensor) -> Batch:
        return continued(text[begin_B[:, None] + torch.arange(self.N)].long(), START)


def continued(value_BN: Tensor, start: int) -> Batch:
    """Return sequences whose every token is to be said from those before it."""
    tokens = torch.nn.functional.pad(value_BN[:, :-1], (1, 0), value=start)
    return Batch(tokens, value_BN, torch.ones_like(value_BN, dtype=torch.bool))
