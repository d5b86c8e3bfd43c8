"""ImageNet in 64 x 64 pixels from a folder: arrays as Chrabaszcz et al. 2017 publish them, or PNG files.

n images of one file.
"""

from importlib import import_module
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from torch import Tensor

_SIDE, _COLOURS = 64, 3
_VALUES = _SIDE * _SIDE * _COLOURS
_WANTED = (
    "name a folder of train_data_batch_1.npz to train_data_batch_10.npz and val_data.npz, or one of PNG files in train_64x64/ "
    "and valid_64x64/"
)


def read_imagenet(path: str) -> tuple[Tensor, Tensor]:
    """Read what is trained on and what is held out, uint8 [count, 64, 192], from `train*` and `val*` of a folder.

    Each is npz files, or folders of PNG files. Raises FileNotFoundError where there are neither, ValueError where a file is not
    what it should be, and ModuleNotFoundError where PNG files cannot be read without a package.
    """
    folder, parts = Path(path).expanduser(), []
    for name in ("train", "val"):
        arrays, pictures = sorted(folder.glob(f"{name}*.npz")), sorted(folder.glob(f"{name}*/*.png"))
        if not arrays and not pictures:
            raise FileNotFoundError(f"training.data: {path} has neither {name}*.npz nor {name}*/*.png; {_WANTED}")
        parts.append(torch.cat([_of_arrays(file) for file in arrays]) if arrays else torch.stack([*map(_of_png, pictures)]))
    return parts[0], parts[1]


def _of_arrays(file: Path) -> Tensor:
    """Read the array `data` of a file, uint8 [n, 12288], whose colours are three planes: uint8 [n, 64, 192]."""
    try:
        with ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if "data" not in names:
                raise ValueError(f"it has no array `data`, only {', '.join(names)}")
            with archive.open("data.npy") as member:
                data = np.lib.format.read_array(member)
    except (OSError, ValueError, BadZipFile) as error:
        raise ValueError(f"{file} cannot be read as npz file of images: {error}") from error
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _VALUES:
        raise ValueError(f"{file}: `data` is {data.dtype} {list(data.shape)}; images of 64 x 64 are uint8 [n, {_VALUES}]")
    planes = torch.from_numpy(data).view(-1, _COLOURS, _SIDE, _SIDE)
    return planes.permute(0, 2, 3, 1).reshape(-1, _SIDE, _SIDE * _COLOURS)


def _of_png(file: Path) -> Tensor:
    """Read one picture: uint8 [64, 192]."""
    pillow = import_module("PIL.Image")
    try:
        with pillow.open(file) as picture:
            pixels = np.array(picture.convert("RGB"))
    except OSError as error:
        raise ValueError(f"{file} cannot be read as a PNG file: {error}") from error
    rows, columns, _ = pixels.shape
    if (rows, columns) != (_SIDE, _SIDE):
        raise ValueError(f"{file} has {columns} x {rows} pixels; these images have 64 x 64")
    return torch.from_numpy(pixels).view(_SIDE, _SIDE * _COLOURS)
