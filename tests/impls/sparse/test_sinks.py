"""A window with sinks: what a sink takes is given to no value, and one that takes nothing changes nothing."""

import torch

from attnbench import Problem
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

PROBLEM = Problem(B=2, H=4, kv_heads=2, N=37, D=8, M=6, causal=True, dtype="float64")


def called(sinks: torch.Tensor | float) -> Call:
    call = Call(Variant("sparse.window_sinks", {"window": 5}), PROBLEM)
    with torch.no_grad():
        call.method.sinks.copy_(torch.as_tensor(sinks))
    return call


def test_a_sink_that_takes_nothing_leaves_the_window_as_it_was() -> None:
    same([called(-1e9).forward()], [Call(Variant("sparse.window", {"window": 5}), PROBLEM).forward()], 1e-12)


def test_a_sink_that_takes_all_leaves_nothing() -> None:
    o = called(1e9).forward()
    assert o.abs().max() < 1e-30


def test_a_first_token_shares_its_weight_with_the_sink_of_its_head() -> None:
    sinks = torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype=torch.float64)
    call = called(sinks)
    q, k, v = (x.detach() for x in call.inputs)
    k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
    score = (q[:, :, 0] * k[:, :, 0]).sum(-1) / 8**0.5
    want = torch.sigmoid(score - sinks).unsqueeze(-1) * v[:, :, 0]
    torch.testing.assert_close(call.method(*call.inputs)[:, :, 0], want)
