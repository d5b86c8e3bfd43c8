"""What a class declares of itself refuses cells in the same words for all; its own words come last."""

import pytest

from attnbench import registry
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.problem import Problem


def refusal(name: str, workload: Workload = Workload.DECODE, **fields: object) -> str | None:
    cell = Cell(method=name, problem=Problem(**{"N": 256, "causal": True, **fields}), workload=workload)
    return registry.load(f"gate_cases:{name}").refusal(cell)


@pytest.mark.parametrize("workload", [Workload.DECODE, Workload.DECODE_TOTAL])
def test_only_what_decodes_is_asked_to(workload: Workload) -> None:
    assert refusal("OnlyAtOnce", workload) == "it does not decode token by token"
    assert refusal("Right", workload) is None


@pytest.mark.parametrize("workload", [Workload.DECODE, Workload.DECODE_TOTAL])
def test_decoding_is_causal(workload: Workload) -> None:
    assert refusal("Right", workload, causal=False) == "decoding is causal; set causal: true"


def test_only_what_takes_a_mask_has_padding() -> None:
    assert refusal("Right", Workload.FORWARD, padding=0.5) == "it takes no key mask, so there can be no padding"
    assert refusal("Hides", Workload.FORWARD, padding=0.5) is None


def test_decoding_is_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.load("gate_cases:Hides"), "decodes", True)
    assert refusal("Hides", padding=0.5) == "decoding is without padding"
    assert refusal("Hides") is None


@pytest.mark.parametrize("workload", list(Workload))
def test_a_method_s_own_words_come_after(workload: Workload) -> None:
    assert refusal("Particular", workload, N=100) == "too short"
    assert refusal("Particular", workload, N=400) is None
