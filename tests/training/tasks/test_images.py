"""Images: they read back as they were, parts never meet, and what is missing or wrong is said by its file or folder."""

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
from PIL import Image

from attnbench.registry import MissingPackageError
from attnbench.schema.training import Task, Training
from attnbench.training.tasks import task_of
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
    # made-up images count up with their colours last, so in sequence, over the end of a row, they count up too
    assert Pixels(images).held_out(1).targets[0, :100].tolist() == list(range(100))


def test_without_its_package_the_pip_line_is_said(monkeypatch: pytest.MonkeyPatch, pictures: Path) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(MissingPackageError, match="these images need torchvision: pip install torchvision"):
        load_images("mnist")

    def no_distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("attnbench.training.tasks.pixels.distribution", no_distribution)
    with pytest.raises(MissingPackageError, match="these images need scikit-learn: pip install scikit-learn"):
        load_images("digits")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingPackageError, match="these images need pillow: pip install pillow"):
        load_images("imagenet64", str(pictures))


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


PICTURES = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
"""Rows, columns, colours; the last two are held out."""


def save(file: Path, pictures: np.ndarray) -> None:
    """As the published files are: all red values of an image, then all green, then all blue."""
    np.savez(file, data=pictures.transpose(0, 3, 1, 2).reshape(len(pictures), -1), labels=np.arange(len(pictures)))


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    (tmp_path / "arrays").mkdir()
    save(tmp_path / "arrays" / "train_data_batch_1.npz", PICTURES[:2])
    save(tmp_path / "arrays" / "train_data_batch_2.npz", PICTURES[2:3])
    save(tmp_path / "arrays" / "val_data.npz", PICTURES[3:])
    return tmp_path / "arrays"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for folder, some in (("train_64x64", PICTURES[:3]), ("valid_64x64", PICTURES[3:])):
        (tmp_path / "pictures" / folder).mkdir(parents=True)
        for number, picture in enumerate(some):
            Image.fromarray(picture).save(tmp_path / "pictures" / folder / f"{number}.png")
    return tmp_path / "pictures"


def test_arrays_and_pictures_are_read_row_by_row_with_one_colour_of_a_pixel_after_the_other(
    arrays: Path, pictures: Path
) -> None:
    read = [load_images("imagenet64", str(folder)) for folder in (arrays, pictures)]
    for images in read:
        assert torch.equal(images.training, torch.from_numpy(PICTURES[:3].reshape(3, 64, 192)))
        assert torch.equal(images.rest, torch.from_numpy(PICTURES[3:].reshape(2, 64, 192)))
    assert read[0].name == read[1].name
    assert read[0].name.startswith("imagenet64 (")


def test_a_path_as_data_is_a_folder_of_such_images(arrays: Path) -> None:
    training = Training(task=Task.PIXELS, data=str(arrays))
    assert training.images == "imagenet64"
    task = task_of(training, 12288)
    assert task.batch(2, generator()).tokens.shape == (2, 12288)
    assert task.held_out(2).targets[1].tolist() == PICTURES[4].flatten().tolist()
    assert (task.rows, task.columns, task.alphabet.levels) == (64, 192, 256)


def test_without_a_path_the_folder_is_looked_for_here(arrays: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays.rename(arrays.with_name("imagenet64"))
    monkeypatch.chdir(arrays.parent)
    assert len(load_images("imagenet64").training) == 3


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_folder_that_lacks_a_part_says_what_would_be_right(part: str, arrays: Path) -> None:
    for file in arrays.glob(f"{part}*"):
        file.unlink()
    words = (
        rf"training\.data: .*arrays has neither {part}\*\.npz nor {part}\*/\*\.png; name a folder of train_data_batch_1\.npz"
    )
    with pytest.raises(FileNotFoundError, match=words):
        load_images("imagenet64", str(arrays))


def test_an_array_of_other_images_is_said_by_its_file(arrays: Path) -> None:
    for data, words in (
        (np.zeros((2, 3072), np.uint8), r"`data` is uint8 \[2, 3072\]; images of 64 x 64 are uint8 \[n, 12288\]"),
        (np.zeros((2, 12288)), r"`data` is float64 \[2, 12288\]"),
    ):
        np.savez(arrays / "val_data.npz", data=data)
        with pytest.raises(ValueError, match=rf"val_data\.npz: {words}"):
            load_images("imagenet64", str(arrays))
    np.savez(arrays / "val_data.npz", data=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"val_data\.npz cannot be read as npz file of images: Object arrays"):
        load_images("imagenet64", str(arrays))
    np.savez(arrays / "val_data.npz", labels=np.arange(2), x=np.arange(2))
    with pytest.raises(
        ValueError, match=r"val_data\.npz cannot be read as npz file of images: it has no array `data`, only labels, x"
    ):
        load_images("imagenet64", str(arrays))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_archive_is_said_by_its_name(content: bytes, arrays: Path) -> None:
    (arrays / "train_data_batch_2.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"train_data_batch_2\.npz cannot be read as npz file of images: "):
        load_images("imagenet64", str(arrays))


def test_a_picture_that_is_none_or_of_another_size_is_said_by_its_name(pictures: Path) -> None:
    Image.fromarray(PICTURES[0, :32]).save(pictures / "valid_64x64" / "1.png")
    with pytest.raises(ValueError, match=r"valid_64x64/1\.png has 64 x 32 pixels; these images have 64 x 64"):
        load_images("imagenet64", str(pictures))
    (pictures / "valid_64x64" / "1.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"valid_64x64/1\.png cannot be read as a PNG file"):
        load_images("imagenet64", str(pictures))


def test_a_grey_picture_has_three_equal_colours(pictures: Path) -> None:
    Image.fromarray(PICTURES[3, :, :, 0]).save(pictures / "valid_64x64" / "0.png")
    rest = load_images("imagenet64", str(pictures)).rest[0].view(64, 64, 3)
    assert torch.equal(rest, torch.from_numpy(PICTURES[3, :, :, :1]).expand(-1, -1, 3))
