"""What a run that trains ends in: tables, lines on the terminal, columns of the long table."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from attnbench.report import console
from attnbench.report.findings import Findings
from attnbench.report.questions.growth.long_form import csv
from attnbench.report.tables import tables
from attnbench.report.text import latex, markdown
from attnbench.report.text.table import Table
from attnbench.schema.suite import ReportSpec
from attnbench.schema.training import Task, Training

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

GOLDEN = Path(__file__).parents[1] / "golden"


def found(run: "Synthetic") -> Findings:
    return Findings.of(run.run(), run.records())


def summaries(run: "Synthetic") -> list[Table]:
    return [table for table in tables(found(run)) if table.title.startswith("Training: ")]


def shown(run: "Synthetic", *, unicode: bool = True) -> str:
    return console.summary(found(run), unicode=unicode)


def test_tables_and_console_of_a_run_that_trains_are_as_stored(learning: "Synthetic") -> None:
    texts = tables(found(learning))
    for name, text in (("md", markdown.markdown(texts, "learning")), ("tex", latex.latex(texts)), ("txt", shown(learning))):
        assert text == (GOLDEN / f"train.{name}").read_text(encoding="utf-8"), name


def test_a_row_says_what_was_learnt_and_what_an_update_costs(learning: "Synthetic") -> None:
    (table,) = summaries(learning)
    assert table.title == "Training: copy, N=128, causal, float32"
    rows = {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}
    softmax = rows["softmax.sdpa"]
    assert softmax["loss, nats"].startswith("0.0291 [")
    assert softmax["accuracy"].startswith("98.9% [")
    assert softmax["time per update"].startswith("2.09 ms (")
    assert (softmax["tier"], softmax["parameters"], softmax["updates"]) == ("library", "4,288", "2,000")


def test_time_and_memory_are_of_a_whole_update_and_not_of_a_sequence(learning: "Synthetic") -> None:
    (table,) = summaries(learning)
    summary = found(learning).summaries[0]
    read = summary.memory.bytes("host_rss_peak")
    assert summary.B == 64
    assert read is not None
    assert table.rows[0][table.headers.index("memory of an update")] == f"{read / 2**20:.0f} MiB"


def test_a_failed_method_is_a_row_with_its_status_and_a_note_with_its_reason(learning: "Synthetic") -> None:
    (table,) = summaries(learning)
    rows = {row[0]: row for row in table.rows}
    assert rows["sparse.strided"] == ("sparse.strided", "eager", "", "budget", "", "", "", "", "budget")
    assert "budget: sparse.strided at 128: 40 of 2,000 updates in 300 s" in table.notes
    assert "unsupported" in rows["linformer.headwise"]


def test_the_best_is_bold_with_what_cannot_be_told_from_it(learning: "Synthetic") -> None:
    (table,) = summaries(learning)
    assert {(table.rows[row][0], table.headers[column]) for row, column in table.bold} == {
        (method, score) for method in ("softmax.sdpa", "linear.chunked(chunk=64)") for score in ("loss, nats", "accuracy")
    }


def test_chance_the_model_the_rule_of_stopping_and_the_data_are_said(learning: "Synthetic") -> None:
    (table,) = summaries(learning)
    text = "\n".join(table.notes)
    assert "Chance: loss 2.30, accuracy 10.0%." in text
    assert "4 layers, H=8, D=64 (width 512), feed-forward 4×" in text
    assert "exactly 2,000 updates of B=64 sequences by RAdam, rate 0.001, then 0.0001 from update 1,500 on" in text
    assert "Data: copy." in text


@pytest.mark.parametrize(
    ("seeds", "words", "brackets"),
    [
        (1, "n = 1: one seed, so no range", False),
        (2, "n = 2 seeds, of weights and of data: their mean; in brackets smallest and largest seed", True),
        (3, "n = 3 seeds, of weights and of data: their mean; in brackets 95 % t interval of the mean", True),
    ],
)
def test_what_stands_in_brackets_is_said(learning: "Synthetic", seeds: int, words: str, brackets: bool) -> None:
    learning.replicates = seeds
    (table,) = summaries(learning)
    assert any(note.startswith(words) for note in table.notes)
    assert ("[" in table.rows[0][3]) is brackets


def test_images_have_bits_per_dimension_and_texts_bits_per_byte_with_accuracy(picturing: "Synthetic") -> None:
    (images,) = summaries(picturing)
    assert images.headers[3:5] == ("loss, nats", "bits/dim")
    assert "accuracy" not in images.headers
    picturing.trainings = (Training(task=Task.BYTES, data="/data/corpora/enwik8"),)
    (texts,) = summaries(picturing)
    assert texts.headers[3:6] == ("loss, nats", "accuracy", "bits/byte")
    assert texts.title == "Training: bytes, enwik8, N=64, causal, float32"


def test_each_length_and_each_model_has_a_table_of_its_own(learning: "Synthetic") -> None:
    learning.lengths = (64, 128)
    learning.trainings = tuple(Training(task=Task.COPY, updates=100, recompute=again) for again in (False, True))
    titles = [table.title for table in summaries(learning)]
    assert sorted(titles) == sorted(
        f"Training: copy, N={N}, causal, float32, {words}gradient checkpointing" for N in (64, 128) for words in ("no ", "")
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_a_resumed_training_is_said_whichever_seed_it_was(learning: "Synthetic", seed: int) -> None:
    records = [
        record.model_copy(update={"outcome": outcome.model_copy(update={"flags": (*outcome.flags, "resumed")})})
        if (outcome := record.outcome).kind == "measured" and record.job.replicate == seed
        else record
        for record in learning.records()
    ]
    (table, *_) = tables(Findings.of(learning.run(), records))
    assert any(note.startswith("Resumed from a checkpoint, which changes no weight: softmax.sdpa") for note in table.notes)


def test_a_run_of_which_nothing_was_trained_has_all_its_rows(learning: "Synthetic") -> None:
    (table,) = tables(Findings.of(learning.run(), []))
    assert {row[3] for row in table.rows} == {"not run"}
    assert table.bold == frozenset()
    assert "No method was trained to its end." in table.notes
    assert "not run" in console.summary(Findings.of(learning.run(), []))


def test_the_terminal_is_80_columns_wide_whatever_the_names(
    synthetic: "type[Synthetic]", law: "type[Law]", learning: "Synthetic"
) -> None:
    laws = [law(f"family.{'long' * 20}{i}", 1e-3, 1.0, {"chunk": 64}, learns=0.2 + 0.01 * i) for i in range(30)]
    learning.laws = [*laws, law("中文|<b>\x1b[31m", 1e-3, 1.0)]
    for unicode in (True, False):
        text = shown(learning, unicode=unicode)
        assert max(map(len, text.splitlines())) <= 80
        assert "and 7 more methods, of greater loss or without one: see table.md" in text
        assert "\x1b" not in text
    assert shown(learning, unicode=False).isascii()


def test_the_least_loss_has_a_star_and_a_failure_stands_in_its_place(learning: "Synthetic") -> None:
    lines = {line.split()[0]: line for line in shown(learning).splitlines() if "  " in line and not line.startswith(" ")}
    assert lines["softmax.sdpa"].count("*") == 2
    assert "*" not in lines["lsh.reformer(rounds=4)"]
    assert lines["sparse.strided"].split() == ["sparse.strided", "budget"]


def test_loss_accuracy_and_bits_have_columns_and_so_has_all_that_makes_the_model(
    learning: "Synthetic", picturing: "Synthetic", small: "Synthetic"
) -> None:
    table = pd.read_csv(io.StringIO(csv(found(learning))))
    row = table.iloc[0]
    assert row["loss_low"] < row["loss"] < row["loss_high"]
    assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
    assert pd.isna(row["bits"])
    assert (row["loss_interval_kind"], row["parameters"]) == ("interval", 4288)
    assert (row["task"], row["layers"], row["updates"], row["recompute"]) == ("copy", 4, 2000, False)
    failed = table[table["status"] != "ok"]
    assert failed[["loss", "accuracy", "bits"]].isna().all().all()
    assert set(failed["reason"]) == {"40 of 2,000 updates in 300 s", "it is not causal | no"}
    images = pd.read_csv(io.StringIO(csv(found(picturing)))).iloc[0]
    assert images["bits_low"] < images["bits"] < images["bits_high"]
    assert list(pd.read_csv(io.StringIO(csv(found(small))))) == list(table)


def test_names_and_reasons_are_data_in_every_format(learning: "Synthetic", law: "type[Law]") -> None:
    name, reason = "=cmd|<script>_$x^2$", "\\input{x}\n|`*<b>"
    learning.laws = [law("softmax.sdpa", 1e-3, 1.0), law(name, 1e-3, 1.0), law("a.b", 1, 1, stop_at=128, reason=reason)]
    texts = tables(found(learning))
    page, paper = markdown.markdown(texts, "x"), latex.latex(texts)
    assert "<script>" not in page
    assert "\\input" not in paper.replace("\\textbackslash{}input", "")
    assert all("\n" not in value for value in csv(found(learning)).split('"')[1::2])


def test_time_and_memory_by_length_are_per_sequence_where_a_suite_asks_for_them(learning: "Synthetic") -> None:
    learning.report = ReportSpec(tables=("time", "memory", "state", "fidelity"))
    titles = [table.title.partition(":")[0] for table in tables(found(learning))]
    assert titles == ["Time per sequence", "Memory per sequence, host_rss_peak"]
