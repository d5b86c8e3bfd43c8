"""What a run that trains ends in: tables, lines on the terminal, columns of the long table."""

import io

import pandas as pd
import pytest

from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.findings import Findings
from attnbench.report.frame import csv
from attnbench.report.tables import tables
from attnbench.report.text.table import Table
from attnbench.schema.suite import ReportSpec
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found


def summaries(run: Synthetic) -> list[Table]:
    return [table for table in tables(found(run)) if table.title.startswith("Training: ")]


def shown(run: Synthetic, *, unicode: bool = True) -> str:
    return console.summary(found(run), unicode=unicode)


def test_images_have_bits_per_dimension_and_texts_bits_per_byte_with_accuracy(picturing: Synthetic) -> None:
    (images,) = summaries(picturing)
    assert images.headers[3:5] == ("loss", "bits/dim")
    assert "accuracy" not in images.headers
    picturing.trainings = (Training(task=Task.BYTES, data="/data/corpora/enwik8"),)
    (texts,) = summaries(picturing)
    assert texts.headers[3:6] == ("loss", "accuracy", "bits/byte")
    assert texts.title == "Training: bytes, enwik8, N=64, causal, float32"


def test_speech_has_an_error_rate_of_which_the_least_is_bold_and_columns_for_it(hearing: Synthetic) -> None:
    (table,) = summaries(hearing)
    assert table.headers[3:5] == ("loss", "error rate")
    assert "accuracy" not in table.headers
    (rate,) = (row[4] for row in table.rows if row[0] == "lsh.reformer(rounds=4)")
    assert rate.startswith(("29", "30", "31"))
    assert "%" in rate
    assert {table.rows[row][0] for row, column in table.bold if column == 4} == {"softmax.sdpa", "linear.chunked(chunk=64)"}
    assert "Chance: loss 2.30, error rate 100%." in measured(found(hearing))
    assert "error rate" in shown(hearing)
    row = pd.read_csv(io.StringIO(csv(found(hearing)))).iloc[0]
    assert row["error_rate_low"] < row["error_rate"] < row["error_rate_high"]
    assert pd.isna(row["accuracy"])
    assert (row["task"], row["symbols"]) == ("speech", 10)


def test_each_length_and_each_model_has_a_table_of_its_own(learning: Synthetic) -> None:
    learning.lengths = (64, 128)
    learning.trainings = tuple(Training(task=Task.COPY, updates=100, recompute=again) for again in (False, True))
    titles = [table.title for table in summaries(learning)]
    assert sorted(titles) == sorted(
        f"Training: copy, N={N}, causal, float32, {words}gradient checkpointing" for N in (64, 128) for words in ("no ", "")
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_a_resumed_training_is_said_whichever_seed_it_was(learning: Synthetic, seed: int) -> None:
    records = [
        record.model_copy(update={"outcome": outcome.model_copy(update={"flags": (*outcome.flags, "resumed")})})
        if (outcome := record.outcome).kind == "measured" and record.job.replicate == seed
        else record
        for record in learning.records()
    ]
    lines = measured(Findings.of(learning.run(), records))
    assert any("Resumed from a checkpoint, which changes no weight: softmax.sdpa" in line for line in lines)


def test_a_run_of_which_nothing_was_trained_has_all_its_rows(learning: Synthetic) -> None:
    (table,) = tables(Findings.of(learning.run(), []))
    assert {row[3] for row in table.rows} == {"not run"}
    assert table.bold == frozenset()
    assert table.notes[-1] == "No cell gave a number."
    assert "not run" in console.summary(Findings.of(learning.run(), []))


def test_the_terminal_is_80_columns_wide_whatever_the_names(learning: Synthetic) -> None:
    laws = [Law(f"family.{'long' * 20}{i}", 1e-3, 1.0, {"chunk": 64}, learns=0.2 + 0.01 * i) for i in range(30)]
    learning.laws = [*laws, Law("中文|<b>\x1b[31m", 1e-3, 1.0)]
    for unicode in (True, False):
        text = shown(learning, unicode=unicode)
        assert max(map(len, text.splitlines())) <= 80
        assert "and 7 more methods, behind at 128 or without a number there: see table.md" in text
        assert "\x1b" not in text
    assert shown(learning, unicode=False).isascii()


def test_the_least_loss_has_a_star_and_a_failure_stands_in_its_place(learning: Synthetic) -> None:
    lines = {line.split()[0]: line for line in shown(learning).splitlines() if "  " in line and not line.startswith(" ")}
    assert lines["softmax.sdpa"].count("*") == 2
    assert "*" not in lines["lsh.reformer(rounds=4)"]
    assert lines["sparse.strided"].split() == ["sparse.strided", "budget", "budget"]


def test_loss_accuracy_and_bits_have_columns_and_so_has_all_that_makes_the_model(
    learning: Synthetic, picturing: Synthetic, small: Synthetic
) -> None:
    table = pd.read_csv(io.StringIO(csv(found(learning))))
    row = table.iloc[0]
    assert row["loss_low"] < row["loss"] < row["loss_high"]
    assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
    assert pd.isna(row["bits"])
    assert (row["loss_interval"], row["parameters"]) == ("interval", 4288)
    assert (row["task"], row["layers"], row["updates"], row["recompute"]) == ("copy", 4, 2000, False)
    failed = table[table["status"] != "ok"]
    assert failed[["loss", "accuracy", "bits"]].isna().all().all()
    assert set(failed["reason"]) == {"40 of 2,000 updates in 300 s", "it is not causal | no"}
    images = pd.read_csv(io.StringIO(csv(found(picturing)))).iloc[0]
    assert images["bits_low"] < images["bits"] < images["bits_high"]
    assert list(pd.read_csv(io.StringIO(csv(found(small))))) == list(table)


def test_time_and_memory_by_length_are_per_sequence_where_a_suite_asks_for_them(learning: Synthetic) -> None:
    learning.report = ReportSpec(tables=("time", "memory", "state", "fidelity"))
    titles = [table.title.partition(":")[0] for table in tables(found(learning))]
    assert titles == ["Time per sequence", "Memory per sequence (host_rss_peak)"]
