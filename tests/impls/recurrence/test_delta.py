"""The delta rules, RWKV-7 and what extends them: what they compute, whatever the chunks."""

from importlib import import_module
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
decay: Any = import_module("attnbench_impls.recurrence.decay")

ALL = ["deltanet", "gated_deltanet", "kda", "rwkv7", "gated_deltanet2", "comba", "deltaproduct", "gated_deltaproduct"]


def called(name: str, params: dict[str, Any] | None = None, **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 2, "N": 65, "D": 8, "causal": True, "dtype": "float64", **shape})
    return Call(Variant(f"delta.{name}", params or {}), problem)


def by_tokens(name: str, call: Call) -> Tensor:
    """The recurrences as the papers print them, one token after the other, a matrix for each transition and query."""
    q, *of_keys = call.inputs
    method, group = call.method, q.shape[1] // of_keys[0].shape[1]
    k, v, *rest = (x.repeat_interleave(group, 1) for x in of_keys)
    S, outputs, one = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), [], torch.eye(q.shape[-1], dtype=q.dtype)
    for t in range(q.shape[2]):
        q_t, k_t, v_t, *gates = (x[:, :, t].unsqueeze(-1) for x in (q, k, v, *rest))
        if name == "rwkv7":
            w, a, b = gates
            S = (w.exp() * one + b @ a.mT) @ S + k_t @ v_t.mT
        elif name == "gated_deltanet2":
            b, w, log_decay = gates
            S = (one - k_t @ (b * k_t).mT) @ (log_decay.exp() * S) + k_t @ (w * v_t).mT
        elif name == "comba":
            beta, log_decay = (x.unsqueeze(-1) for x in gates)
            b, d = method.feedback.sigmoid().repeat_interleave(group).view(-1, 1, 1), method.correction.view(-1, 1, 1)
            q_t = q_t - d * k_t
            S = (log_decay.exp() * one - b * beta * k_t @ k_t.mT) @ S + beta * k_t @ v_t.mT
        elif name.endswith("deltaproduct"):
            beta, keys, values, *decays = gates
            S = S if name == "deltaproduct" else decays[0].unsqueeze(-1).exp() * S
            for j, (k_j, v_j) in enumerate(((k_t, v_t), (keys, values))):
                b_j = beta[:, :, j : j + 1]
                S = (one - b_j * k_j @ k_j.mT) @ S + b_j * k_j @ v_j.mT
        else:
            beta, log_decay = gates[0].unsqueeze(-1), gates[1] if len(gates) > 1 else torch.zeros_like(gates[0])
            log_decay = log_decay if log_decay.dim() == 4 else log_decay.unsqueeze(-1)
            S = log_decay.exp() * S
            S = S - beta * k_t @ (k_t.mT @ S) + beta * k_t @ v_t.mT
        outputs.append((1 if name == "rwkv7" else 8**-0.5) * (S.mT @ q_t).squeeze(-1))
    return torch.stack(outputs, 2)


@pytest.mark.parametrize(("N", "kv_heads"), [(1, 4), (2, 4), (37, 4), (37, 2)])
@pytest.mark.parametrize("name", ALL)
def test_the_definition_is_the_recurrence_of_the_paper(name: str, N: int, kv_heads: int) -> None:
    call = called(name, N=N, M=5, H=4, kv_heads=kv_heads)
    want = by_tokens(name, call)
    slopes = torch.autograd.grad(want, [*call.inputs, *call.method.parameters()], call.g)
    same(call.results("reference"), [want, *slopes], 1e-10)


def test_a_subclass_may_write_three_times_a_token() -> None:
    twice: Any = registry.load("delta.deltaproduct")
    thrice: Any = type("Thrice", (twice,), {"writes": 3})
    problem = Problem(B=2, H=2, N=65, D=8, causal=True, dtype="float64")
    method = thrice(problem, chunk=16)
    inputs = thrice.inputs(problem, torch.Generator().manual_seed(7))
    q, k, v, beta, keys, values = inputs
    k, v = (torch.cat(x, -1).unflatten(-1, (3, 8)).flatten(2, 3) for x in ((k, keys), (v, values)))
    o = called("deltanet", N=195).forward(q.repeat_interleave(3, 2), k, v, beta.flatten(2))[:, :, 2::3]
    same([method(*inputs), method.reference(*inputs)], [o, o], 1e-12)
    assert (twice.work.writes, thrice.work.writes, thrice.work.reads) == (2, 3, 7)


@pytest.mark.parametrize("nats", [0.01, 40.0, 110.0])
@pytest.mark.parametrize("name", ["gated_deltanet", "kda", "rwkv7", "gated_deltanet2", "comba"])
def test_decays_that_are_multiplied_into_queries_and_keys_are_those_of_pairs(
    name: str, nats: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = called(name, {"chunk": 32}, N=70, H=4, kv_heads=2)
    log_decay = call.inputs[3 if name == "rwkv7" else -1]
    with torch.no_grad():
        # so much in a chunk, more or less evenly
        log_decay.copy_(-nats / 32 * (0.5 + torch.rand_like(log_decay) / 2))
    made = Mock(side_effect=decay.Decay.factors.func)
    monkeypatch.setattr(decay.Decay, "factors", property(lambda self: made(self)))
    got = call.results()
    assert made.called
    assert -float(log_decay.detach()[:, :, :32].sum(2).amin()) < 2 * decay.FACTORED
    monkeypatch.setattr(decay.Decay, "factors", None)
    same(got, call.results(), 1e-10)
