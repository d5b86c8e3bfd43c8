"""What is said of the Linformers of others where they are not installed: refusals, costs, parameters."""

from typing import Any

import pytest

from attnbench import Problem, registry
from attnbench.api import Cell, Workload, nominal_flops
from attnbench.registry import load

PEERS = ["linformer.lucidrains", "linformer.tatp22"]


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("linformer.lucidrains", {"causal": True}, "no causal form"),
        ("linformer.lucidrains", {"kv_heads": 2}, "kv_heads must equal H"),
        ("linformer.lucidrains", {"M": 32}, "M=32 must equal D=64"),
        ("linformer.tatp22", {"causal": True}, "still depend on later tokens"),
        ("linformer.tatp22", {"kv_heads": 2}, "kv_heads must equal H"),
        *((name, {"padding": 0.5}, "it takes no key mask") for name in PEERS),
    ],
)
def test_each_limit_is_said_in_words(name: str, shape: dict[str, Any], words: str) -> None:
    assert words in (load(name).refusal(Cell(method=name, problem=Problem(N=64, **shape))) or "")
    assert load(name).refusal(Cell(method=name, problem=Problem(N=64))) is None


@pytest.mark.parametrize("name", PEERS)
def test_a_package_that_is_not_there_is_named_with_its_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
    assert f"pip install '{load(name).requires[0]}'" in registry.pip_line(name, registry.missing(load(name)))


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("name", PEERS)
def test_they_need_as_much_work_as_ours(name: str, workload: Workload) -> None:
    p = Problem(B=2, H=4, N=1024)
    theirs, ours = (load(x).cost(p, {"k": 64}, workload) for x in (name, "linformer.linformer"))
    assert theirs.exact_flops == ours.exact_flops == theirs.executed_flops
    assert theirs.nominal_flops == nominal_flops(p, workload)


@pytest.mark.parametrize("name", PEERS)
def test_a_bad_parameter_is_refused_by_name_without_the_package(name: str) -> None:
    with pytest.raises(ValueError, match=r"k=0.*must be"):
        load(name).cost(Problem(N=8), {"k": 0}, Workload.FORWARD)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8), {"colour": 3}, Workload.FORWARD)
