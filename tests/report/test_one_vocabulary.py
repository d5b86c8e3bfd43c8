"""A figure of a cell is one entry of the vocabulary, and then stands wherever people read: the places, one by one."""

import io

import pandas as pd
import pytest

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import recorded
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.tables import of_kind
from attnbench.schema.outcome import ENERGY, FIRST_CALL
from attnbench.schema.published import Ours, Side
from tests.report.conftest import Synthetic
from tests.report.drawn import drawings
from tests.report.page.reading import read
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
    document = read(findings)
    (axis,) = (each for each in document.data["quantities"] if each["key"] == name)
    assert axis["scales"]
    assert any(head.lower().startswith(quantity.title.lower()) for head in document.heads)
    # methods may cross by it, and a printed figure may be held against it
    versus = Versus(findings.sections[0], "softmax.sdpa", "softmax.naive", recorded(findings.summaries, findings.run)[name])
    assert versus.crossover.lengths == (512, 1024)
    assert Ours.model_validate({"metric": name, "workload": "forward", "of": Side(method="linear.chunked")})
