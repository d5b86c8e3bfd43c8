"""Gated linear attentions against the recurrences of their papers, and decays that are fixed, or of any speed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

PUBLISHED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("retnet", "lightning", "mamba2", "mamba3", "gla", "hgrn2")),
    ("hgrn2", {"lower_bound": 0.2}),
]


def called(name: str, params: dict[str, Any] | None = None, **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 3, "N": 40, "D": 6, "M": 5, "causal": True, "dtype": "float64", **shape})
    return Call(Variant(f"gated.{name}", params or {}), problem)


def recurrence(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """S <- keep S + k vᵀ, o = Sᵀ q, token by token; keep [B, H, N, D or 1]."""
    state, outputs = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]), []
    for t in range(q.shape[2]):
        state = keep[:, :, t, :, None] * state + k[:, :, t, :, None] * v[:, :, t, None]
        outputs.append((state * q[:, :, t, :, None]).sum(2))
    return torch.stack(outputs, 2)


def trapezoids(q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
    """S <- α S + (1 - λ) Δ α k' v'ᵀ + λ Δ k vᵀ, o = Sᵀ q, with k' and v' of the token before, after the turns so far."""
    step, log_decay, trapezoid, theta = gates
    state, outputs = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]), []
    turn = torch.eye(q.shape[3], dtype=q.dtype).expand(*q.shape[:2], -1, -1)
    key, value = torch.zeros_like(k[:, :, 0]), v[:, :, 0]
    for t in range(q.shape[2]):
        one = torch.eye(q.shape[3], dtype=q.dtype).repeat(*q.shape[:2], 1, 1)
        for a in range(theta.shape[3]):
            cos, sin = theta[:, :, t, a].cos(), theta[:, :, t, a].sin()
            rows = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
            one[:, :, 2 * a : 2 * a + 2, 2 * a : 2 * a + 2] = rows
        turn = one @ turn
        asks, new = ((turn @ x[:, :, t].unsqueeze(-1)).squeeze(-1) for x in (q, k))
        decay, late = log_decay[:, :, t].exp(), trapezoid[:, :, t]
        before, now = (1 - late) * step[:, :, t] * decay, late * step[:, :, t]
        state = decay[..., None, None] * state
        for share, x, y in ((before, key, value), (now, new, v[:, :, t])):
            state = state + share[..., None, None] * x.unsqueeze(-1) * y.unsqueeze(-2)
        outputs.append((state * asks.unsqueeze(-1)).sum(2))
        key, value = new, v[:, :, t]
    return torch.stack(outputs, 2)


def as_published(name: str, inputs: Any, method: Any) -> Tensor:
    """Each method from its paper's symbols, shared with nothing of the implementation; the same for the queries of a state."""
    q, k, v, *gates = inputs
    states, one = k.shape[1], torch.ones(*q.shape[:3], 1, dtype=torch.float64)
    heads = torch.arange(states, dtype=torch.float64).view(1, states, 1, 1)
    k, v, heads, *gates = (x.repeat_interleave(q.shape[1] // states, 1) for x in (k, v, heads, *gates))
    if name == "retnet":
        return recurrence(q, k, v, (1 - 2 ** (-5 - heads)) * one) / 6**0.5
    if name == "lightning":
        return recurrence(q, k, v, torch.exp(-(2 ** (-8 * (heads + 1) / states)) * (1 + 1e-5)) * one)
    if name == "mamba2":
        step, rate = gates[0].unsqueeze(-1), method.A_log.exp().repeat_interleave(q.shape[1] // states).view(1, -1, 1, 1)
        return recurrence(q, step * k, v, torch.exp(-step * rate))
    if name == "mamba3":
        return trapezoids(q, k, v, *gates)
    if name == "gla":
        return recurrence(q, k, v, gates[0].exp()) / 6**0.5
    forget = method.lower_bound + (1 - method.lower_bound) / (1 + torch.exp(-k))
    return recurrence(q, 1 - forget, v, forget)


@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize(("name", "params"), PUBLISHED, ids=str)
def test_the_definition_is_the_recurrence_of_the_paper(name: str, params: dict[str, Any], kv_heads: int) -> None:
    # two pairs of the nine channels of mamba3 turn
    call = called(name, params, H=6, kv_heads=kv_heads, D=9 if name == "mamba3" else 6)
    same(call.results("reference")[:1], [as_published(name, call.inputs, call.method)], 1e-12)


def test_mamba3_without_turns_that_counts_only_the_end_of_a_step_is_mamba2() -> None:
    older, newer = called("mamba2", H=6, kv_heads=2), called("mamba3", H=6, kv_heads=2)
    *qkv, step = older.inputs
    log_decay = -step * older.method.A_log.exp().unsqueeze(-1)
    same([newer.forward(*qkv, step, log_decay, torch.ones_like(step), torch.zeros(2, 2, 40, 1))], [older.forward()], 1e-12)


def test_a_future_that_decays_faster_moves_no_more_than_the_last_bits_before_it() -> None:
    call = called("gla", N=64)
    before, (*qkv, decays) = call.forward(), (x.detach().clone() for x in call.inputs)
    # blocks get shorter for all tokens of these chunks
    decays[:, :, 40:] *= 1e4
    same([call.forward(*qkv, decays)[:, :, :40]], [before[:, :, :40]], 1e-12)


def test_hgrn2_that_forgets_all_or_nothing_stays_finite() -> None:
    call = called("hgrn2", N=70, dtype="float32")
    q, x, v = (y.detach() for y in call.inputs)
    for logits in (x * 100, x.abs() * 100, -x.abs() * 100):
        leaves = tuple(y.clone().requires_grad_() for y in (q, logits, v))
        assert all(y.isfinite().all() for y in call.results(inputs=leaves))


def test_fixed_decays_are_not_rounded_to_the_inputs_dtype() -> None:
    q = torch.empty(1, 8, 1, 4, dtype=torch.bfloat16)
    log_decay = called("retnet", H=8, dtype="bfloat16").method.terms(q, q, q).log_decay
    assert log_decay.dtype is torch.float32
    torch.testing.assert_close(log_decay.exp().flatten()[-1], torch.tensor(1 - 2.0**-12))


def test_slopes_are_those_of_their_models() -> None:
    h, q = torch.arange(8.0), torch.empty(1, 8, 1, 4)
    fla = called("lightning", {"slopes": "fla", "layer": 1, "layers": 4}, H=8).method.log_decay(q).flatten()
    torch.testing.assert_close(fla, -0.75 * h)
    minimax = called("lightning", {"layer": 2, "layers": 5}, H=8).method.log_decay(q).flatten()
    torch.testing.assert_close(minimax, -0.5 * 2 ** (-(h + 1)), rtol=1e-4, atol=0)
