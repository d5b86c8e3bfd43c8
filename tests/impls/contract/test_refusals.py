"""A method says in words what it cannot do, in the same words as all others where it can, and what mistake was made."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Attention, Causality, Cell, DType, Problem, Workload
from attnbench.registry import UnsupportedError
from attnbench.schema.cell import Precision
from tests.impls.contract.calls import Call, mapped
from tests.impls.contract.method import FORWARD, Params
from tests.impls.contract.subjects import NAMES, OURS, Variant, anywhere, declared, each

LIMITS = [(name, *limit) for name in NAMES for limit in Variant(name).method.limits]
MISTAKES = [(name, params) for name in NAMES for params in Variant(name).method.mistakes]


def cell_of(name: str, asked: Params) -> Cell:
    """Of fields of a problem, fields of a cell, and parameters."""
    shape = {key: value for key, value in asked.items() if key in Problem.model_fields}
    fields = {key: value for key, value in asked.items() if key in Cell.model_fields}
    params = {key: value for key, value in asked.items() if key not in {*shape, *fields}}
    return Cell.model_validate({"method": name, "problem": Problem(**{"N": 256, **shape}), "params": params, **fields})


def possible(name: str, *masks: bool) -> Problem | None:
    """A problem that the method takes, with one of these masks: causal or not."""
    shapes = [
        {"causal": causal, **heads} for causal in masks or (False, True) for heads in ({"H": 8}, {"H": 32, "kv_heads": 2})
    ]
    asked = (anywhere(name, FORWARD, N=256, **shape) for shape in shapes)
    return next((problem for problem in asked if problem is not None), None)


def test_the_tables_are_of_registered_methods() -> None:
    assert set(declared()) <= set(registry.catalogue())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_class_says_of_masks_is_so(name: str) -> None:
    kind = registry.load(name)
    assert (possible(name, True) is None) is (kind.causality is Causality.NONE)
    assert (possible(name, False) is None) is kind.causal_only


@pytest.mark.parametrize(("name", "asked", "words"), LIMITS, ids=str)
def test_a_limit_is_said_in_words_and_what_is_possible_is_not_refused(name: str, asked: Params, words: str | None) -> None:
    cell = cell_of(name, asked)
    said = registry.load(name).refusal(cell)
    assert said is None if words is None else words in (said or "")
    if words is not None and not registry.missing(registry.load(name)):
        with pytest.raises(UnsupportedError, match=name):
            registry.build_for(cell)


DECODING: Params = {"workload": Workload.DECODE, "causal": True}
SEEING, PADDED = {**DECODING, "causal": False}, {**DECODING, "padding": 0.5}
DECLARED: dict[str, tuple[Callable[[type[Attention]], bool], Params, str]] = {
    "masks": (lambda kind: kind.masks, {"padding": 0.5}, "it takes no key mask, so there can be no padding"),
    "a form without a mask": (lambda kind: not kind.causal_only, {"causal": False}, "it is causal only"),
    "a causal form": (lambda kind: kind.causality is not Causality.NONE, {"causal": True}, "it has no causal form"),
    "grouped heads": (lambda kind: kind.grouped, {"H": 32, "kv_heads": 2}, "each head of q has its own k and v"),
    "decoding": (lambda kind: kind.decodes, DECODING, "it does not decode token by token"),
    "decoding that sees the future": (lambda kind: not kind.decodes, SEEING, "decoding is causal; set causal: true"),
    "decoding with padding": (lambda kind: not (kind.decodes and kind.masks), PADDED, "decoding is without padding"),
    "a CPU": (lambda kind: "cpu" in kind.devices, {"device": "cpu"}, "it runs on CUDA devices"),
    "two widths": (lambda kind: not kind.one_width, {"D": 64, "M": 32}, "values are as wide as keys: M=32 must equal D=64"),
    "wide heads": (lambda kind: kind.widths[1] >= 1024, {"D": 1024, "M": 1024}, "it takes widths "),
    **{
        dtype: (lambda kind, dtype=dtype: dtype in kind.dtypes, {"dtype": dtype}, "it computes in ")  # type: ignore[misc]
        for dtype in DType
    },
}
"""Of a limit whether a class is free of it, so that something else is said or nothing; what is asked, and the words."""


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_that_a_class_declares_is_refused_in_the_words_of_all_and_no_other(name: str) -> None:
    kind, shape = registry.load(name), possible(name)
    assert shape is not None
    for what, (is_free, change, words) in DECLARED.items():
        fields = {"device": kind.devices[0], **{key: value for key, value in change.items() if key in Cell.model_fields}}
        problem = shape.model_copy(update={key: value for key, value in change.items() if key not in fields})
        said = kind.refusal(Cell(method=name, problem=problem, matmul_precision=Precision.HIGH, **fields)) or ""
        assert said.startswith(words) != is_free(kind), (what, said)
        assert what not in {"a form without a mask", "a causal form"} or is_free(kind) or kind.because in said


@pytest.mark.parametrize(("name", "params"), [*MISTAKES, *((name, {"colour": 3}) for name in NAMES)], ids=str)
def test_a_bad_or_unknown_parameter_is_refused_by_name(name: str, params: Params) -> None:
    kind, problem, wrong = registry.load(name), possible(name), next(iter(params))
    assert problem is not None
    error, words = (TypeError, "colour") if wrong == "colour" else (ValueError, f"{wrong}=.*must be")
    # a mistake is an error where the method is built, and no reason why a cell cannot run; no cell has infinite parameters
    if str(params[wrong]) not in {"inf", "-inf", "nan"}:
        asked = (Cell(method=name, problem=problem, params=params, device=device) for device in ("cpu", "cuda"))
        assert None in {kind.refusal(cell) for cell in asked}
    with pytest.raises(error, match=words):
        kind.cost(problem, params, FORWARD)
    if not registry.missing(kind) and all(package.startswith(OURS) for package in kind.requires):
        build: Any = kind
        with pytest.raises(error, match=words):
            build(problem, **params)


@pytest.mark.parametrize("variant", each(lambda variant: variant.kind.grouped))
def test_heads_that_cannot_be_shared_evenly_are_refused(variant: Variant) -> None:
    # three for four: kernels that trust the shapes would read memory beyond the last
    call = Call(variant, variant.some(64, kv_heads=2))
    inputs = mapped(call.inputs, lambda x: torch.cat((x, x[:, :1]), 1) if x.shape[1] == 2 else x)
    with pytest.raises((ValueError, RuntimeError)):
        call.method(*inputs)


@pytest.mark.parametrize("name", [name for name in NAMES if registry.load(name).requires])
def test_a_package_that_is_not_there_is_named_with_its_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.registry.installed_version", lambda _: None)
    kind = registry.load(name)
    assert f"pip install '{kind.requires[0]}'" in registry.pip_line(name, registry.missing(kind))
