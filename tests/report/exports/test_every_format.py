"""What holds of every format: it is as stored for one tiny run, it has each figure of the vocabulary, and it cannot be empty.

RENEW=1 writes the stored files anew after a wanted change.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from attnbench.analyze.quantities import Quantity
from attnbench.report.exports.exchange import ExportError, Place
from attnbench.report.exports.formats import FORMATS
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import content, source_of, write

GOLDEN = Path(__file__).parent / "golden"
TEXTS = [name for name, form in FORMATS.items() if form.text]
NewFigure = Callable[..., Quantity]


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_is_as_stored(name: str, tiny: Synthetic) -> None:
    form, folder = FORMATS[name], GOLDEN / name
    export = form.make([source_of(tiny, day) for day in ((1, 2) if form.many else (1,))])
    export = form.settle(export, Place({}, "../..")) if form.settle else export
    if os.environ.get("RENEW"):
        shutil.rmtree(folder, ignore_errors=True)
        write(export, folder)
    stored = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert export.files == stored


@pytest.mark.parametrize("name", ["otava", "pyperf", "github-action-benchmark", "bencher"])
def test_a_run_without_any_number_is_refused_with_the_reasons(name: str, hopeless: Synthetic) -> None:
    why = r"has no cell with a (time|number)\n  left out: crashed: softmax.naive at 512: killed by signal 11"
    with pytest.raises(ExportError, match=why):
        FORMATS[name].make([source_of(hopeless)])


@pytest.mark.parametrize("name", [name for name in TEXTS if not name.endswith("-bigger")])
def test_a_figure_that_is_added_to_the_vocabulary_is_in_every_text(name: str, tiny: Synthetic, new_figure: NewFigure) -> None:
    new_figure("joules")
    assert any(b"joules" in text for text in FORMATS[name].make([source_of(tiny)]).files.values())


def test_of_a_new_figure_more_of_which_is_better_the_action_has_a_list_of_its_own(
    tiny: Synthetic, new_figure: NewFigure
) -> None:
    new_figure("samples_per_joule", more_is_better=True)
    bigger, smaller = (content(FORMATS[f"github-action-benchmark{end}"].make([source_of(tiny)])) for end in ("-bigger", ""))
    assert {each["value"] for each in bigger if each["name"].endswith("/samples_per_joule")} == {1.5}
    assert not [each for each in smaller if "joule" in each["name"]]


def test_a_new_figure_is_a_column_of_parquet(tiny: Synthetic, new_figure: NewFigure, written: list[pd.DataFrame]) -> None:
    new_figure("joules")
    FORMATS["parquet"].make([source_of(tiny)])
    assert str(written[0]["joules"].dtype) == "Float64"
    assert written[0]["joules"].dropna().tolist() == [1.5] * 3
