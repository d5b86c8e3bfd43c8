"""The sentence of result on runs that train and generate."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.findings import Findings
from attnbench.report.headline.sentence import headline, headlines
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import LOSS
from attnbench.schema.problem import Problem
from attnbench.schema.run import RunInfo
from attnbench.schema.training import Task, Training

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

BASE = "softmax.sdpa"
COPY = Training(task=Task.COPY, updates=1500, late_from=1000)


@pytest.fixture
def info(synthetic: "type[Synthetic]") -> RunInfo:
    return synthetic([]).run()


def said(
    info: RunInfo, losses: Mapping[str, Sequence[float]], training: Training = COPY, conditions: str = "float32", N: int = 128
) -> str:
    cells = tuple(_cell(method, values, training, N) for method, values in losses.items())
    section = Section(Workload.TRAIN, True, conditions, cells)
    return headline(Findings(info, cells, (section,), None))


def _cell(method: str, losses: Sequence[float], training: Training, N: int) -> CellSummary:
    cell = Cell(method=method, problem=Problem(N=N, causal=True), workload=Workload.TRAIN, training=training)
    if not losses:
        return CellSummary(cell, "budget", "too slow")
    seeds = dict(enumerate(losses))
    return CellSummary(cell, OK, medians=dict.fromkeys(seeds, 1e-2), scores={LOSS: seeds})


def test_who_reaches_the_exact_ones_loss_is_said_to_do_so_with_its_interval(info: RunInfo) -> None:
    assert said(info, {BASE: [0.50, 0.52, 0.51], "linear.chunked": [0.51, 0.53, 0.525]}) == (
        "Copy, N = 128, causal, float32: linear.chunked reaches softmax.sdpa's loss "
        "(0.01 [0.00, 0.02] nats apart after 1,500 updates, 3 seeds)."
    )


def test_each_method_is_told_of_and_so_is_what_failed(info: RunInfo) -> None:
    losses = {
        BASE: [0.50, 0.51, 0.49],
        "near": [0.50, 0.51, 0.49],
        "far": [0.90, 0.95, 0.85],
        "best": [0.30, 0.31, 0.29],
        "noisy": [0.40, 0.90, 0.60],
        "failed": [],
    }
    assert said(info, losses) == (
        "Copy, N = 128, causal, float32: best ends below softmax.sdpa's loss "
        "(-0.20 [-0.20, -0.20] nats apart after 1,500 updates, 3 seeds); near reaches it (0.00 [0.00, 0.00]); "
        "far stays above it (0.40 [0.30, 0.50]); cannot tell whether noisy reaches it (0.13 [-0.48, 0.74]); "
        "without a loss: budget 1."
    )


def test_several_that_stand_alike_share_a_clause_and_very_many_are_counted(info: RunInfo) -> None:
    two = {BASE: [0.5] * 3, "a": [0.51] * 3, "b": [0.52] * 3}
    assert "a and b reach softmax.sdpa's loss (0.01 [0.01, 0.01] and 0.02 [0.02, 0.02] nats apart" in said(info, two)
    many = {BASE: [0.5] * 3, **{f"m{i}": [1.5] * 3 for i in range(9)}}
    text = said(info, many)
    assert "m0, m1, m2 and 6 others stay above softmax.sdpa's loss (1.00 [1.00, 1.00], 1.00 [1.00, 1.00], " in text
    assert "1.00 [1.00, 1.00], … nats apart" in text


@pytest.mark.parametrize(("seeds", "words"), [(1, "1 seed"), (2, "2 seeds")])
def test_from_fewer_than_three_seeds_it_cannot_tell(info: RunInfo, seeds: int, words: str) -> None:
    assert said(info, {BASE: [0.5] * seeds, "x": [0.9] * seeds}) == (
        "Copy, N = 128, causal, float32: cannot tell whether x reaches softmax.sdpa's loss "
        f"(0.40 nats apart after 1,500 updates, {words}, where 3 are the fewest that tell)."
    )


@pytest.mark.parametrize(
    ("training", "N", "begin", "unit"),
    [
        (Training(task=Task.PIXELS), 64, "Pixels, digits, N = 64", "1.00 [1.00, 1.00] bits per dimension"),
        (
            Training(task=Task.BYTES, data="/data/a\nbook.txt"),
            64,
            "Bytes, a book.txt, N = 64",
            "1.00 [1.00, 1.00] bits per byte",
        ),
        (Training(task=Task.RECALL), 64, "Recall, N = 64", "0.69 [0.69, 0.69] nats"),
    ],
)
def test_bits_are_said_where_they_are_what_is_usual(info: RunInfo, training: Training, N: int, begin: str, unit: str) -> None:
    nats = math.log(2)
    text = said(info, {BASE: [nats] * 3, "x": [2 * nats] * 3}, training, N=N)
    assert text.startswith(f"{begin}, causal, float32: x stays above")
    assert f"({unit} apart after 3,000 updates, 3 seeds)" in text


def test_the_task_is_not_said_twice(info: RunInfo) -> None:
    losses = {BASE: [0.5] * 3, "x": [0.5] * 3}
    assert said(info, losses, conditions="float32, copy, pairs=8").startswith("Copy, N = 128, causal, float32, pairs=8: ")


def test_where_only_one_was_trained_it_cannot_tell(info: RunInfo) -> None:
    assert said(info, {BASE: [0.5] * 3, "x": []}) == (
        "Cannot tell which learns the most: only softmax.sdpa gave a loss (training, causal, float32); "
        "without a number: budget 1."
    )
    assert said(info, {BASE: [0.5] * 3}) == "Nothing to compare: softmax.sdpa is the only method (training, causal, float32)."


def test_a_synthetic_run_of_training_is_summed_up(learning: "Synthetic", picturing: "Synthetic") -> None:
    text = headline(Findings.of(learning.run(), learning.records()))
    assert text.startswith("Copy, N = 128, causal, float32: linear.chunked(chunk=64) reaches softmax.sdpa's loss (")
    assert "lsh.reformer(rounds=4) stays above it (" in text
    assert text.endswith("; without a loss: budget 1, unsupported 1.")
    assert "bits per dimension apart" in headline(Findings.of(picturing.run(), picturing.records()))


def test_generating_is_compared_by_time_and_says_nothing_of_quality(generating: "Synthetic") -> None:
    for text in headlines(Findings.of(generating.run(), generating.records())):
        assert "(generating, per sequence, causal, float32, " in text
        assert text.endswith("Speed only; quality is not compared.")


def test_a_run_that_did_both_is_summed_up_by_what_was_learnt(generating: "Synthetic") -> None:
    generating.workloads, generating.lengths = (Workload.GENERATE, Workload.TRAIN), (64,)
    first, *others = headlines(Findings.of(generating.run(), generating.records()))
    assert first.startswith("Pixels, digits, N = 64, causal, float32, B=1: ")
    assert any("generating" in text for text in others)
