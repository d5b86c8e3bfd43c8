"""What a method says of itself, the digest of the source that will run, which cells it refuses; and what the machine says."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnbench import registry
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Description, Inquiry, Roof, Surroundings, Survey
from attnbench.schema.model import Model
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import Problem
from attnbench.workloads.describe import describe, source_digest, survey, version

SOURCE = """
from gate_cases import Right


class Mine(Right):
    '''My own attention.

    With more to say of it.
    '''
"""


def asked(name: str, N: int = 256, **params: Scalar) -> Description:
    cell = Cell(method=f"gate_cases:{name}", problem=Problem(H=2, N=N, D=8), params=params)
    return describe(Inquiry(method=cell.method, cells=(cell,)))


def test_a_method_is_described_without_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(self: object, problem: Problem) -> None:
        raise AssertionError("built")

    monkeypatch.setattr(registry.load("gate_cases:Projects"), "__init__", build)
    found = describe(Inquiry(method="gate_cases:Projects"))
    assert (found.paper, found.tier, found.causality, found.is_softmax) == ("a fixture of the tests", "eager", "full", False)
    assert found.summary == "Has a parameter, drawn at random, that scales the values."
    assert found.prospects == ()


def test_gradients_of_a_forward_outside_of_a_graph_are_refused_in_words() -> None:
    cell = Cell(method="gate_cases:Right", problem=Problem(H=2, N=64, D=8), workload=Workload.BACKWARD, clock=ClockMode.GRAPH)
    (prospect,) = describe(Inquiry(method=cell.method, cells=(cell,))).prospects
    assert prospect.why_not == "no CUDA graph can capture the gradients of a forward outside of it; use another clock"


def test_parameters_are_those_of_the_constructor_and_requirements_that_are_not_installed_are_missing() -> None:
    found = asked("Particular")
    assert (found.parameters, found.missing) == (("chunk",), ("surely-not-installed>=2",))
    assert asked("Right").parameters == ()


def test_a_cell_that_can_run_has_a_cost_and_a_cell_to_check_it_on() -> None:
    (prospect,) = asked("Particular", chunk=8).prospects
    assert prospect.why_not is None
    assert prospect.cost is not None
    assert prospect.cost.executed_flops > 0
    first = prospect.checks[0]
    assert (first.problem.N, first.workload, first.params) == (256, Workload.FORWARD, {"chunk": 8})


def test_a_method_that_takes_no_groups_is_asked_about_the_repeated_heads_that_a_model_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "installed_version", lambda _: "5")
    monkeypatch.setattr(registry.load("gate_cases:Right"), "grouped", False)
    grouped = Problem(H=4, kv_heads=2, N=256, D=8, causal=True)
    bare = Cell(method="gate_cases:Right", problem=grouped)
    whole = bare.model_copy(update={"workload": Workload.MODEL_PREFILL, "model": Model(config="llama-1m")})
    in_a_model, alone = describe(Inquiry(method=bare.method, cells=(whole, bare))).prospects
    assert "kv_heads must equal H=4" in (alone.why_not or "")
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
    (prospect,) = asked("Particular", N=N, **params).prospects
    assert (prospect.why_not or "").endswith(words)
    assert (prospect.cost, prospect.checks) == (None, ())


def test_the_version_names_requirements_and_the_source() -> None:
    method = registry.load("gate_cases:Particular")
    text = version("gate_cases:Particular", method)
    assert text == f"unpackaged, numpy {np.__version__}, surely-not-installed None, source {source_digest(method)}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_attention", raising=False)
    importlib.invalidate_caches()
    return tmp_path


def digest() -> str:
    return source_digest(registry.load("my_attention:Mine"))


def test_the_digest_follows_the_source_of_a_module(folder: Path) -> None:
    file = folder / "my_attention.py"
    file.write_text(SOURCE)
    first = digest()
    assert digest() == first
    (folder / "beside.py").write_text("x = 1\n")
    assert digest() == first
    file.write_text(SOURCE + "\n# changed\n")
    assert digest() != first
    assert len(first) == 8


def test_the_digest_follows_every_file_of_a_package(folder: Path) -> None:
    package = folder / "my_attention"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    first = digest()
    (package / "kernel.py").write_text("x = 1\n")
    assert digest() != first


def test_the_digest_follows_the_packages_beside_its_own_that_it_imports(folder: Path) -> None:
    family, shared, other = (folder / "my_package" / name for name in ("family", "shared", "other"))
    for each in (family.parent, family, shared, other):
        each.mkdir()
        (each / "__init__.py").write_text("")
    (shared / "softmax.py").write_text("x = 1\n")
    (family / "one.py").write_text("from ..shared.softmax import x\n\n" + SOURCE)

    def digest_now() -> str:
        return source_digest(registry.load("my_package.family.one:Mine"))

    first = digest_now()
    (other / "one.py").write_text("x = 1\n")
    assert digest_now() == first
    (shared / "softmax.py").write_text("x = 2\n")
    assert digest_now() != first


def test_the_first_line_of_its_docstring_is_the_summary(folder: Path) -> None:
    (folder / "my_attention.py").write_text(SOURCE)
    assert describe(Inquiry(method="my_attention:Mine")).summary == "My own attention."


def test_all_that_a_class_lacks_is_named_at_once(folder: Path) -> None:
    (folder / "my_attention.py").write_text(
        "from attnbench.api import Attention\nclass Mine(Attention):\n    def forward(self, q, k, v):\n        return v\n"
    )
    with pytest.raises(registry.UnknownMethodError, match=r"is not finished: it has no paper, no reference; attnbench"):
        describe(Inquiry(method="my_attention:Mine"))


def test_a_parameter_beyond_all_floats_is_refused(folder: Path) -> None:
    own = "    @classmethod\n    def cost(cls, problem, params, workload):\n        return float(params['chunk'])\n"
    (folder / "my_attention.py").write_text(SOURCE + own)
    cell = Cell(method="my_attention:Mine", problem=Problem(N=256), params={"chunk": 10**400})
    (prospect,) = describe(Inquiry(method=cell.method, cells=(cell,))).prospects
    assert prospect.why_not == "int too large to convert to float"


def test_whatever_its_import_raises_is_raised(folder: Path) -> None:
    (folder / "my_attention.py").write_text("raise OSError('no such library')\n")
    with pytest.raises(OSError, match="no such library"):
        describe(Inquiry(method="my_attention:Mine"))


def refusal(name: str, workload: Workload = Workload.DECODE, **fields: object) -> str | None:
    cell = Cell(method=name, problem=Problem(**{"N": 256, "causal": True, **fields}), workload=workload)
    return registry.load(f"gate_cases:{name}").refusal(cell)


@pytest.mark.parametrize("workload", list(Workload))
def test_a_method_s_own_words_come_after(workload: Workload) -> None:
    assert refusal("Particular", workload, N=100) == "too short"
    assert refusal("Particular", workload, N=400) is None


def test_a_survey_has_the_device_its_facts_its_memory_and_its_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.measure.roof.measure", lambda device, dtype: (len(dtype) * 1e9, 1e10, 1e11))
    found = survey(Survey(device="cpu", ceilings=("float32", "bfloat16")))
    assert found.device == "cpu"
    assert found.facts["torch"] == torch.__version__
    assert found.memory_bytes > 0
    assert found.roof == {
        "float32": Roof(flops_per_second=7e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
        "bfloat16": Roof(flops_per_second=8e9, bytes_per_second=1e10, cached_bytes_per_second=1e11),
    }
    assert Surroundings.model_validate_json(found.model_dump_json()) == found


def test_memory_is_looked_at_before_the_roofs_take_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(name: str, value: Any) -> Any:
        def note(*_: object) -> Any:
            order.append(name)
            return value

        return note

    monkeypatch.setattr("attnbench.measure.roof.measure", noted("roof", (1e9, 1e9, 1e9)))
    monkeypatch.setattr("attnbench.measure.devices.free_bytes", noted("memory", 2**30))
    survey(Survey(device="cpu", ceilings=("float32",)))
    assert order == ["memory", "roof"]


def test_auto_comes_to_a_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert survey(Survey()).device == "cpu"
