"""Documents in one row are each by itself: values, and all gradients."""

import pytest
import torch

from attnbench import registry
from attnbench.api import Cell, Problem
from attnbench.forms import packed
from attnbench.workloads.setting import unique
from tests.impls.contract.calls import evaluated, same
from tests.impls.contract.subjects import Variant, each

LENGTHS = (23, 1, 40, 6)


def packs(variant: Variant) -> bool:
    return variant.kind.packs and any(True for _ in variant.problems(sum(LENGTHS), {}))


@pytest.mark.parametrize("variant", each(packs))
def test_packed_documents_are_those_that_are_attended_alone(variant: Variant) -> None:
    for alone in variant.problems(sum(LENGTHS), {"B": 1}, {"B": 1, "kv_heads": 2}):
        row = alone.model_copy(update={"documents": LENGTHS})
        method = packed(variant.kind)(row, **variant.params).to(getattr(torch, row.dtype))
        trains, leaves = variant.trains(row), list(method.parameters())
        inputs = [x.requires_grad_(trains) for x in type(method).inputs(row, torch.Generator().manual_seed(7))]
        g = torch.randn(1, row.H, row.N, row.M, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
        got = evaluated(method, tuple(inputs), g.to(inputs[0].dtype) if trains else None, leaves)
        outputs = []
        for part in zip(*(x.split(LENGTHS, 2) for x in inputs), strict=True):
            single = variant.kind(alone.model_copy(update={"N": part[0].shape[2]}), **variant.params)
            single.to(getattr(torch, row.dtype)).load_state_dict(method.state_dict())
            # the parameters of the one method, so that gradients can be compared
            outputs.append(torch.func.functional_call(single, dict(method.named_parameters()), part))
        o = torch.cat(outputs, 2)
        want = [o.detach()]
        if trains:
            every = unique([*inputs, *leaves])
            want += torch.autograd.grad(o, every, g.to(o.dtype), allow_unused=True, materialize_grads=True)
        same(got, want, max(1e-10 if row.dtype == "float64" else 1e-4, variant.method.off_by))
        same([method.reference(*inputs)], [o], 1e-9 if row.dtype == "float64" else 1e-3)


def test_what_can_not_be_packed_says_why() -> None:
    for method, padding, why in (
        ("softmax.sdpa+packed", 0.5, None),
        ("softmax.sdpa+packed", 0.0, "set padding"),
        ("lsh.reformer+packed", 0.5, "documents of any length"),
    ):
        said = registry.load(method).refusal(Cell(method=method, problem=Problem(B=4, N=64, causal=True, padding=padding)))
        assert said is None if why is None else why in (said or "")
