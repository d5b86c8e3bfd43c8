"""Methods under torch.compile, by their names: what they compute, and what refuses."""

from contextlib import nullcontext

import pytest
import torch

from attnbench import build, registry
from attnbench.api import Cell, Problem

PROBLEM = Problem(B=1, H=2, N=32, D=8, causal=True)


@pytest.mark.slow
def test_a_compiled_method_computes_what_it_did() -> None:
    plain, compiled = build("softmax.naive", PROBLEM), build("softmax.naive+compile", PROBLEM)
    q, k, v = (x.requires_grad_() for x in type(plain).inputs(PROBLEM, torch.Generator().manual_seed(7)))
    g = torch.randn(1, 2, 32, 8)
    for method in (plain, compiled):
        o = method(q, k, v)
        found = o.detach(), *torch.autograd.grad(o, (q, k, v), g)
        if method is plain:
            want = found
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    with compiled.observe() as noted:
        compiled(q, k, v)
    assert noted["graphs"] not in {0, None}


@pytest.mark.slow
def test_its_first_call_compiles_from_nothing_whatever_was_compiled_before() -> None:
    from torch._dynamo.utils import counters

    q, k, v = (torch.randn(1, 2, 48, 8) for _ in range(3))
    for first in (False, True):
        torch._dynamo.reset()
        counters.clear()
        method = build("softmax.naive+compile", Problem(B=1, H=2, N=48, D=8))
        with method.observe() if first else nullcontext():
            method(q, k, v)
        assert counters["stats"]["unique_graphs"] == 1
    assert counters["inductor"]["fxgraph_cache_miss"] == 1
    # what was compiled outlives the folder
    torch.testing.assert_close(method(q, k, v), method.reference(q, k, v))
    assert counters["stats"]["unique_graphs"] == 1


def test_a_compiled_method_is_described_as_its_own_and_refuses_what_is_not_eager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusal(name: str) -> str | None:
        return registry.load(name).refusal(Cell(method=name, problem=PROBLEM))

    method = registry.load("linear.chunked+compile")
    assert (method.tier, method.paper, method.decodes) == ("compiled", registry.load("linear.chunked").paper, False)
    assert refusal("softmax.sdpa+compile") == "its tier is library: only eager methods are compiled"
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert refusal("softmax.naive+compile") == "torch.compile needs a C++ compiler: g++, clang++, c++"


def test_a_padded_batch_is_built_as_one_row() -> None:
    method = build("softmax.sdpa+packed", Problem(B=4, H=2, N=64, D=8, causal=True, padding=0.5))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    assert method(*inputs).shape == (1, 2, 56 + 48 + 40 + 32, 8)
    torch.testing.assert_close(method(*inputs), method.reference(*inputs))


def test_forms_are_known_by_their_names_together() -> None:
    both = registry.load("linear.chunked+packed+compile")
    cell = Cell(method="linear.chunked+packed+compile", problem=PROBLEM.model_copy(update={"B": 4, "padding": 0.5}))
    assert both.tier == "compiled"
    assert "C++" in (both.refusal(cell) or "C++")
    assert registry.is_known(cell.method)
    assert not registry.is_known("linear.chunked+folded")
