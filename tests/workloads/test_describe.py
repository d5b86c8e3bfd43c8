"""What a method says of itself, the digest of the source that will run, which cells it refuses; and what the machine says."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnbench import registry
from attnbench.schema.cell import Batch, Cell, ClockMode, Inputs, Precision, Workload
from attnbench.schema.errand import Inquiry, Roof, Survey
from attnbench.schema.model import Model
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Task, Training
from attnbench.workloads.describe import describe, source_digest, survey, version
from tests.analyze.conftest import known
from tests.workloads.conftest import prospect_of

SOURCE = """
from gate_cases import Right


class Mine(Right):
    '''My own attention.

    With more to say of it.
    '''
"""


def test_a_method_is_described_without_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(self: object, problem: Problem) -> None:
        raise AssertionError("built")

    monkeypatch.setattr(registry.load("gate_cases:Projects"), "__init__", build)
    found = describe(Inquiry(method="gate_cases:Projects"))
    assert (found.paper, found.tier, found.causality, found.is_softmax) == ("a fixture of the tests", "eager", "full", False)
    assert found.summary == "Has a parameter, drawn at random, that scales the values."
    assert (found.parameters, found.missing, found.prospects) == ((), (), ())


def test_parameters_are_those_of_the_constructor_and_requirements_that_are_not_installed_are_missing() -> None:
    found = describe(Inquiry(method="gate_cases:Particular"))
    assert (found.parameters, found.missing) == (("chunk",), ("surely-not-installed>=2",))
    method = registry.load("gate_cases:Particular")
    text = version("gate_cases:Particular", method)
    assert text == f"unpackaged, numpy {np.__version__}, surely-not-installed None, source {source_digest(method)}"


def test_a_method_without_groups_is_asked_about_the_heads_that_a_model_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed_version", lambda _: "5")
    monkeypatch.setattr(registry.load("gate_cases:Right"), "grouped", False)
    alone = Cell(method="gate_cases:Right", problem=Problem(H=4, kv_heads=2, N=256, D=8, causal=True))
    assert "kv_heads must equal H=4" in (prospect_of(alone).why_not or "")
    whole = alone.model_copy(update={"workload": Workload.MODEL_PREFILL, "model": Model(config="llama-1m")})
    in_a_model = prospect_of(whole)
    assert in_a_model.why_not is None
    assert {check.problem.kv_heads == check.problem.H for check in in_a_model.checks} == {True}


@pytest.mark.parametrize(
    ("N", "params", "words"),
    [
        (128, {}, "too short"),
        (256, {"chunk": 0}, "chunk=0 must be at least 1"),
        (256, {"chunky": 3}, "unexpected keyword argument 'chunky'"),
    ],
)
def test_a_cell_that_cannot_run_has_the_reason_in_the_method_s_own_words(N: int, params: dict[str, Scalar], words: str) -> None:
    prospect = prospect_of(Cell(method="gate_cases:Particular", problem=Problem(H=2, N=N, D=8), params=params))
    assert (prospect.why_not or "").endswith(words)
    assert (prospect.cost, prospect.checks) == (None, ())


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.BACKWARD])
def test_a_cost_is_that_of_kernels_in_the_cell_s_own_precision_of_products(workload: Workload) -> None:
    cell = Cell(method="linear.triton", problem=Problem(N=1024, causal=True), workload=workload, device="cuda")
    found = {each: prospect_of(cell.model_copy(update={"matmul_precision": each})).cost for each in Precision}
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    assert [cost == prospect_of(cell).cost for cost in found.values()] == [True, False, False]


def test_the_cost_of_a_padded_batch_is_unknown_until_its_rows_are_known() -> None:
    cell = Cell(method="softmax.sdpa", problem=Problem(N=256, padding=0.5))
    assert [prospect_of(cell.model_copy(update={"batch": each})).cost is None for each in Batch] == [False, True]


def test_a_prompt_costs_what_is_attended_at_a_time_and_who_keeps_no_state_attends_once_for_all_new_tokens() -> None:
    def executed(method: str, workload: Workload) -> float:
        cell = Cell(method=method, problem=Problem(N=1024, causal=True), workload=workload, new_tokens=8)
        return known(prospect_of(cell).cost).executed_flops

    assert executed("softmax.naive", Workload.PREFILL) == 0.625 * executed("softmax.naive", Workload.FORWARD)
    assert executed("softmax.recompute", Workload.VERIFY) == executed("softmax.recompute", Workload.DECODE)
    assert executed("softmax.sdpa", Workload.VERIFY) == 8 * executed("softmax.sdpa", Workload.DECODE)


LARGEST, GRAPH = {"batch": Batch.LARGEST}, {"clock": ClockMode.GRAPH}
HELD = "9 sequences of 4 heads and 256 tokens, keys 64 wide and values 64, which does not fit B=2, H=2, N=64, D=8, M=8"
PIXELS, SPEECH = Training(task=Task.PIXELS), {"training": Training(task=Task.SPEECH)}


@pytest.mark.parametrize(
    ("workload", "changes", "shape", "words"),
    [
        ("forward", {"clock": ClockMode.COLD, "device": "cpu"}, {}, "a CPU has no 'cold' clock; use wall"),
        ("forward", {"inputs": Inputs.RECORDED}, {}, f"suites/recorded/bytes.safetensors: holds {HELD}; set D to 64, M to 64"),
        ("backward", GRAPH, {}, "no CUDA graph can capture the gradients of a forward outside of it; use another clock"),
        ("fidelity", {}, {"padding": 0.5}, "fidelity is measured without padding"),
        ("fidelity", LARGEST, {}, "fidelity needs a batch that is stated"),
        ("fidelity", {}, {"dtype": DType.BFLOAT16}, "fidelity is of the definition: float32 or float64"),
        ("numerics", LARGEST, {}, "numerics need a batch that is stated"),
        ("train", GRAPH, {}, "updates are timed by the host's clock; set clock: wall"),
        ("generate", {}, {"causal": False}, "sequences are made token by token, which is causal; set causal: true"),
        ("generate", SPEECH, {}, "speech is heard as a whole and not made token by token; generate another task"),
        ("generate", {}, {"padding": 0.5}, "sequences are made without padding"),
        ("generate", GRAPH, {}, "tokens are drawn one after the other, which no CUDA graph can capture; use another clock"),
    ],
)
def test_what_a_workload_cannot_be_of_is_refused_in_words_of_this_alone(
    workload: str, changes: dict[str, Any], shape: dict[str, Any], words: str
) -> None:
    problem = Problem(B=2, H=2, N=64, D=8, causal=True)
    training = PIXELS if Workload(workload).has_task else None
    right = Cell(method="gate_cases:Hides", problem=problem, workload=Workload(workload), training=training, device="cuda:0")
    wrong = right.model_copy(update={"problem": problem.model_copy(update=shape), **changes})
    forward = wrong.model_copy(
        update={"workload": Workload.FORWARD, "training": None, "device": "cuda:0", "inputs": Inputs.NORMAL}
    )
    assert [prospect_of(cell).why_not for cell in (right, wrong, forward)] == [None, words, None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_attention", raising=False)
    importlib.invalidate_caches()
    return tmp_path


def digest(method: str = "my_attention:Mine") -> str:
    return source_digest(registry.load(method))


def test_the_digest_follows_the_source_of_a_module(folder: Path) -> None:
    file = folder / "my_attention.py"
    file.write_text(SOURCE)
    first = digest()
    assert len(first) == 8
    (folder / "beside.py").write_text("x = 1\n")
    assert digest() == first
    file.write_text(SOURCE + "\n# changed\n")
    assert digest() != first


def test_the_digest_follows_every_file_of_a_package_and_the_packages_beside_it_that_it_imports(folder: Path) -> None:
    family, shared, other = (folder / "my_package" / name for name in ("family", "shared", "other"))
    for each in (family.parent, family, shared, other):
        each.mkdir()
        (each / "__init__.py").write_text("")
    (shared / "softmax.py").write_text("x = 1\n")
    (family / "one.py").write_text("from ..shared.softmax import x\n\n" + SOURCE)
    first = digest("my_package.family.one:Mine")
    (other / "one.py").write_text("x = 1\n")
    assert digest("my_package.family.one:Mine") == first
    (family / "kernel.py").write_text("x = 1\n")
    second = digest("my_package.family.one:Mine")
    (shared / "softmax.py").write_text("x = 2\n")
    assert len({first, second, digest("my_package.family.one:Mine")}) == 3


def test_the_first_line_of_its_docstring_is_the_summary_and_a_parameter_beyond_all_floats_is_refused(folder: Path) -> None:
    own = "    @classmethod\n    def cost(cls, problem, params, workload):\n        return float(params['chunk'])\n"
    (folder / "my_attention.py").write_text(SOURCE + own)
    cell = Cell(method="my_attention:Mine", problem=Problem(N=256), params={"chunk": 10**400})
    assert describe(Inquiry(method=cell.method)).summary == "My own attention."
    assert prospect_of(cell).why_not == "int too large to convert to float"


def test_a_survey_has_device_facts_and_memory_before_the_roofs_take_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def roof(device: str, dtype: str) -> tuple[float, float, float]:
        order.append(dtype)
        return len(dtype) * 1e9, 1e10, 1e11

    def free_bytes(*_: object) -> int:
        order.append("memory")
        return 2**30

    monkeypatch.setattr("attnbench.measure.roof.measure", roof)
    monkeypatch.setattr("attnbench.measure.devices.free_bytes", free_bytes)
    # where there is no GPU, auto comes to a CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = survey(Survey(ceilings=("float32", "bfloat16")))
    assert order == ["memory", "float32", "bfloat16"]
    assert (found.device, found.facts["torch"], found.memory_bytes) == ("cpu", torch.__version__, 2**30)
    assert found.roof == {
        "float32": Roof(flops_per_second=7e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
        "bfloat16": Roof(flops_per_second=8e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
    }
