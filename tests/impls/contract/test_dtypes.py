"""Each dtype costs no more accuracy than the definition in it, and comes out as it went in."""

import copy
from typing import Any, cast

import pytest
import torch

from attnbench import registry
from attnbench.api import Problem
from tests.impls.contract.calls import Call, no_worse
from tests.impls.contract.subjects import NAMES, Variant, each


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("variant", each())
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(variant: Variant, dtype: str) -> None:
    for problem in variant.problems(256, {}, B=1, H=2, D=32, dtype=dtype):
        call = Call(variant, problem)
        got, kind = call.results(), cast("Any", variant.kind)
        assert {x.dtype for x in (*got, *kind(problem, **variant.params).parameters())} == {getattr(torch, dtype)}
        exact = call.exact()
        rough = 20 * torch.finfo(got[0].dtype).eps * max(1.0, *(float(x.abs().max()) for x in exact))
        no_worse(got, call.results("reference"), exact, rough if variant.params in variant.method.rough else 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_in_float64_is_a_method_of_its_own(name: str) -> None:
    """As the check makes one. What needs another project's package may be absent, or warn."""
    kind: Any = registry.load(name)
    if all(package.startswith(("triton", "cuda-core")) for package in kind.requires):
        method = kind(Problem(H=2, N=64, D=16, causal=True))
        exact = copy.deepcopy(method).to(torch.float64)
        assert type(exact) is type(method)
        assert {id(x) for x in exact.parameters()}.isdisjoint(id(x) for x in method.parameters())
