"""Suite files that are written, loaded, and fail as a user would see it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.schema.suite import Suite
from attnbench.suite.load import SuiteError, load

Load = Callable[[str | bytes], Suite]
Errors = Callable[[str | bytes], list[str]]


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    """The suite that a file with this content is."""

    def _load(content: str | bytes) -> Suite:
        file = tmp_path / "x.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(str(file)).suite

    return _load


@pytest.fixture
def errors(load_text: Load, tmp_path: Path) -> Errors:
    """The lines of the refusal, each without the name of the folder."""

    def _errors(content: str | bytes) -> list[str]:
        with pytest.raises(SuiteError) as refused:
            load_text(content)
        return [line.removeprefix(f"{tmp_path}/") for line in str(refused.value).split("\n")]

    return _errors
