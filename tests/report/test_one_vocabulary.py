"""A figure of a cell is one entry of the vocabulary, and then stands wherever people read: the places, one by one."""

import io

import pandas as pd
import pytest

from attnbench.analyze.crossover import Versus
from attnbench.analyze.quantities import recorded
from attnbench.report.drawing import style
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.make import drawn
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.page import page
from attnbench.report.tables import of_kind
from attnbench.schema.outcome import ENERGY, FIRST_CALL, Measured, Series
from attnbench.schema.published import Ours, Side
from tests.report.conftest import Synthetic

FIGURES = ("flops", "traffic", "roof", "first_call", "tokens", "energy")
"""TFLOP/s, GB/s, the share of the roof, the first call with what it compiles and tunes, tokens per second, joules."""
pytestmark = pytest.mark.parametrize("name", FIGURES)


@pytest.fixture
def findings(small: Synthetic) -> Findings:
    """A run whose records know their first call and their energy."""
    records = []
    for record in small.records():
        outcome = record.outcome
        if isinstance(outcome, Measured) and "time" in outcome.samples:
            time = outcome.samples["time"].values[0]
            more = {FIRST_CALL: Series(unit="s", values=(3 * time,)), ENERGY: Series(unit="J", values=(20 * time,))}
            outcome = outcome.model_copy(update={"samples": {**outcome.samples, **more}})
        records.append(record.model_copy(update={"outcome": outcome}))
    return Findings.of(small.run(), records)


def test_it_has_a_column(findings: Findings, name: str) -> None:
    quantity, table = findings.quantities[name], pd.read_csv(io.StringIO(csv(findings)))
    fine = table[table["status"] == "ok"]
    assert fine[[quantity.column, f"{quantity.column}_low", f"{quantity.column}_high"]].notna().all().all()


def test_it_has_a_table(findings: Findings, name: str) -> None:
    (table,) = of_kind(findings, name)
    assert table.title.lower().startswith(findings.quantities[name].title.lower())
    assert "n/a" not in {text for row in table.rows for text in row}


def test_it_has_a_figure(findings: Findings, name: str) -> None:
    with style.applied(FOLDER.settings):
        (drawing,) = drawn(findings, name, FOLDER)
    assert findings.quantities[name].title in drawing.caption


def test_it_is_on_the_page(findings: Findings, name: str) -> None:
    assert f'"key":"{name}"' in page([findings])


def test_methods_may_cross_by_it(findings: Findings, name: str) -> None:
    quantity = recorded(findings.summaries, findings.run)[name]
    versus = Versus(findings.sections[0], "softmax.sdpa", "softmax.naive", quantity)
    assert versus.crossover.lengths == (512, 1024)


def test_a_printed_figure_may_be_held_against_it(name: str) -> None:
    ours = Ours.model_validate({"metric": name, "workload": "forward", "of": Side(method="linear.chunked")})
    assert ours.metric == name
