"""`attnbench record`: which training is meant is said in words, and its weights become inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import attnbench
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.problem import Problem
from attnbench.schema.training import Training
from attnbench.store.run_folder import RunFolder
from attnbench.workloads.recording import Recording
from attnbench.workloads.train import measure_training


def cell_of(N: int = 16) -> Cell:
    plan = {"task": "copy", "layers": 2, "feedforward": 2, "updates": 2, "evaluations": 1, "held_out": 4}
    problem = Problem(B=2, H=2, N=N, D=8, causal=True)
    return Cell(method="softmax.sdpa", problem=problem, workload=Workload.TRAIN, training=Training.model_validate(plan))


@pytest.fixture
def asked(tmp_path: Path, info_of: Any) -> Any:
    """Record from a run of these cells."""

    def _record(*cells: Cell, **options: Any) -> Any:
        folder = RunFolder.create(tmp_path, info_of(cells))
        if (tmp_path / "checkpoints").exists():
            (tmp_path / "checkpoints").rename(folder.checkpoints)
        given = {"method": "softmax.sdpa", "out": tmp_path / "out.safetensors", "sequences": 3}
        return attnbench.record(folder.path, **{**given, **options})

    return _record


def test_a_trained_model_becomes_inputs_of_other_cells(tmp_path: Path, asked: Any) -> None:
    cell = cell_of()
    measure_training(Job(cell=cell, phase=Pass.TRAIN, seed=1, folder=str(tmp_path / "checkpoints"), limits=Limits(seconds=100)))
    assert asked(cell) == dict.fromkeys("qkv", (3, 4, 16, 8))
    out = tmp_path / "out.safetensors"
    assert set(load_file(out)) == {"q", "k", "v"}
    assert Recording.read(str(out)).why_not(Problem(B=3, H=4, N=16, D=8)) is None


TWO = (cell_of(), cell_of(N=32))


@pytest.mark.parametrize(
    ("cells", "options", "says"),
    [
        ([Cell(method="softmax.sdpa", problem=Problem(N=16))], {}, "nothing was trained in this run"),
        (TWO[:1], {"method": "linear"}, r"method='linear': not among the methods; .*there are: softmax.sdpa"),
        (TWO, {}, "choose one by --task and --N: copy with N=16 and 2 layers; copy with N=32 and 2 layers"),
        (TWO, {"task": "recall"}, "no such training of softmax.sdpa; there are: copy with N=16"),
        (TWO[:1], {"replicate": 7}, r"-7.safetensors is not there: replicate 7 was not trained"),
        (TWO[:1], {"out": Path("recorded.bin")}, r"must end in .safetensors"),
    ],
)
def test_what_cannot_be_recorded_is_said(asked: Any, cells: Sequence[Cell], options: dict[str, Any], says: str) -> None:
    with pytest.raises(attnbench.UsageError, match=says):
        asked(*cells, **options)


def test_a_folder_of_transformers_is_one_model_and_takes_no_method(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(attnbench.UsageError, match="a folder of transformers is one model"):
        attnbench.record(tmp_path, out=tmp_path / "out.safetensors", method="softmax.sdpa")
