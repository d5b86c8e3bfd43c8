"""A history at a URL: s3://, gs://, sftp://, memory:// and whatever else fsspec knows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from attnbench.store.history import RECORDS, RUN, History, HistoryError, files_of, refuse_links, refuse_while_written
from attnbench.store.local_history import LocalHistory
from attnbench.store.run_folder import RunFolder, StoreError
from attnbench.store.scratch import scratch

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "sftp": "paramiko"}


def at(url: str) -> History:
    """The history at a URL; raises HistoryError where its protocol is not known or needs another package, StoreError."""
    protocol = url.partition("://")[0]
    if "::" in protocol:
        raise HistoryError(f"{url}: one address within another is no place for a history; name the last one alone")
    try:
        files, root = fsspec.url_to_fs(url)
    except ImportError as error:
        pip = f"pip install {_PACKAGES[protocol]}" if protocol in _PACKAGES else str(error)
        raise HistoryError(f"{protocol}:// needs another package: {pip}") from None
    except ValueError as error:
        raise HistoryError(f"{protocol}:// is no place for a history: {error}") from None
    except Exception as error:
        raise StoreError(f"{protocol}:// cannot be opened: {type(error).__name__}: {error}") from error
    return LocalHistory(Path(root)) if isinstance(files, LocalFileSystem) else RemoteHistory(url, files, root)


class RemoteHistory(History):
    """Nothing can be renamed as a whole there: run.json is written last, and a folder without one is no run yet.

    A run does not change any more once it is there, so none is looked at twice.
    """

    def __init__(self, url: str, files: Any, root: str) -> None:  # noqa: ANN401 - fsspec has no types
        self._files, self._root = files, root.rstrip("/")
        # not the path that fsspec makes of it, which may lack the host
        self.address = url.rstrip("/")

    def places(self) -> dict[str, str]:
        """By name."""
        with self._told("cannot be read"):
            # what others have added since must be seen
            self._files.invalidate_cache()
            if not self._files.isdir(self._root):
                raise HistoryError(f"nothing is at {self._said}; attnbench history add makes it")
            suites = self._folders(self._root)
            runs = [f"{suite}/{run}" for suite in suites for run in self._folders(f"{self._root}/{suite}")]
            return dict.fromkeys(sorted(runs), "")

    @contextmanager
    def folder(self, place: str) -> Iterator[RunFolder]:
        """A copy of the two files that count, for as long as it is read."""
        with scratch() as copy:
            with self._told(f"has no {place} that could be read"):
                (copy / RUN).write_bytes(self._files.cat_file(f"{self._root}/{place}/{RUN}"))
                with suppress(FileNotFoundError):
                    (copy / RECORDS).write_bytes(self._files.cat_file(f"{self._root}/{place}/{RECORDS}"))
            yield RunFolder(copy)

    def holds(self, place: str) -> bool:
        """Whether a whole run is there; what an upload left that was cut off does not count."""
        with self._told("cannot be read"):
            return bool(self._files.exists(f"{self._root}/{place}/{RUN}"))

    def put(self, run: Path, place: str) -> None:
        """The records first, and run.json when everything else is there."""
        refuse_while_written(run)
        refuse_links(run)
        inner = sorted(files_of(run), key=lambda file: file == Path(RUN))
        with self._told(f"cannot take {run}"):
            for file in inner:
                path = f"{self._root}/{place}/{file.as_posix()}"
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._files.pipe_file(path, (run / file).read_bytes())

    def _folders(self, path: str) -> list[str]:
        found = self._files.ls(path, detail=True)
        names = (str(each["name"]).rstrip("/").rpartition("/")[2] for each in found if each["type"] == "directory")
        return [name for name in names if not name.startswith(".")]

    @property
    def _said(self) -> str:
        """The address without a name and password that may be in it."""
        return re.sub(r"://[^/]*@", "://", self.address)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Whatever a file system raises, as one sentence with the address."""
        try:
            yield
        except (HistoryError, StoreError):
            raise
        except Exception as error:
            words = str(error).partition("\n")[0]
            raise StoreError(f"{self._said} {what}: {type(error).__name__}{f': {words}' if words else ''}") from error
