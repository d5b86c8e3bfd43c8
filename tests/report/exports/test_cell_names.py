"""A cell has one name in every run, and no other cell has it."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.exports.cell_names import block_name, cell_name, label_name, series_name
from attnbench.schema.cell import Allocator, Batch, Cell, Inputs, Workload
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from tests.report.conftest import Synthetic

PLAIN = re.compile(r"[A-Za-z0-9_.:=(), +#/-]+")
FILE = re.compile(r"[A-Za-z0-9_.=~-]+")
TEXTS = st.text(max_size=12) | st.sampled_from(["", "True", "1", "1.0", "a", "a.b", "a(b=1)", "a, c=1", "nan", "../x"])
VALUES = st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
PATHS = st.text(max_size=12) | st.sampled_from(["", "a.txt", "a/b", "a_b", "a:b", "a~b", "../x", "a=b", "x" * 80])
METHODS = st.tuples(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2))
TRAININGS = st.builds(
    Training,
    task=st.sampled_from(Task),
    data=PATHS,
    layers=st.integers(1, 3),
    rate=st.sampled_from([1e-3, 1e-5, 1.0]),
    recompute=st.booleans(),
)


def cell(method: str = "linear.chunked", params: dict[str, Any] | None = None, **fields: Any) -> Cell:
    own = {name: fields.pop(name) for name in list(fields) if name in Cell.model_fields}
    return Cell(method=method, params=params or {}, problem=Problem(**{"N": 1024, **fields}), **own)


def trained(task: Task, **fields: Any) -> Cell:
    return cell(causal=True, workload=Workload.TRAIN, training=Training(task=task, **fields))


HEADS: dict[str, Any] = {"D": 32, "kv_heads": 2, "padding": 0.5, "device": "cuda:1", "allocator": Allocator.SYSTEM}
FAVOR = {"chunk": 64, "feature_map": "favor"}


@pytest.mark.parametrize(
    ("named", "settings", "params"),
    [
        (cell(causal=True), "forward/causal/float32/N=1024", ""),
        (
            cell(params=FAVOR, workload=Workload.FORWARD_BACKWARD, dtype="bfloat16", B=8, **HEADS),
            "forward_backward/non-causal/bfloat16/D=32/allocator=system/device=cuda:0/kv_heads=2/padding=0.5/N=1024/B=8",
            "chunk=64, feature_map=favor",
        ),
        (
            trained(Task.COPY, layers=2, rate=1e-4, recompute=True),
            "train/causal/float32/layers=2/rate=0.0001/recompute=True/task=copy/N=1024",
            "",
        ),
        (trained(Task.BYTES, data="corpus-2.bin"), "train/causal/float32/data=corpus-2.bin/task=bytes/N=1024", ""),
        # a large number is fit for the name of a file
        (cell(causal=True, params={"theta": 1e16}), "forward/causal/float32/N=1024", "theta=1e+16"),
    ],
    ids=["defaults", "no defaults", "a model", "a file with a plain name", "a large number"],
)
def test_a_name_says_what_is_not_the_default_and_a_series_has_all_lengths(named: Cell, settings: str, params: str) -> None:
    assert cell_name(named) == f"{settings}/linear.chunked" + (f"({params})" if params else "")
    shared = re.sub(r"/N=.*", "", settings).replace("/", ".").replace(":", "~")
    ending = f"-{params.replace(', ', '-').replace('+', '')}" if params else ""
    assert series_name(named) == f"{shared}.linear.chunked{ending}"


def test_the_name_says_nothing_of_the_other_cells_of_a_run_and_all_of_these_have_others(hostile: Synthetic) -> None:
    alone = Synthetic(Synthetic().laws[:1], lengths=(512,), causal=(True,))
    many = Synthetic(dtypes=("float32", "bfloat16"), heads=(8, 16))
    assert {cell_name(each) for each in alone.run().cells} <= {cell_name(each) for each in many.run().cells}
    # a batch that was searched for is told from a batch of one
    for cells in (many.run().cells, hostile.run().cells, [cell(batch=batch) for batch in Batch]):
        assert len({cell_name(each) for each in cells}) == len(cells)


def check_names(one: Cell, other: Cell) -> None:
    """Names are plain and fit for files; what is told apart by type alone is no other method to a cell's key either."""
    assert all(PLAIN.fullmatch(cell_name(each)) and FILE.fullmatch(series_name(each)) for each in (one, other))
    if one.key != other.key:
        assert cell_name(one) != cell_name(other)
        assert series_name(one) != series_name(other)


@settings(deadline=None)
@given(METHODS, METHODS)
def test_names_are_plain_and_those_of_different_methods_differ(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    cells = [cell(method, params) for method, params in (one, other)]
    assert all(len(cell_name(each)) < 300 and len(series_name(each)) < 220 for each in cells)
    check_names(*cells)


@settings(deadline=None)
@given(TRAININGS, TRAININGS, PATHS, PATHS)
def test_names_are_plain_and_those_of_different_models_differ(one: Training, other: Training, first: str, second: str) -> None:
    models = ((one, first), (other, second))
    check_names(*(cell(causal=True, workload=Workload.TRAIN, training=t, recording=r) for t, r in models))


@pytest.mark.parametrize("name", ["<b>", "a|b", "`a`", "a/b", "=cmd()", "中文", "a\nb", "", "x" * 300])
def test_a_name_that_is_not_plain_and_a_file_are_told_by_a_digest(name: str) -> None:
    assert re.fullmatch(r"[\w.:=(), +-]*#[0-9a-f]{8}", label_name(cell(name)), re.ASCII)
    assert block_name(cell(name)) == "forward/non-causal/float32/N=1024"
    named = cell(causal=True, inputs=Inputs.RECORDED, recording="/me/q k.safetensors", scale=0.25)
    recorded = r"inputs=recorded/recording=_me_q k.safetensors#[0-9a-f]{8}/scale=0.25"
    assert re.fullmatch(rf"forward/causal/float32/{recorded}/N=1024/linear.chunked", cell_name(named))
