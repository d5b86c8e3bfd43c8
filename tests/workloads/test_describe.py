"""What a method says of itself, and the digest of the source that will run."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from attnbench import registry
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Description, Inquiry
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import Problem
from attnbench.workloads.describe import describe, source_digest, version

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
    assert (found.paper, found.tier, found.causality) == ("a fixture of the tests", "eager", "full")
    assert found.summary == "Has a parameter, drawn at random, that scales the values."
    assert found.prospects == ()


def test_parameters_are_those_of_the_constructor_beside_the_problem() -> None:
    assert asked("Particular").parameters == ("chunk",)
    assert asked("Right").parameters == ()


def test_requirements_that_are_not_installed_are_missing() -> None:
    assert asked("Particular").missing == ("surely-not-installed>=2",)


def test_a_cell_that_can_run_has_a_cost_and_a_cell_to_check_it_on() -> None:
    (prospect,) = asked("Particular", chunk=8).prospects
    assert prospect.why_not is None
    assert prospect.cost is not None
    assert prospect.cost.executed_flops > 0
    assert prospect.checks
    assert (prospect.checks[0].problem.N, prospect.checks[0].workload, prospect.checks[0].params) == (
        256,
        Workload.FORWARD,
        {"chunk": 8},
    )


def test_a_cell_that_cannot_run_has_the_method_s_own_reason() -> None:
    (prospect,) = asked("Particular", N=128).prospects
    assert (prospect.why_not, prospect.cost, prospect.checks) == ("too short", None, ())


def test_a_parameter_out_of_range_is_refused_in_the_method_s_own_words() -> None:
    (prospect,) = asked("Particular", chunk=0).prospects
    assert (prospect.why_not, prospect.cost) == ("chunk=0 must be at least 1", None)


def test_a_parameter_that_does_not_exist_is_refused_by_name() -> None:
    (prospect,) = asked("Particular", chunky=3).prospects
    assert "chunky" in (prospect.why_not or "")


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
    with pytest.raises(
        registry.UnknownMethodError, match=r"is not finished: it has no paper, no cost, no reference; attnbench"
    ):
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
