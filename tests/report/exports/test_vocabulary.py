"""A figure that is added to the vocabulary is in every export, with no further line."""

from collections.abc import Callable

import pandas as pd
import pytest

from attnbench.analyze.quantities import Quantity
from attnbench.report.exports.formats import FORMATS
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Maker, content

PLACES = {
    "asv": "results/benchmarks.json",
    "otava": "otava.yaml",
    "pytest-benchmark": "pytest-benchmark.json",
    "pyperf": "pyperf.json",
    "github-action-benchmark": "github-action-benchmark.json",
    "bencher": "bencher.json",
}


@pytest.mark.parametrize("form", PLACES)
def test_a_new_figure_is_in_every_format(form: str, maker: Maker, tiny: Synthetic, new_figure: Callable[..., Quantity]) -> None:
    new_figure("joules")
    text = FORMATS[form].make([maker.source(tiny)]).files[PLACES[form]].decode()
    assert "joules" in text


def test_of_a_new_figure_more_of_which_is_better_the_action_has_a_list_of_its_own(
    maker: Maker, tiny: Synthetic, new_figure: Callable[..., Quantity]
) -> None:
    new_figure("samples_per_joule", more_is_better=True)
    source = maker.source(tiny)
    bigger, smaller = (content(FORMATS[f"github-action-benchmark{end}"].make([source])) for end in ("-bigger", ""))
    assert {each["value"] for each in bigger if each["name"].endswith("/samples_per_joule")} == {1.5}
    assert not [each for each in smaller if "joule" in each["name"]]


def test_a_new_figure_is_a_column_of_parquet(
    maker: Maker, tiny: Synthetic, new_figure: Callable[..., Quantity], written: list[pd.DataFrame]
) -> None:
    new_figure("joules")
    FORMATS["parquet"].make([maker.source(tiny)])
    assert str(written[0]["joules"].dtype) == "Float64"
    assert written[0]["joules"].dropna().tolist() == [1.5] * 3
