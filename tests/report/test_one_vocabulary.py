"""A figure of a cell is one entry of the vocabulary, and then stands wherever people read: the places, one by one."""

import io

import pandas as pd
import pytest

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import recorded
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.page import page
from attnbench.report.tables import of_kind
from attnbench.schema.outcome import ENERGY, FIRST_CALL
from attnbench.schema.published import Ours, Side
from tests.report.conftest import Synthetic
from tests.report.drawn import drawings
from tests.report.scored_runs import changed

FIGURES = ("flops", "traffic", "roof", "first_call", "tokens", "energy")
"""TFLOP/s, GB/s, the share of the roof, the first call with what it compiles and tunes, tokens per second, joules."""


@pytest.fixture
def findings(small: Synthetic) -> Findings:
    """A run whose records know their first call and their energy."""
    return Findings.of(small.run(), [changed(record, {FIRST_CALL: 0.03, ENERGY: 0.2}) for record in small.records()])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_a_column_a_table_a_figure_and_a_place_on_the_page(findings: Findings, name: str) -> None:
    quantity, columns = findings.quantities[name], pd.read_csv(io.StringIO(csv(findings)))
    fine = columns[columns["status"] == "ok"]
    assert fine[[quantity.column, f"{quantity.column}_low", f"{quantity.column}_high"]].notna().all().all()
    (table,) = of_kind(findings, name)
    assert table.title.lower().startswith(quantity.title.lower())
    assert "n/a" not in {text for row in table.rows for text in row}
    (drawing,) = drawings(findings, name)
    assert quantity.title in drawing.caption
    assert f'"key":"{name}"' in page([findings])


@pytest.mark.parametrize("name", FIGURES)
def test_methods_may_cross_by_it_and_a_printed_figure_may_be_held_against_it(findings: Findings, name: str) -> None:
    quantity = recorded(findings.summaries, findings.run)[name]
    versus = Versus(findings.sections[0], "softmax.sdpa", "softmax.naive", quantity)
    assert versus.crossover.lengths == (512, 1024)
    ours = Ours.model_validate({"metric": name, "workload": "forward", "of": Side(method="linear.chunked")})
    assert ours.metric == name
