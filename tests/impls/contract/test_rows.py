"""The rows that a method is held against at the length it is timed at are its reference's, and so are their gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Problem
from attnbench.workloads.setting import unique
from tests.impls.contract.calls import Call, mapped
from tests.impls.contract.subjects import NAMES, Variant, each

# one sample moves another by the norms that all share, so that no rows of one alone can be written down


@pytest.mark.parametrize("name", [name for name in NAMES if ":" not in name and name not in {"landmark.nystrom_attention"}])
def test_every_method_has_rows(name: str) -> None:
    assert registry.load(name).rows is not Attention.rows


@pytest.mark.parametrize("variant", each(lambda variant: variant.kind.rows is not Attention.rows))
def test_rows_and_their_gradients_are_those_of_the_reference(variant: Variant) -> None:
    problems = [problem for N in (1, variant.some(65).N) for problem in variant.problems(N) if problem.dtype == "float64"]
    for call in (Call(variant, problem) for problem in problems):
        p, inputs = call.problem, mapped(call.inputs, Tensor.requires_grad_)
        at = torch.tensor(sorted({0, p.N // 3, p.N // 2, p.N - 1}))
        whole = call.method.reference(*inputs, **call.given)[:, :, at]
        rows = torch.stack([rows_of(call.method, inputs, call.choices, at, b, h) for b in range(2) for h in range(4)])
        rows, leaves = rows.unflatten(0, (2, 4)), unique([*inputs, *call.method.parameters()])
        g = torch.randn(p.B, p.H, len(at), p.M, dtype=torch.float64)
        got, want = (
            (o.detach(), *torch.autograd.grad(o, leaves, g, allow_unused=True, materialize_grads=True)) for o in (rows, whole)
        )
        torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def rows_of(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None, at: Tensor, b: int, h: int) -> Tensor:
    """Of one head of one sample, each different input cut once."""
    cut = {id(x): x[b, h * x.shape[1] // 4] for x in inputs}
    keywords: dict[str, Any] = {} if choices is None else {"choices": choices[b, h * choices.shape[1] // 4]}
    o: Tensor = method.rows(h, at, *(cut[id(x)] for x in inputs), **keywords)
    return o


@pytest.mark.parametrize("variant", each(lambda variant: variant.kind.masks))
def test_rows_do_not_see_what_a_mask_hides(variant: Variant) -> None:
    method = variant.build(next(variant.problems(40, {"H": 2, "padding": 0.5})))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
    key_mask = torch.arange(40) < torch.tensor([[30], [7]])
    whole = method.reference(*inputs, key_mask=key_mask)
    at = torch.tensor([0, 3, 39])
    rows: Any = method.rows
    own = rows(1, at, *(x[1, 1] for x in inputs), key_mask=key_mask[1])
    torch.testing.assert_close(own, whole[1, 1, at], rtol=0, atol=1e-10)


LONG = ["linear.chunked", "gated.mamba2", "delta.kda", "lsh.reformer", "vq.blockwise", "sparse.fixed"]


@pytest.mark.parametrize("name", [name for name in LONG if name in NAMES])
def test_rows_of_a_long_sequence_take_little_memory(name: str, tmp_path: Any) -> None:
    """N² numbers of float64 would be half a gigabyte here."""
    from attnbench.measure.profiler_memory import torch_profiler_peak

    method = registry.build(name, Problem(B=1, H=1, N=8192, D=8, causal=True))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
    choices = method.choose(*inputs)
    keywords: dict[str, Any] = {} if choices is None else {"choices": choices[0, 0]}
    rows: Any = method.rows
    peak = torch_profiler_peak(lambda: rows(0, torch.tensor([0, 5000, 8191]), *(x[0, 0] for x in inputs), **keywords))
    assert peak.bytes is not None
    assert peak.bytes < 8192**2 * 8 / 20
