"""Reading and writing files: they are written as a whole or not at all, and links, pipes and devices are refused.

Run folders come from strangers too. A link in one may lead anywhere, and a pipe or a device never ends.
"""

import errno
import os
import secrets
import stat
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_NO_FILE = "it is not a regular file"


def write_within(folder: Path, name: str, content: bytes, *, durably: bool = False) -> Path:
    """Replace the file `name`, which may be a path, within an existing folder, and return its path.

    Folders between the two are made, and no link between the two is followed. `durably` waits until the file is on the disk.
    Raises OSError that names the file; then the file is unchanged.
    """
    file = folder / name
    *between, last = PurePosixPath(name).parts
    if name.startswith("/") or ".." in (*between, last):
        raise ValueError(f"{name} leads out of {folder}")
    try:
        with ExitStack() as handles:
            here = _entered(handles, folder)
            for inner in between:
                with suppress(FileExistsError):
                    os.mkdir(inner, dir_fd=here)
                here = _entered(handles, inner, os.O_NOFOLLOW, here)
            _replace(here, last, content, durably=durably)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    return file


def _entered(handles: ExitStack, folder: str | Path, flags: int = 0, within: int | None = None) -> int:
    """Open a folder and return its handle, which is closed with the others."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=within)
    except NotADirectoryError as error:
        raise NotADirectoryError(error.errno, f"{folder} is not a folder, or is a link, which is not followed") from error
    handles.callback(os.close, handle)
    return handle


def _replace(folder: int, name: str, content: bytes, *, durably: bool) -> None:
    # another process may be writing the same file; and `name` may be as long as a name can be
    partial = f".{secrets.token_hex(8)}.partial"
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder), "wb") as out:
            out.write(content)
            out.flush()
            if durably:
                os.fsync(out.fileno())
        os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        raise
    if durably:
        os.fsync(folder)


def write_durably(file: Path, content: bytes) -> None:
    """Replace a file as a whole, and wait until it is on the disk. Raises OSError."""
    write_within(file.parent, file.name, content, durably=True)


def write_named(file: Path, content: bytes) -> None:
    """Write the file that a user named, as a whole, and the folders above it. Raises OSError.

    A device, a pipe or a link that is already there stays what it is and is written into.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(file) and not stat.S_ISREG(file.lstat().st_mode):
        file.write_bytes(content)
    else:
        write_within(file.parent, file.name, content)


def open_to_read(file: Path) -> BinaryIO:
    """Open a regular file, or a link to one. Raises OSError for anything else."""
    mode = file.stat().st_mode
    # for a folder, the error of opening it is clearer
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, _NO_FILE, str(file))
    return file.open("rb")


def open_to_write(file: Path, flags: int) -> int:
    """Open a regular file, but no link to one, to change it in place, and return its descriptor. Raises OSError."""
    try:
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        why = "it is a link, and nothing is written through a link" if error.errno == errno.ELOOP else error.strerror
        raise OSError(error.errno, why, str(file)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NO_FILE, str(file))
    return descriptor


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
