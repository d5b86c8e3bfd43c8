"""ImageNet of 64 x 64 pixels from a folder: arrays and pictures give the same sequences; what is wrong is said by its file."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from attnbench.registry import MissingPackageError
from attnbench.schema.training import Task, Training
from attnbench.training.tasks import task_of
from attnbench.training.tasks.pixels import load_images
from tests.training.conftest import generator

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


@pytest.mark.parametrize("folder", ["arrays", "pictures"])
def test_an_image_is_read_row_by_row_with_the_colours_of_a_pixel_one_after_the_other(
    folder: str, request: pytest.FixtureRequest
) -> None:
    images = load_images("imagenet64", str(request.getfixturevalue(folder)))
    assert torch.equal(images.training, torch.from_numpy(PICTURES[:3].reshape(3, 64, 192)))
    assert torch.equal(images.rest, torch.from_numpy(PICTURES[3:].reshape(2, 64, 192)))


def test_arrays_and_pictures_of_the_same_images_have_the_same_name(arrays: Path, pictures: Path) -> None:
    one, other = (load_images("imagenet64", str(folder)) for folder in (arrays, pictures))
    assert one.name == other.name
    assert one.name.startswith("imagenet64 (")


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


def test_without_the_package_that_reads_pictures_the_pip_line_is_said(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingPackageError, match="these images need pillow: pip install pillow"):
        load_images("imagenet64", str(pictures))
