"""Every method that can be built here can be copied into float64, as the check does with it."""

import copy

import pytest
import torch

from attnbench.api import Problem
from attnbench.registry import catalogue, load


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_a_copy_in_float64_is_a_method_of_its_own(name: str) -> None:
    kind = load(name)
    if any(not package.startswith(("triton", "cuda-core")) for package in kind.requires):
        return  # another project's, which may be absent, or warn
    method = kind(Problem(H=2, N=64, D=16, causal=True))
    exact = copy.deepcopy(method).to(torch.float64)
    assert type(exact) is type(method)
    assert {id(x) for x in exact.parameters()}.isdisjoint(id(x) for x in method.parameters())
