"""What a causal call hides cannot be seen: not in an output, not even in its last bit, nor in a gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Causality, Problem, Workload
from attnbench.workloads.setting import unique
from tests.impls.contract.calls import Call, same
from tests.impls.contract.method import Params
from tests.impls.contract.subjects import Variant, each


def hides_all(variant: Variant) -> bool:
    return variant.causal(150) is not None and variant.kind.causality is Causality.FULL


def spliced(call: Call, t: int) -> tuple[Tensor, ...]:
    """The inputs with other tokens from t on; only their values, where that is all that is hidden."""
    seen = 0 if call.method.causality is Causality.FULL else 2
    changed = {id(x): x for x in call.inputs}
    for x, y in list(zip(call.inputs, call.drawn(8), strict=True))[seen:]:
        changed[id(x)] = torch.cat((x[:, :, :t], y[:, :, t:]), 2).detach()
    return tuple(changed[id(x)] for x in call.inputs)


def of_any_grouping(variant: Variant, workload: Workload = Workload.FORWARD, **shape: Any) -> list[Problem]:
    """One causal problem where each of two heads has its own keys, and one where they share them, if that is possible."""
    asked = (variant.causal(150, workload, B=1, H=2, kv_heads=kv_heads, **shape) for kv_heads in (2, 1))
    return [problem for problem in asked if problem is not None]


@pytest.mark.parametrize("variant", each(lambda variant: variant.causal(150)))
def test_the_future_changes_nothing_before_it(variant: Variant) -> None:
    exactly = variant.params not in variant.method.bends
    shape: Params = {"dtype": "float32"} if exactly else {}
    problems = of_any_grouping(variant, **shape)
    assert problems
    for call in (Call(variant, problem) for problem in problems):
        # its own choices, of each, where they follow from the inputs
        own = {"choices": None} if call.choices is not None and call.chooses_alike else {}
        before = call.forward(**own)
        for t in (1, 63, 64, 100):
            later = spliced(call, t)
            if call.choices is not None and own and hides_all(variant):
                assert torch.equal(call.method.choose(*later)[:, :, :t], call.choices[:, :, :t])
            after = call.forward(*later, **own)
            if exactly:
                assert torch.equal(after[:, :, :t], before[:, :, :t])
            same([after[:, :, :t]], [before[:, :, :t]], call.off_by / 100)
            assert not torch.equal(after[:, :, t:], before[:, :, t:])


@pytest.mark.parametrize("variant", each(hides_all))
def test_earlier_outputs_have_no_gradient_in_later_tokens(variant: Variant) -> None:
    for problem in of_any_grouping(variant, Workload.FORWARD_BACKWARD):
        call = Call(variant, problem)
        assert call.g is not None
        o, leaves = call.method(*call.inputs, **call.given), unique([*call.inputs])
        for t in (1, 63, 64, 100):
            g = call.g.clone()
            g[:, :, t:] = 0
            gradients = torch.autograd.grad(o, leaves, g, retain_graph=True, allow_unused=True, materialize_grads=True)
            assert all(float(gradient[:, :, t:].abs().max()) <= 1e-12 for gradient in gradients)
