"""Planning for a GPU that is not here."""

import re

import pytest

import attnbench
from attnbench.places.elsewhere import DATA_SHEETS
from attnbench.schema.errand import Roof
from attnbench.schema.errors import UsageError
from attnbench.suite.load import shipped

SUITE = {
    "name": "s",
    "source": "a test",
    "axes": {"N": [1024, 2048], "B": 4, "H": 2, "D": 64, "dtype": ["bfloat16", "float32"], "causal": True},
    "methods": ["softmax.sdpa", "linear.fla_chunk", "sparse.local"],
}


@pytest.mark.usefixtures("warmed")
def test_a_call_takes_at_least_what_the_data_sheet_allows() -> None:
    plan = attnbench.plan({**SUITE, "methods": ["softmax.sdpa"]}, device="cuda", assume="h200")
    first, second, *_ = plan.summary
    assert first == "as if an H200 SXM were here; times by its data sheet, which no call can beat"
    assert second == "4 cells, 4 to be measured, x 3 replicates, on cuda:0"
    longest = plan.cells[-1]
    # float32, N = 2048: half of the square of scores, two products
    flops = 2 * 2 * 4 * 2 * 64 * 2048 * 2049 / 2
    assert longest.seconds == pytest.approx(flops / 67e12, rel=0.01)


@pytest.mark.usefixtures("warmed")
def test_packages_that_are_not_installed_here_are_taken_for_granted_there() -> None:
    plan = attnbench.plan(SUITE, device="cuda", assume="h100")
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
        attnbench.plan(SUITE, device=device, assume=assume)


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_a_data_sheet_has_a_roof_for_every_kind_of_product(name: str) -> None:
    roofs = DATA_SHEETS[name].surroundings.roof
    assert all(isinstance(roof, Roof) for roof in roofs.values())
    order = ["float64", "float32", "float32, matmul high", "bfloat16"]
    speeds = [roofs[each].flops_per_second for each in order]
    assert speeds == sorted(speeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("gpu_")])
def test_the_short_suites_for_a_gpu_end_within_eight_minutes_where_all_is_steady(name: str) -> None:
    plan = attnbench.plan(name, assume="h200")
    # a package that is compiled here, where there is no nvcc, has no kernels for a GPU, and says so
    assert {planned.cell.method for planned in plan.cells if planned.note} <= {"linear.fast_transformers"}
    (minutes,) = [found for line in plan.summary if (found := re.match(r"about (\d+) to \d+ min", line))]
    assert int(minutes[1]) <= 8
