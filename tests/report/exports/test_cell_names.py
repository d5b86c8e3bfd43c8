"""A cell has one name in every run, and no other cell has it."""

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.exports.cell_names import block_name, cell_name, label_name, series_name
from attnbench.schema.cell import Allocator, Batch, Cell, Workload
from attnbench.schema.problem import Problem

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

PLAIN = re.compile(r"[A-Za-z0-9_.:=(), +#/-]+")
FILE = re.compile(r"[A-Za-z0-9_.=~-]+")
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["", "True", "1", "1.0", "a", "a.b", "a(b=1)", "a, c=1", "nan", "../x"])
)
VALUES = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
METHODS = st.tuples(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2))


def cell(method: str = "linear.chunked", params: dict[str, Any] | None = None, **fields: Any) -> Cell:
    own = {name: fields.pop(name) for name in list(fields) if name in Cell.model_fields}
    return Cell(method=method, params=params or {}, problem=Problem(**{"N": 1024, **fields}), **own)


def test_what_is_the_default_is_not_said() -> None:
    assert cell_name(cell(causal=True)) == "forward/causal/float32/N=1024/linear.chunked"
    assert series_name(cell(causal=True)) == "forward.causal.float32.linear.chunked"


def test_what_is_not_the_default_is_said() -> None:
    named = cell(
        params={"chunk": 64, "feature_map": "favor"},
        workload=Workload.FORWARD_BACKWARD,
        dtype="bfloat16",
        B=8,
        D=32,
        kv_heads=2,
        padding=0.5,
        device="cuda:1",
        allocator=Allocator.SYSTEM,
    )
    settings = "D=32/allocator=system/device=cuda:1/kv_heads=2/padding=0.5"
    assert cell_name(named) == (
        f"forward_backward/non-causal/bfloat16/{settings}/N=1024/B=8/linear.chunked(chunk=64, feature_map=favor)"
    )
    files = settings.replace("/", ".").replace(":", "~")
    assert series_name(named) == f"forward_backward.non-causal.bfloat16.{files}.linear.chunked-chunk=64-feature_map=favor"


def test_a_large_number_is_fit_for_a_file_name() -> None:
    assert series_name(cell(params={"theta": 1e16})).endswith("linear.chunked-theta=1e16")


def test_a_batch_that_was_searched_for_is_told_from_a_batch_of_one() -> None:
    names = {cell_name(cell(batch=batch)) for batch in Batch}
    assert len(names) == 2


def test_the_name_says_nothing_of_the_other_cells_of_a_run(synthetic: "type[Synthetic]") -> None:
    alone = synthetic(synthetic().laws[:1], lengths=(512,), causal=(True,))
    many = synthetic(dtypes=("float32", "bfloat16"), heads=(8, 16))
    assert {cell_name(each) for each in alone.run().cells} <= {cell_name(each) for each in many.run().cells}


def test_all_cells_of_a_run_have_different_names(synthetic: "type[Synthetic]", hostile: "Synthetic") -> None:
    for made in (synthetic(dtypes=("float32", "bfloat16"), heads=(8, 16), tokens=4096), hostile):
        cells = made.run().cells
        assert len({cell_name(each) for each in cells}) == len(cells)


@settings(deadline=None)
@given(METHODS, METHODS)
def test_names_are_plain_and_those_of_different_methods_differ(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    cells = [cell(method, params) for method, params in (one, other)]
    assert all(PLAIN.fullmatch(cell_name(each)) and len(cell_name(each)) < 300 for each in cells)
    assert all(FILE.fullmatch(series_name(each)) and len(series_name(each)) < 220 for each in cells)
    # what is told apart by type alone is no other method to a cell's key either
    if cells[0].key != cells[1].key:
        assert cell_name(cells[0]) != cell_name(cells[1])
        assert series_name(cells[0]) != series_name(cells[1])


@pytest.mark.parametrize("name", ["<b>", "a|b", "`a`", "a/b", "=cmd()", "中文", "a\nb", "", "x" * 300])
def test_a_name_that_is_not_plain_is_told_by_a_digest(name: str) -> None:
    assert re.fullmatch(r"[\w.:=(), +-]*#[0-9a-f]{8}", label_name(cell(name)), re.ASCII)
    assert block_name(cell(name)) == "forward/non-causal/float32/N=1024"
