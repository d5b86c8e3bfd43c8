"""The summary for a terminal: what it says, how wide it is, and the stored texts of four runs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.sections import Section
from attnbench.report import console
from attnbench.report.console import BLOCKS, PLAIN, sparkline
from attnbench.report.findings import Findings
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import OUTPUT_ERROR, Status
from attnbench.schema.problem import Problem
from tests.report.conftest import Law, Synthetic
from tests.report.stored import as_stored


def shown(made: Synthetic, *, unicode: bool = True) -> str:
    return console.summary(Findings.of(made.run(), made.records()), unicode=unicode)


def stored(name: str, text: str) -> bool:
    return as_stored(f"console_{name}.txt", text)


def line_of(text: str, begin: str) -> str:
    # the sentence of result has no two spaces in a row
    (found,) = (line for line in text.split("\n") if line.startswith(begin) and "  " in line)
    return found


@pytest.mark.parametrize(("made", "file", "replicates"), [("small", "3", 3), ("small", "5", 5), ("decoding", "decode", 3)])
def test_the_summary_of_a_run_is_as_stored(request: pytest.FixtureRequest, made: str, file: str, replicates: int) -> None:
    assert stored(file, shown(replace(request.getfixturevalue(made), replicates=replicates)) + "\n")


def test_the_summary_of_a_sweep_is_as_stored_and_explains_every_kind_of_failure_in_eighty_columns() -> None:
    text = shown(Synthetic(replicates=5))
    assert stored("sweep", text + "\n")
    assert max(map(len, text.splitlines())) <= 80
    for status in ("OOM", "budget", "crashed", "unsupported", "wrong"):
        assert f"\n{status}: " in text


def test_a_run_without_records_says_that_nothing_was_run(small: Synthetic) -> None:
    text = console.summary(Findings.of(small.run(), []))
    assert text.startswith("Nothing can be told: ")
    assert "not run" in text
    assert "no record of this cell yet" in text


def test_a_run_without_cells_has_a_sentence_and_a_machine() -> None:
    text = console.summary(Findings.of(Synthetic([]).run(), []))
    assert text.startswith("Nothing was measured: the run has no cells.\n")
    assert "AMD EPYC 9B14" in text


def test_each_kind_of_time_is_said(decoding: Synthetic) -> None:
    decoding.workloads = (Workload.FORWARD, Workload.DECODE, Workload.DECODE_TOTAL)
    text = " ".join(shown(decoding).split())
    assert (
        " synthetic: time per sample, median of replicates; time per token, median of replicates; time per sequence, median"
        in text
    )


# the shape over all lengths


def test_curves_of_a_section_share_a_scale() -> None:
    laws = (Law("softmax.slow", 1.0, 2.0), Law("linear.fast", 1e-3, 0.0), Law("linear.between", 1.0, 0.0))
    run = Synthetic(laws, lengths=(512, 1024, 2048, 4096), workloads=(Workload.FORWARD,), causal=(True,))
    text = shown(run)
    assert line_of(text, "softmax.slow").endswith("█")
    assert line_of(text, "linear.fast").endswith("▁▁▁▁")
    between = line_of(text, "linear.between").split()[-1]
    assert len(set(between)) == 1
    assert BLOCKS.index("▁") < BLOCKS.index(between[0]) < BLOCKS.index("█")


def test_a_failure_has_a_sign_of_its_own_and_what_was_not_planned_a_gap() -> None:
    laws = (Law("softmax.a", 1e-3, 1.0), Law("linear.b", 1e-3, 1.0, stop_at=2048, reason="full"))
    run = Synthetic(laws, lengths=(512, 1024, 2048, 4096), workloads=(Workload.FORWARD,), causal=(True,))
    info = run.run()
    left_out = [cell for cell in info.cells if (cell.method, cell.problem.N) == ("softmax.a", 1024)]
    info = info.model_copy(update={"cells": tuple(cell for cell in info.cells if cell not in left_out)})
    records = [record for record in run.records() if record.job.cell not in left_out]
    text = console.summary(Findings.of(info, records))
    assert line_of(text, "linear.b").endswith("××")
    assert line_of(text, "softmax.a")[-3] == " "
    plain = console.summary(Findings.of(info, records), unicode=False)
    assert line_of(plain, "linear.b").endswith("xx")
    assert "from . to # on one logarithmic scale" in " ".join(plain.split())


def test_one_length_has_no_shape() -> None:
    text = shown(Synthetic(lengths=(512,)))
    assert "over N" not in text
    assert not set(text) & set(BLOCKS)


def test_of_forty_lengths_five_have_a_time_and_sixteen_a_sign() -> None:
    lengths = tuple(range(128, 128 * 41, 128))
    run = Synthetic([Law("softmax.a", 1e-3, 1.5)], lengths=lengths, workloads=(Workload.FORWARD,), causal=(True,))
    line = line_of(shown(run), "softmax.a")
    assert sum(letter in BLOCKS for letter in line) == 16
    assert line.count(" ms") + line.count(" µs") <= 5


@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.floats(-1e3, 1e3), st.floats(0, 1e3))
def test_a_sparkline_has_a_sign_a_point_that_rises_with_it(heights: list[float], low: float, span: float) -> None:
    signs = [BLOCKS.index(sign) for sign in sparkline(sorted(heights), low, low + span)]
    assert len(signs) == len(heights)
    assert signs == sorted(signs)


def test_the_ends_of_a_scale_have_the_lowest_and_the_highest_sign() -> None:
    assert sparkline([0.0, 0.5, 1.0, "×"], 0.0, 1.0) == "▁▅█×"
    assert sparkline([0.0, 1.0], 0.0, 1.0, PLAIN) == ".#"
    assert sparkline([3.0], 3.0, 3.0) == "▁"


# many methods


@pytest.fixture
def crowd() -> Synthetic:
    """99 methods of long names; every tenth fails, the exact one is the slowest."""
    others = [
        Law(
            f"family{i % 7}.a_method_with_a_rather_long_name_of_its_own_{i}",
            1e-3 * (1 + 0.1 * i),
            1.0,
            {"chunk": i},
            stop_at=1 if i % 10 == 5 else None,
            status=Status.UNSUPPORTED,
            reason="only the non-causal form is written",
        )
        for i in range(98)
    ]
    laws = (Law("softmax.sdpa", 1.0, 1.95, tier="library"), *others)
    return Synthetic(laws, lengths=(512, 1024, 2048), workloads=(Workload.FORWARD,), causal=(True,), replicates=2)


def test_of_ninety_nine_methods_the_fastest_come_first_and_the_baseline_last(crowd: Synthetic) -> None:
    lines = shown(crowd).split("\n")
    rows = [line for line in lines if line.startswith(("family", "softmax")) and "  " in line]
    # names that are cut stay different
    assert len({row.split()[0] for row in rows}) == len(rows) == 24
    assert rows[-1].startswith("softmax.sdpa")
    assert rows[0].count("*") == 3
    assert "and 75 more methods, behind at 2k or without a number there: see table.md" in lines
    assert max(map(len, lines)) <= 80


def test_reasons_of_many_methods_take_four_lines_and_keep_the_reason(crowd: Synthetic) -> None:
    lines = shown(crowd).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("unsupported: "))
    end = next(i for i, line in enumerate(lines[start + 1 :], start + 1) if not line.startswith("  "))
    assert end - start <= 4
    assert " ".join(" ".join(lines[start:end]).split()).endswith("only the non-causal form is written")


# fidelity


def test_least_error_is_marked_with_what_overlaps(small: Synthetic) -> None:
    errors = {"lsh.a": 0.1, "lsh.b": 0.1, "lsh.c": 0.6}
    cells = tuple(
        CellSummary(
            Cell(method=method, problem=Problem(N=512), workload=Workload.FIDELITY),
            OK,
            scores={OUTPUT_ERROR: {r: error + 0.001 * r for r in range(3)}},
            facts={"top_keys": 32},
        )
        for method, error in errors.items()
    )
    section = Section(Workload.FIDELITY, False, "float32", cells)
    text = console.summary(replace(Findings.of(small.run(), []), summaries=cells, sections=(section,)))
    said = "output error, mean of replicates; * the best, and what cannot be told from it"
    assert said in " ".join(text.split())
    assert [line_of(text, method).endswith("]*") for method in errors] == [True, True, False]
