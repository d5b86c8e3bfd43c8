"""Formats are as stored for one tiny run, and cannot be empty; RENEW=1 writes them anew after a wanted change."""

import os
import shutil
from pathlib import Path

import pytest

from attnbench.report.exports.exchange import ExportError, Place
from attnbench.report.exports.formats import FORMATS
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Maker, write

GOLDEN = Path(__file__).parent / "golden"
TEXTS = [name for name, form in FORMATS.items() if form.text]


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_is_as_stored(name: str, maker: Maker, tiny: Synthetic) -> None:
    form, folder = FORMATS[name], GOLDEN / name
    export = form.make([maker.source(tiny, day) for day in ((1, 2) if form.many else (1,))])
    export = form.settle(export, Place({}, "../..")) if form.settle else export
    if os.environ.get("RENEW"):
        shutil.rmtree(folder, ignore_errors=True)
        write(export, folder)
    stored = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert export.files == stored


@pytest.mark.parametrize("name", ["otava", "pyperf", "github-action-benchmark", "bencher"])
def test_a_run_without_any_number_is_refused_with_the_reasons(name: str, maker: Maker, hopeless: Synthetic) -> None:
    why = r"has no cell with a (time|number)\n  left out: crashed: softmax.naive at 512: killed by signal 11"
    with pytest.raises(ExportError, match=why):
        FORMATS[name].make([maker.source(hopeless)])
