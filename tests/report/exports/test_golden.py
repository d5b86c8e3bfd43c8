"""The formats of text, as stored for one tiny run.

To renew after a wanted change: write `made(...)` to the files and read the difference.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from attnbench.report.exports.exchange import Place
from attnbench.report.exports.formats import FORMATS

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic
    from tests.report.exports.conftest import Maker

GOLDEN = Path(__file__).parent / "golden"
TEXTS = [name for name, form in FORMATS.items() if form.text]


def made(name: str, maker: "Maker", tiny: "Synthetic") -> Mapping[str, bytes]:
    form = FORMATS[name]
    days = (1, 2) if form.many else (1,)
    export = form.make([maker.source(tiny, day) for day in days])
    return (form.settle(export, Place({}, "../..")) if form.settle else export).files


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_is_as_stored(name: str, maker: "Maker", tiny: "Synthetic") -> None:
    folder = GOLDEN / name
    stored = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert made(name, maker, tiny) == stored


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_is_the_same_every_time(name: str, maker: "Maker", tiny: "Synthetic") -> None:
    assert made(name, maker, tiny) == made(name, maker, tiny)
