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
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["", "True", "1", "1.0", "a", "a.b", "a(b=1)", "a, c=1", "nan", "../x"])
)
VALUES = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
PATHS = st.one_of(st.text(max_size=12), st.sampled_from(["", "a.txt", "a/b", "a_b", "a:b", "a~b", "../x", "a=b", "x" * 80]))
METHODS = st.tuples(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2))


def cell(method: str = "linear.chunked", params: dict[str, Any] | None = None, **fields: Any) -> Cell:
    own = {name: fields.pop(name) for name in list(fields) if name in Cell.model_fields}
    return Cell(method=method, params=params or {}, problem=Problem(**{"N": 1024, **fields}), **own)


TRAININGS = st.builds(
    Training,
    task=st.sampled_from(Task),
    data=PATHS,
    layers=st.integers(1, 3),
    rate=st.sampled_from([1e-3, 1e-5, 1.0]),
    recompute=st.booleans(),
)


def of_model(**fields: Any) -> Cell:
    """With a model around the attention, or recorded inputs."""
    return cell(causal=True, N=128, **fields)


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


def test_the_name_says_nothing_of_the_other_cells_of_a_run() -> None:
    alone = Synthetic(Synthetic().laws[:1], lengths=(512,), causal=(True,))
    many = Synthetic(dtypes=("float32", "bfloat16"), heads=(8, 16))
    assert {cell_name(each) for each in alone.run().cells} <= {cell_name(each) for each in many.run().cells}


def test_all_cells_of_a_run_have_different_names(hostile: Synthetic) -> None:
    for made in (Synthetic(dtypes=("float32", "bfloat16"), heads=(8, 16), tokens=4096), hostile):
        cells = made.run().cells
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


@pytest.mark.parametrize("name", ["<b>", "a|b", "`a`", "a/b", "=cmd()", "中文", "a\nb", "", "x" * 300])
def test_a_name_that_is_not_plain_is_told_by_a_digest(name: str) -> None:
    assert re.fullmatch(r"[\w.:=(), +-]*#[0-9a-f]{8}", label_name(cell(name)), re.ASCII)
    assert block_name(cell(name)) == "forward/non-causal/float32/N=1024"


def test_of_a_model_the_task_is_said_and_what_is_not_usual() -> None:
    named = of_model(workload=Workload.TRAIN, training=Training(task=Task.COPY, layers=2, rate=1e-4, recompute=True))
    settings = "layers=2/rate=0.0001/recompute=True/task=copy"
    assert cell_name(named) == f"train/causal/float32/{settings}/N=128/linear.chunked"
    assert series_name(named) == f"train.causal.float32.{settings.replace('/', '.')}.linear.chunked"


def test_a_file_is_told_by_a_digest() -> None:
    named = of_model(inputs=Inputs.RECORDED, recording="/me/q k.safetensors", scale=0.25)
    assert re.fullmatch(
        r"forward/causal/float32/inputs=recorded/recording=_me_q k.safetensors#[0-9a-f]{8}/scale=0.25/N=128/linear.chunked",
        cell_name(named),
    )


@pytest.mark.parametrize("name", ["b.txt", "corpus-2.bin"])
def test_a_plain_name_of_a_file_stays_as_it_is(name: str) -> None:
    named = of_model(workload=Workload.TRAIN, training=Training(task=Task.BYTES, data=name))
    assert f"/data={name}/" in cell_name(named)


@settings(deadline=None)
@given(TRAININGS, TRAININGS, PATHS, PATHS)
def test_names_are_plain_and_those_of_different_models_differ(one: Training, other: Training, first: str, second: str) -> None:
    check_names(*(of_model(workload=Workload.TRAIN, training=t, recording=r) for t, r in ((one, first), (other, second))))
