"""Pixels: predict the next pixel of an image, row by row; red, green and blue of a pixel follow one after the other.

The images are the digits that come with scikit-learn, MNIST and CIFAR-10, which torchvision downloads, or those of a folder.
Suffixes: B images, N values of an image.
"""

import hashlib
import os
from functools import cached_property
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnbench.registry import MissingPackageError
from attnbench.schema.training import PIXELS
from attnbench.store.cache import cache_folder
from attnbench.training.tasks.imagenet import read_imagenet
from attnbench.training.tasks.task_data import Alphabet, Chance, Continued


class Images(NamedTuple):
    """Images to train on, and the rest, both uint8 [count, rows, columns]; the name ends in digits of their SHA-256."""

    kind: str
    name: str
    training: Tensor
    rest: Tensor


def load_images(kind: str, folder: str = "") -> Images:
    """Load `digits`, `mnist` or `cifar10`, or `imagenet64` from a folder.

    Raises MissingPackageError with the pip line, FileNotFoundError where they are not there and cannot be downloaded, and
    ValueError where a file of the folder is not what it should be.
    """
    package = {"digits": "scikit-learn", "imagenet64": "pillow"}.get(kind, "torchvision")
    try:
        if kind == "imagenet64":
            parts = read_imagenet(folder or kind)
        else:
            parts = _digits() if kind == "digits" else _of_torchvision(kind)
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"these images need {package}: pip install {package}") from error
    rows, columns, _ = PIXELS[kind]
    training, rest = (part.reshape(-1, rows, columns).to(torch.uint8) for part in parts)
    digest = hashlib.sha256(training.contiguous().numpy().data)
    digest.update(rest.contiguous().numpy().data)
    return Images(kind, f"{kind} ({digest.hexdigest()[:8]})", training, rest)


def _digits() -> tuple[Tensor, Tensor]:
    """Return the 1797 images of 8 x 8 pixels and 17 levels; the first 1500 are trained on.

    They are read from the file that scikit-learn's `load_digits` reads: importing the package takes a second, and a quarter
    of a gigabyte of address space that a limit on memory would count as the model's.
    """
    file = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    # each row has 64 pixels, and then the digit
    images = torch.from_numpy(np.loadtxt(str(file), delimiter=",")[:, :-1])
    return images[:1500], images[1500:]


def _of_torchvision(kind: str) -> tuple[Tensor, Tensor]:
    """Return the published split into training and test images."""
    data, folder = getattr(import_module("torchvision.datasets"), kind.upper()), data_folder()
    try:
        training, rest = (torch.as_tensor(data(folder, train=train, download=True).data) for train in (True, False))
    except (OSError, RuntimeError) as error:
        where = f"{folder} (ATTNBENCH_DATA names another folder)"
        raise FileNotFoundError(f"{kind} is not in {where}, and fetching it failed: {error}") from error
    return training, rest


def data_folder() -> Path:
    """Return the folder in which images are looked for and downloaded to: ATTNBENCH_DATA, else the cache."""
    named = os.environ.get("ATTNBENCH_DATA")
    return Path(named).expanduser() if named else cache_folder()


class Pixels(Continued):
    """Sequences of pixels; each is to be said from those before it, and the first from the token `levels` alone.

    Van den Oord et al. 2016, arXiv:1601.06759, order the pixels so; Katharopoulos et al. 2020, arXiv:2006.16236, section 4.2,
    learn MNIST and CIFAR-10 as such sequences.
    """

    def __init__(self, images: Images) -> None:
        self.training, self.rest = images.training.flatten(1), images.rest.flatten(1)
        self.rows, self.columns, levels = PIXELS[images.kind]
        self.alphabet = Alphabet(levels + 1, levels, start=levels)
        self.name = f"pixels of {images.name}"

    @cached_property
    def chance(self) -> Chance:
        """The entropy of the held-out values, taken independently: no guess that is always the same does better."""
        return Chance.frequent(torch.bincount(self.rest.flatten(), minlength=self.alphabet.vocabulary - 1))
