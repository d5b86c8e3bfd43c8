"""Pixels: images that read back as they were, parts that never meet, and data that is said where it is not."""

import math
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnbench.registry import MissingPackageError
from attnbench.schema.training import PIXELS
from attnbench.training.tasks.pixels import Images, Pixels, data_folder, load_images
from tests.training.conftest import generator


@pytest.fixture(scope="module")
def digits() -> Images:
    return load_images("digits")


def test_digits_read_back_row_by_row(digits: Images) -> None:
    task = Pixels(digits)
    batch = task.batch(3, generator())
    chosen = torch.randint(1500, (3,), generator=generator())
    assert torch.equal(batch.targets.view(3, task.rows or 0, task.columns or 0), digits.training[chosen].long())
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert batch.tokens[:, 0].tolist() == [task.alphabet.start] * 3 == [17] * 3
    assert bool(batch.judged.all())


def test_digits_are_those_of_scikit_learn(digits: Images) -> None:
    assert (digits.training.shape, digits.rest.shape) == ((1500, 8, 8), (297, 8, 8))
    assert (int(digits.training.min()), int(digits.training.max())) == (0, 16)
    assert digits.training[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert Pixels(digits).name.startswith("pixels of digits (")


def test_held_out_images_are_spread_and_no_more_than_there_are(digits: Images) -> None:
    task = Pixels(digits)
    assert torch.equal(task.held_out(2).targets, digits.rest[[0, 296]].flatten(1).long())
    assert task.held_out(1000).tokens.shape == (297, 64)


def test_levels_rows_and_columns_are_those_of_the_schema(digits: Images) -> None:
    task = Pixels(digits)
    assert (task.rows, task.columns, task.alphabet.levels) == PIXELS["digits"]
    assert task.alphabet.vocabulary == 18


def test_a_unigram_model_reaches_chance(digits: Images) -> None:
    task = Pixels(digits)
    log_shares = (torch.bincount(digits.training.flatten(), minlength=17).double() / digits.training.numel()).log()
    targets = task.held_out(297).targets
    assert float(-log_shares[targets].mean()) == pytest.approx(task.chance.loss, rel=0.01)
    assert task.chance.loss < math.log(17)
    assert float((targets == 0).double().mean()) == task.chance.accuracy


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, Any, bool]]:
    """What torchvision is asked for, made up here: MNIST gives a tensor, CIFAR-10 an array with colours last."""
    seen: list[tuple[str, Any, bool]] = []

    def images(kind: str, *shape: int) -> Callable[..., SimpleNamespace]:
        def give(folder: Path, *, train: bool, download: bool) -> SimpleNamespace:
            seen.append((kind, folder, train))
            array = (np.arange((6 if train else 2) * math.prod(shape)) % 256).astype(np.uint8).reshape(-1, *shape)
            return SimpleNamespace(data=torch.from_numpy(array) if kind == "mnist" else array)

        return give

    made_up = SimpleNamespace(MNIST=images("mnist", 28, 28), CIFAR10=images("cifar10", 32, 32, 3))
    monkeypatch.setattr("attnbench.training.tasks.pixels.import_module", lambda name: made_up)
    monkeypatch.setenv("ATTNBENCH_DATA", str(tmp_path))
    return seen


@pytest.mark.parametrize(("kind", "N"), [("mnist", 784), ("cifar10", 3072)])
def test_published_images_keep_their_split_and_are_looked_for_in_one_folder(
    kind: str, N: int, asked: list[tuple[str, Any, bool]], tmp_path: Path
) -> None:
    images = load_images(kind)
    assert asked == [(kind, tmp_path, True), (kind, tmp_path, False)]
    assert (len(images.training), len(images.rest)) == (6, 2)
    assert Pixels(images).batch(2, generator()).tokens.shape == (2, N)
    assert Pixels(images).held_out(1).targets[0, :4].tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("asked")
def test_colours_of_a_pixel_come_one_after_the_other() -> None:
    # the made-up image counts up with its colours last, so in sequence it counts up too
    images = load_images("cifar10").training
    assert images[0, 0, :6].tolist() == [0, 1, 2, 3, 4, 5]
    assert images[0, 1, 0] == 96


def test_without_its_package_the_pip_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(MissingPackageError, match="these images need torchvision: pip install torchvision"):
        load_images("mnist")

    def no_distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("attnbench.training.tasks.pixels.distribution", no_distribution)
    with pytest.raises(MissingPackageError, match="these images need scikit-learn: pip install scikit-learn"):
        load_images("digits")


@pytest.mark.usefixtures("asked")
def test_what_cannot_be_fetched_is_said_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(folder: Path, **_: bool) -> None:
        raise OSError("no network")

    monkeypatch.setattr("attnbench.training.tasks.pixels.import_module", lambda name: SimpleNamespace(MNIST=fetch))
    with pytest.raises(FileNotFoundError, match=r"mnist is not in .*ATTNBENCH_DATA.*failed: no network"):
        load_images("mnist")


def test_data_is_in_the_cache_unless_another_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ATTNBENCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "attnbench"
    monkeypatch.setenv("ATTNBENCH_DATA", str(tmp_path / "data"))
    assert data_folder() == tmp_path / "data"
