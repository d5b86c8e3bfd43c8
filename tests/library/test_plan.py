"""Plans from Python: of a suite here, of one with a million cells, and of one for a GPU that is not here."""

import re

import pytest

import attnbench
from attnbench.places.elsewhere import DATA_SHEETS
from attnbench.schema.errand import Roof
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
    assert list(frame.columns) == ["method", "workload", "N", "B", "causal", "dtype", "least_s_per_call", "note"]
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
def test_on_a_gpu_that_is_not_here_a_call_takes_at_least_what_the_data_sheet_allows() -> None:
    plan = attnbench.plan({**GPU, "methods": ["softmax.sdpa"]}, device="cuda", assume="h200")
    first, second, *_ = plan.summary
    assert first == "as if an H200 SXM were here; times by its data sheet, which no call can beat"
    assert second == "4 cells, 4 to be measured, x 3 replicates, on cuda:0"
    # float32, N = 2048: half of the square of scores, two products
    flops = 2 * 2 * 4 * 2 * 64 * 2048 * 2049 / 2
    assert plan.cells[-1].seconds == pytest.approx(flops / 67e12, rel=0.01)


@pytest.mark.usefixtures("warmed")
def test_packages_that_are_not_installed_here_are_taken_for_granted_there() -> None:
    plan = attnbench.plan(GPU, device="cuda", assume="h100")
    assert "as if fla-core>=0.6 were installed" in plan.summary[0].replace(", triton>=3.3", "")
    notes = {planned.cell.method: planned.note for planned in plan.cells if planned.cell.problem.dtype == "bfloat16"}
    assert notes == {"softmax.sdpa": "", "linear.fla_chunk": "", "sparse.local": ""}
    refused = [planned.note for planned in plan.cells if planned.cell.method == "linear.fla_chunk" and planned.note]
    assert all("TF32" in note for note in refused)
    assert len(refused) == 2


@pytest.mark.parametrize(
    ("device", "assume", "said"),
    [("cuda", "h20", "did you mean 'h200'"), ("cpu", "h200", "that is a GPU, and the suite is for a CPU")],
)
def test_what_cannot_be_assumed_is_refused_in_words(device: str, assume: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        attnbench.plan(GPU, device=device, assume=assume)


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_a_data_sheet_has_a_roof_for_every_kind_of_product(name: str) -> None:
    roofs = DATA_SHEETS[name].surroundings.roof
    assert all(isinstance(roof, Roof) for roof in roofs.values())
    speeds = [roofs[each].flops_per_second for each in ("float64", "float32", "float32, matmul high", "bfloat16")]
    assert speeds == sorted(speeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("gpu_")])
def test_the_short_suites_for_a_gpu_end_within_eight_minutes_where_all_is_steady(name: str) -> None:
    plan = attnbench.plan(name, assume="h200")
    # a package that is compiled here, where there is no nvcc, has no kernels for a GPU, and says so
    assert {planned.cell.method for planned in plan.cells if planned.note} <= {"linear.fast_transformers"}
    (minutes,) = [found for line in plan.summary if (found := re.match(r"about (\d+) to \d+ min", line))]
    assert int(minutes[1]) <= 8
