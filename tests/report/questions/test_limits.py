"""The largest lengths and batches as tables and CSV: what fits, what ended it, and what does not run at all."""

import csv
import io

import pytest

from attnbench.analyze.limits import limits
from attnbench.report.questions.limits import ended, limits_csv, limits_tables, value_text
from attnbench.report.text import latex, markdown
from attnbench.report.text.table import plain
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Counter, Failed, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from tests.report.conftest import Law, Synthetic
from tests.report.stored import as_stored

MOST = 2**15
HELD = {"softmax.sdpa": 6144, "linear.chunked": MOST, "lsh.reformer": 2048, "sparse.strided": 0}
FULL = {"softmax.sdpa": Status.OOM_HOST, "lsh.reformer": Status.CRASHED, "sparse.strided": Status.INCORRECT}


@pytest.fixture
def run() -> RunInfo:
    """A run as a search plans it."""
    laws = [Law(name, 1e-3, 1.0, {"chunk": 64} if name == "linear.chunked" else {}) for name in HELD]
    return Synthetic(laws, lengths=(512,), workloads=(Workload.FORWARD,), replicates=1).run()


def record(cell: Cell, phase: Pass, outcome: Measured | Failed, N: int) -> Record:
    job = Job(cell=cell.model_copy(update={"problem": cell.problem.model_copy(update={"N": N})}), phase=phase, B=cell.problem.B)
    return Record(job=job, outcome=outcome, environment="e", started="2026-01-02T03:04:05+00:00")


def search(cell: Cell) -> list[Record]:
    """The last two trials of a search and the memory of what fits."""
    held, full, found = HELD[cell.method], FULL.get(cell.method), []
    if held:
        peak = {"host_rss_peak": Counter(bytes=1000 * held, source="VmHWM | of /proc")}
        found.append(record(cell, Pass.FIT, Measured(facts={"B": 1, "seconds": 0.125}), held))
        found.append(record(cell, Pass.MEMORY, Measured(memory=peak), held))
    if full:
        N = held + held // 16 or 512
        found.append(record(cell, Pass.FIT, Failed(status=full, reason=f"it ended | at {N}"), N))
    return found


def test_a_section_is_a_table_a_method_a_row_and_below_stands_why_some_do_not_fit_on_a_terminal_once(run: RunInfo) -> None:
    found = limits(run.cells, [r for cell in run.cells for r in search(cell)], MOST)
    tables = limits_tables(run, found)
    assert as_stored("limits.md", markdown.markdown(tables, "Limits"))
    assert as_stored("limits.txt", plain(tables) + "\n")
    assert as_stored("limits.csv", limits_csv(run, found))
    assert [row[3] for row in tables[0].rows] == ["6,144", "32,768", "2,048", "does not run"]


def test_a_search_that_was_cut_or_not_begun_says_so(run: RunInfo) -> None:
    cell = run.cells[0]
    cut, never = (limits([cell], found, MOST)[0] for found in (search(cell)[:1], []))
    assert (value_text(cut), ended(cut)) == ("at least 6,144", "unfinished")
    assert (value_text(never), ended(never)) == ("not searched", "unfinished")
    assert "unfinished" in limits_csv(run, [cut, never])


def test_where_no_memory_was_read_it_is_n_a_with_the_reason_and_never_0(run: RunInfo) -> None:
    cell = run.cells[0]
    trial, _, _ = search(cell)
    full = record(cell, Pass.MEMORY, Failed(status=Status.OOM_HOST, reason="full"), HELD[cell.method])
    (table,) = limits_tables(run, limits([cell], [trial, full], MOST))
    assert table.rows[0][4] == "n/a"
    assert "Memory n/a: oom_host: full." in table.notes


def test_a_largest_batch_stands_beside_its_length() -> None:
    laws = [Law("softmax.sdpa", 1e-3, 1.0)]
    batches = Synthetic(laws, (512, 1024), (True,), (Workload.DECODE,), batches=(Batch.LARGEST,), replicates=1)
    run, records = batches.run(), [r for r in batches.records() if r.job.phase is Pass.FIT]
    found = limits(run.cells, records, 2**16 - 1)
    (table,) = limits_tables(run, found)
    assert table.title == "Largest B that fits: decoding, causal, float32"
    assert [row[2:4] for row in table.rows] == [("512", "at least 128"), ("1k", "at least 64")]
    rows = list(csv.DictReader(io.StringIO(limits_csv(run, found))))
    assert [(row["searched"], row["N"], row["B"]) for row in rows] == [("B", "512", "128"), ("B", "1024", "64")]


def test_names_and_reasons_stay_text_in_every_form(hostile: Synthetic) -> None:
    run = hostile.run()
    bad = Failed(status=Status.ERROR, reason="=a\nb | $x$ \\end{table*} <b> \x1b[31m")
    found = limits(run.cells, [record(cell, Pass.FIT, bad, cell.problem.N) for cell in run.cells], MOST)
    tables = limits_tables(run, found)
    assert "<b>" not in markdown.markdown(tables, "t")
    assert "\\end{table*} " not in latex.latex(tables)
    assert all(line.isprintable() for line in plain(tables).split("\n"))
    assert not [row for row in csv.reader(io.StringIO(limits_csv(run, found))) if row[0][0] in "=+-@"]
