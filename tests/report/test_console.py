"""The summary for a terminal, of runs of shapes beside those whose texts are stored."""

from typing import Any

from attnbench.report import console
from attnbench.report.console import BLOCKS, PLAIN, sparkline
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found


def line_of(text: str, begin: str) -> str:
    # the sentence of result has no two spaces in a row
    (line,) = (line for line in text.split("\n") if line.startswith(begin) and "  " in line)
    return line


def test_a_run_without_records_or_without_cells_says_so(small: Synthetic) -> None:
    text = console.summary(Findings.of(small.run(), []))
    assert text.startswith("Nothing can be told: ")
    assert "not run" in text
    assert "no record of this cell yet" in text
    text = console.summary(Findings.of(Synthetic([]).run(), []))
    assert text.startswith("Nothing was measured: the run has no cells.\n")
    assert "AMD EPYC 9B14" in text


def test_methods_are_called_as_the_suite_calls_them(small: Synthetic) -> None:
    small.report = ReportSpec(labels={"linear.chunked": "Linear", "softmax.sdpa": "Flash", "softmax.naive": "Naive"})
    text = console.summary(found(small))
    assert all(line_of(text, name) for name in ("Flash", "Linear(chunk=64)", "Naive"))
    assert "OOM: Naive at " in text


# the shape over all lengths


def test_a_failure_has_a_sign_of_its_own_and_what_was_not_planned_a_gap() -> None:
    laws = (Law("softmax.a", 1e-3, 1.0), Law("linear.b", 1e-3, 1.0, stop_at=2048, reason="full"))
    run = Synthetic(laws, lengths=(512, 1024, 2048, 4096), workloads=(Workload.FORWARD,), causal=(True,))
    info = run.run()
    left_out = [cell for cell in info.cells if cell.method == "softmax.a" and cell.problem.N in {512, 2048}]
    info = info.model_copy(update={"cells": tuple(cell for cell in info.cells if cell not in left_out)})
    findings = Findings.of(info, [record for record in run.records() if record.job.cell not in left_out])
    text, plain = (console.summary(findings, unicode=unicode) for unicode in (True, False))
    assert (whole := line_of(text, "linear.b")).endswith("××")
    assert [sign == " " for sign in line_of(text, "softmax.a")[len(whole) - 4 :]] == [True, False, True, False]
    assert line_of(plain, "linear.b").endswith("xx")
    assert "from . to # on one logarithmic scale" in " ".join(plain.split())


def test_one_length_has_no_shape_and_of_forty_five_have_a_time_and_sixteen_a_sign() -> None:
    text = console.summary(found(Synthetic(lengths=(512,))))
    assert "over N" not in text
    assert not set(text) & set(BLOCKS)
    lengths = tuple(range(128, 128 * 41, 128))
    run = Synthetic([Law("softmax.a", 1e-3, 1.5)], lengths=lengths, workloads=(Workload.FORWARD,), causal=(True,))
    line = line_of(console.summary(found(run)), "softmax.a")
    assert sum(letter in BLOCKS for letter in line) == 16
    assert line.count(" ms") + line.count(" µs") <= 5


def test_the_ends_of_a_scale_and_what_is_beyond_have_the_lowest_and_the_highest_sign() -> None:
    assert sparkline([0.0, 0.5, 1.0, "×"], 0.0, 1.0) == "▁▅█×"
    assert sparkline([-0.5, 0.0, 1.0, 1.5], 0.0, 1.0, PLAIN) == "..##"
    assert sparkline([3.0], 3.0, 3.0) == "▁"


# which methods


def test_of_ninety_nine_methods_the_fastest_come_first_and_the_baseline_last() -> None:
    name, reason = "family{}.a_method_with_a_rather_long_name_of_its_own_{}", "only the non-causal form is written"
    laws = [Law("softmax.sdpa", 1.0, 1.95, tier="library")]
    for i in range(98):
        # every tenth fails
        fails: dict[str, Any] = {"stop_at": 1, "status": Status.UNSUPPORTED, "reason": reason} if i % 10 == 5 else {}
        laws.append(Law(name.format(i % 7, i), 1e-3 * (1 + 0.1 * i), 1.0, {"chunk": i}, **fails))
    run = Synthetic(laws, lengths=(512, 1024, 2048), workloads=(Workload.FORWARD,), causal=(True,), replicates=2)
    lines = console.summary(found(run)).split("\n")
    rows = [line for line in lines if line.startswith(("family", "softmax")) and "  " in line]
    # names that are cut stay different
    assert len({row.split()[0] for row in rows}) == len(rows) == 24
    assert rows[-1].startswith("softmax.sdpa")
    assert rows[0].count("*") == 3
    assert "and 75 more methods, behind at 2k or without a number there: see table.md" in lines
    assert max(map(len, lines)) <= 80
    # a reason that so many have takes four lines, and is not what is left out of them
    start = next(i for i, line in enumerate(lines) if line.startswith("unsupported: "))
    end = next(i for i, line in enumerate(lines[start + 1 :], start + 1) if not line.startswith("  "))
    assert end - start <= 4
    assert " ".join(" ".join(lines[start:end]).split()).endswith(reason)
