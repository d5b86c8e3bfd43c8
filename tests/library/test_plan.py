"""Plans from Python: of a suite here, of one with a million cells, and of one for a GPU that is not here."""

import re

import pytest

import attnbench
from attnbench.schema.errors import UsageError
from attnbench.suite.load import shipped

SMALL = {"H": 1, "D": 8, "causal": True}
SUITE = {
    "name": "mine",
    "axes": {"N": [64, 128], **SMALL},
    "methods": ["softmax.sdpa", "linear.chunked", "linear.full"],
    "replicates": 2,
}
GPU = {
    "name": "s",
    "source": "a test",
    "axes": {"N": [1024, 2048], "B": 4, "H": 2, "D": 64, "dtype": ["bfloat16", "float32"], "causal": True},
    "methods": ["softmax.sdpa", "linear.fla_chunk", "sparse.local"],
}


@pytest.mark.usefixtures("roofed")
def test_a_plan_is_a_table_and_a_frame() -> None:
    plan = attnbench.plan(SUITE, device="cpu")
    frame = plan.frame()
    assert list(frame.columns) == ["method", "workload", "N", "causal", "B", "cell", "dtype", "least_s_per_call", "note"]
    assert "memory is not predicted" in str(plan)
    assert frame[frame.method == "linear.full"].note.str.startswith("unsupported").all()
    assert "6 cells, 4 to be measured, x 2 replicates, on cpu" in str(plan)
    assert "<table>" in plan._repr_html_()


@pytest.mark.usefixtures("roofed")
def test_a_suite_of_a_million_cells_is_planned_from_some_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.library.plan._MOST_ASKED", 90)
    plan = attnbench.plan({**SUITE, "axes": {**SMALL, "N": list(range(1, 1001)), "D": list(range(1, 334))}}, device="cpu")
    first, second, *_ = plan.summary
    assert first == "estimated from 90 cells, drawn at random from about 999,000"
    assert second == "999,000 cells, 666,000 to be measured, x 2 replicates, on cpu"
    assert [row[1] for row in plan.table.rows] == ["linear.chunked", "linear.full", "softmax.sdpa"]
    assert [row[3:5] for row in plan.table.rows] == [("333,000", "100%"), ("333,000", "0%"), ("333,000", "100%")]
    assert plan.table.rows[1][-1].startswith("unsupported")


@pytest.mark.usefixtures("warmed")
def test_on_a_gpu_that_is_not_here_the_data_sheet_bounds_a_call_and_packages_are_taken_for_granted() -> None:
    plan = attnbench.plan(GPU, device="cuda", assume="h200")
    first, second, *_ = plan.summary
    installed = "as if an H200 SXM were here, and as if fla-core>=0.6 were installed"
    assert first.replace(", triton>=3.3", "") == f"{installed}; times by its data sheet, which no call can beat"
    assert second == "12 cells, 10 to be measured, x 3 replicates, on cuda:0"
    *_, longest = (planned for planned in plan.cells if planned.cell.method == "softmax.sdpa")
    # float32, N = 2048: half of the square of scores, two products
    flops = 2 * 2 * 4 * 2 * 64 * 2048 * 2049 / 2
    assert longest.seconds == pytest.approx(flops / 67e12, rel=0.01)
    notes = {planned.cell.method: planned.note for planned in plan.cells if planned.cell.problem.dtype == "bfloat16"}
    assert notes == {"softmax.sdpa": "", "linear.fla_chunk": "", "sparse.local": ""}
    refused = [planned.note for planned in plan.cells if planned.cell.method == "linear.fla_chunk" and planned.note]
    assert all("TF32" in note for note in refused)
    assert len(refused) == 2


def test_what_cannot_be_assumed_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="did you mean 'h200'"):
        attnbench.plan(GPU, device="cuda", assume="h20")
    with pytest.raises(UsageError, match="that is a GPU, and the suite is for a CPU"):
        attnbench.plan(GPU, device="cpu", assume="h200")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("gpu_")])
def test_the_short_suites_for_a_gpu_end_within_eight_minutes_where_all_is_steady(name: str) -> None:
    plan = attnbench.plan(name, assume="h200")
    # a package that is compiled here, where there is no nvcc, has no kernels for a GPU, and says so
    assert {planned.cell.method for planned in plan.cells if planned.note} <= {"linear.fast_transformers"}
    (minutes,) = [found for line in plan.summary if (found := re.match(r"about (\d+) to \d+ min", line))]
    assert int(minutes[1]) <= 8
