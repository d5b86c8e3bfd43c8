"""Fidelity over replicates: means, their range, and what makes a record useless."""

import math
from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.cells import summarize
from attnbench.analyze.fidelity import score
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import COSINE, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP, Failed, Measured, Outcome, Series, Status
from attnbench.schema.record import Record

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer


def kept(recall: float, error: float = 0.5) -> Measured:
    values = {MASS_RECALL: recall, OUTPUT_ERROR: error}
    return Measured(samples={name: Series(unit="1", values=(value,)) for name, value in values.items()})


def told(writer: "Writer", *outcomes: Outcome) -> tuple[Cell, list[Record]]:
    cell = writer.cell().model_copy(update={"workload": Workload.FIDELITY})
    jobs = [Job(cell=cell, phase=Pass.FIDELITY, replicate=i) for i in range(len(outcomes))]
    return cell, [writer.record(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]


def test_few_replicates_give_a_band_and_five_a_t_interval_of_the_mean(writer: "Writer") -> None:
    cell, records = told(writer, kept(0.2), kept(0.6), kept(0.4))
    (summary,) = summarize([cell], records)
    band = score(summary, MASS_RECALL)
    assert band is not None
    assert band.value == pytest.approx(0.4)
    assert band.interval == Interval(0.2, 0.6, Spread.BAND)
    cell, records = told(writer, *(kept(value) for value in (0.1, 0.2, 0.3, 0.4, 0.5)))
    (summary,) = summarize([cell], records)
    found = score(summary, MASS_RECALL)
    assert found is not None
    assert found.interval.kind is Spread.INTERVAL
    assert found.interval.high - found.value == pytest.approx(2.7764 * math.sqrt(0.025 / 5), rel=1e-4)


def test_nothing_and_everything_are_shares_like_others(writer: "Writer") -> None:
    for recall in (0.0, 1.0):
        cell, records = told(writer, *[kept(recall, 0.0)] * 5)
        (summary,) = summarize([cell], records)
        for metric, value in ((MASS_RECALL, recall), (OUTPUT_ERROR, 0.0)):
            assert score(summary, metric) == Estimate(value, Interval(value, value, Spread.INTERVAL))


def test_an_interval_ends_where_a_share_or_an_error_must(writer: "Writer") -> None:
    cell, records = told(writer, *(kept(recall, 1 - recall) for recall in (1.0, 1.0, 1.0, 1.0, 0.5)))
    (summary,) = summarize([cell], records)
    recall, error = score(summary, MASS_RECALL), score(summary, OUTPUT_ERROR)
    assert recall is not None
    assert error is not None
    assert (recall.interval.high, error.interval.low) == (1.0, 0.0)
    assert recall.interval.low == pytest.approx(0.9 - 2.7764 * 0.1, rel=1e-3)
    assert error.interval.high == pytest.approx(0.1 + 2.7764 * 0.1, rel=1e-3)


def test_a_cosine_may_be_negative_and_an_overlap_may_not(writer: "Writer") -> None:
    outcomes = []
    for value in (-1.0, -1.0, -1.0, -1.0, 0.0):
        more = {COSINE: value, TOP_OVERLAP: 1 + value}
        samples = {name: Series(unit="1", values=(each,)) for name, each in more.items()}
        outcomes.append(Measured(samples={**kept(0.5).samples, **samples}))
    cell, records = told(writer, *outcomes)
    (summary,) = summarize([cell], records)
    cosine, overlap = score(summary, COSINE), score(summary, TOP_OVERLAP)
    assert cosine is not None
    assert overlap is not None
    assert (cosine.value, cosine.interval.low) == pytest.approx((-0.8, -1.0))
    assert (overlap.value, overlap.interval.low) == pytest.approx((0.2, 0.0))


def test_a_record_without_cosine_and_overlap_is_as_good(writer: "Writer") -> None:
    cell, records = told(writer, kept(0.2), kept(0.6))
    (summary,) = summarize([cell], records)
    assert summary.ok
    assert (score(summary, COSINE), score(summary, TOP_OVERLAP)) == (None, None)


def test_a_cell_that_is_not_timed_has_no_time(writer: "Writer") -> None:
    cell, records = told(writer, kept(0.2), kept(0.6))
    (summary,) = summarize([cell], records)
    assert summary.ok
    assert (summary.replicates, summary.samples) == (2, 2)
    assert (summary.median, summary.interval) == (None, None)


def test_a_timed_cell_has_no_score(writer: "Writer") -> None:
    cell = writer.cell()
    (summary,) = summarize([cell], [writer.timed(cell, [1.0, 2.0])])
    assert score(summary, MASS_RECALL) is None


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (Failed(status=Status.TIMEOUT, reason="no answer"), "timeout", "no answer"),
        (Measured(), "error", "the record holds no samples of mass_recall"),
        (kept(0.5, math.inf), "error", "a sample of output_error is not a finite number"),
    ],
)
def test_a_replicate_without_numbers_fails_the_cell(writer: "Writer", outcome: Outcome, status: str, reason: str) -> None:
    cell, records = told(writer, kept(0.2), outcome)
    (summary,) = summarize([cell], records)
    assert (summary.status, summary.reason) == (status, reason)
    assert score(summary, MASS_RECALL) is None
