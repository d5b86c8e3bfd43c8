"""Recurrences: the definitions are those of the papers, and their decays are right whatever their speed."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, registry
from tests.impls.contract.calls import Call, evaluated, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
decays: Any = import_module("attnbench_impls.recurrence.decay")
rows: Any = import_module("attnbench_impls.recurrence.rows")

DELTA = ["deltanet", "gated_deltanet", "kda", "rwkv7", "gated_deltanet2", "comba", "deltaproduct", "gated_deltaproduct"]
GATED = ["retnet", "lightning", "mamba2", "mamba3", "gla", "hgrn2"]
PUBLISHED: list[tuple[str, dict[str, Any]]] = [
    *((f"delta.{name}", {}) for name in DELTA),
    *((f"gated.{name}", {}) for name in GATED),
    ("gated.hgrn2", {"lower_bound": 0.2}),
]


def called(name: str, params: dict[str, Any] | None = None, **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 2, "N": 65, "D": 8, "causal": True, "dtype": "float64", **shape})
    return Call(Variant(name, params or {}), problem)


def delta_rule(name: str, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor, method: Any) -> Tensor:
    """As the papers print them, one token after the other, a matrix for each transition and query."""
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
            b = method.feedback.sigmoid().repeat_interleave(q.shape[1] // method.problem.kv_heads).view(-1, 1, 1)
            q_t = q_t - method.correction.view(-1, 1, 1) * k_t
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


def gated_rule(name: str, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, method: Any) -> Tensor:
    """From the symbols of the papers, shared with nothing of the implementation."""
    states, one = method.problem.kv_heads, torch.ones(*q.shape[:3], 1, dtype=torch.float64)
    heads = torch.arange(states, dtype=torch.float64).repeat_interleave(q.shape[1] // states).view(1, -1, 1, 1)
    if name == "retnet":
        return recurrence(q, k, v, (1 - 2 ** (-5 - heads)) * one) / 8**0.5
    if name == "lightning":
        return recurrence(q, k, v, torch.exp(-(2 ** (-8 * (heads + 1) / states)) * (1 + 1e-5)) * one)
    if name == "mamba2":
        step, rate = gates[0].unsqueeze(-1), method.A_log.exp().repeat_interleave(q.shape[1] // states).view(1, -1, 1, 1)
        return recurrence(q, step * k, v, torch.exp(-step * rate))
    if name == "mamba3":
        return trapezoids(q, k, v, *gates)
    if name == "gla":
        return recurrence(q, k, v, gates[0].exp()) / 8**0.5
    forget = method.lower_bound + (1 - method.lower_bound) / (1 + torch.exp(-k))
    return recurrence(q, 1 - forget, v, forget)


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize(("name", "params"), PUBLISHED, ids=str)
def test_the_definition_is_the_recurrence_of_the_paper(name: str, params: dict[str, Any], kv_heads: int) -> None:
    for N in (1, 2, 37):
        # two pairs of the nine channels of mamba3 turn
        call = called(name, params, N=N, H=4, kv_heads=kv_heads, D=9 if name == "gated.mamba3" else 8, M=5)
        q, *of_keys = call.inputs
        rule = delta_rule if name.startswith("delta.") else gated_rule
        repeated = (x.repeat_interleave(4 // kv_heads, 1) for x in of_keys)
        want = rule(name.split(".")[1], q, *repeated, method=call.method)
        leaves = [*call.inputs, *call.method.parameters()]
        slopes = torch.autograd.grad(want, leaves, call.g, allow_unused=True, materialize_grads=True)
        same(call.results("reference"), [want, *slopes], 1e-10)


def test_a_subclass_may_write_three_times_a_token() -> None:
    twice: Any = registry.load("delta.deltaproduct")
    thrice: Any = type("Thrice", (twice,), {"writes": 3})
    problem = Problem(B=2, H=2, N=65, D=8, causal=True, dtype="float64")
    method = thrice(problem, chunk=16)
    inputs = thrice.inputs(problem, torch.Generator().manual_seed(7))
    q, k, v, beta, keys, values = inputs
    k, v = (torch.cat(x, -1).unflatten(-1, (3, 8)).flatten(2, 3) for x in ((k, keys), (v, values)))
    o = called("delta.deltanet", N=195).forward(q.repeat_interleave(3, 2), k, v, beta.flatten(2))[:, :, 2::3]
    same([method(*inputs), method.reference(*inputs)], [o, o], 1e-12)
    assert (twice.work.writes, thrice.work.writes, thrice.work.reads) == (2, 3, 7)


def test_a_future_that_decays_faster_moves_no_more_than_the_last_bits_before_it() -> None:
    call = called("gated.gla", N=64)
    before, (*qkv, log_decay) = call.forward(), (x.detach().clone() for x in call.inputs)
    # blocks get shorter for all tokens of these chunks
    log_decay[:, :, 40:] *= 1e4
    same([call.forward(*qkv, log_decay)[:, :, :40]], [before[:, :, :40]], 1e-12)


def test_hgrn2_that_forgets_all_or_nothing_stays_finite() -> None:
    call = called("gated.hgrn2", N=70, dtype="float32")
    q, x, v = (y.detach() for y in call.inputs)
    for logits in (x * 100, x.abs() * 100, -x.abs() * 100):
        leaves = tuple(y.clone().requires_grad_() for y in (q, logits, v))
        assert all(y.isfinite().all() for y in call.results(inputs=leaves))


@pytest.mark.parametrize("lower_bound", [0.0, 0.1, 0.9])
def test_hgrn2_knows_how_little_it_forgets(lower_bound: float) -> None:
    x = torch.linspace(-6, 14, 41).view(1, 1, -1, 1)
    log_decay = called("gated.hgrn2", {"lower_bound": lower_bound}).method.terms(x, x, x).log_decay
    exact = torch.log1p(torch.sigmoid(-x.double()) * (lower_bound - 1))
    torch.testing.assert_close(log_decay.double(), exact, rtol=2e-6, atol=0)


def test_fixed_decays_are_not_rounded_to_the_inputs_dtype() -> None:
    q = torch.empty(1, 8, 1, 4, dtype=torch.bfloat16)
    log_decay = called("gated.retnet", H=8, dtype="bfloat16").method.terms(q, q, q).log_decay
    assert log_decay.dtype is torch.float32
    torch.testing.assert_close(log_decay.exp().flatten()[-1], torch.tensor(1 - 2.0**-12))


def test_log_linear_says_when_its_levels_are_full() -> None:
    call = called("gated.log_linear", N=5)
    _, full = call.method.prefill(*call.inputs, capacity=5)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        call.method.step(*(x[:, :, :1] for x in call.inputs), state=full)
    with pytest.raises(ValueError, match="token 10 is beyond the capacity of 5"):
        call.method.prefill(*(x.repeat(1, 1, 2, *[1] * (x.dim() - 3)) for x in call.inputs), capacity=10)


def test_slopes_are_those_of_their_models() -> None:
    h, q = torch.arange(8.0), torch.empty(1, 8, 1, 4)
    fla = called("gated.lightning", {"slopes": "fla", "layer": 1, "layers": 4}, H=8).method.log_decay(q).flatten()
    torch.testing.assert_close(fla, -0.75 * h)
    minimax = called("gated.lightning", {"layer": 2, "layers": 5}, H=8).method.log_decay(q).flatten()
    torch.testing.assert_close(minimax, -0.5 * 2 ** (-(h + 1)), rtol=1e-4, atol=0)


def pair_by_pair(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Its definition, Σ_d q_id k_jd times the decays of tokens j + 1 to i: [X, S, L, L]."""
    upto, future = log_decay.cumsum(2), torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    left = (upto.unsqueeze(3) - upto.unsqueeze(2)).masked_fill(future.unsqueeze(-1), -torch.inf).exp()
    return (q.unsqueeze(3) * k.unsqueeze(2) * left).sum(-1)


def drawn(L: int, gates: int, speed: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 2, L, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    log_decay = -speed * torch.rand(2, 2, L, gates, generator=generator, dtype=torch.float64)
    return q.requires_grad_(), k.requires_grad_(), log_decay.requires_grad_()


@settings(max_examples=60, deadline=None)
@given(
    L=st.integers(1, 24) | st.sampled_from([63, 64]),
    gates=st.sampled_from([1, 3]),
    speed=st.sampled_from([0.0, 0.01, 1.0, 10.0, 300.0]),
    most=st.sampled_from([0.0, 5.0, decays.FACTORED]),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_definition_however_long_blocks_are(
    L: int, gates: int, speed: float, most: float, seed: int
) -> None:
    inputs, g = drawn(L, gates, speed, seed), torch.randn(2, 2, L, L, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decays, "FACTORED", most)
        got = evaluated(lambda q, k, log_decay: decays.Decay.of(log_decay).pairs(q, k), inputs, g, ())
    same(got, evaluated(pair_by_pair, inputs, g, ()), 1e-10)


@pytest.mark.parametrize(("speed", "longest"), [(0.1, 64), (1.5, 32), (7.0, 8), (1000.0, 1)])
def test_blocks_are_as_long_as_their_decays_allow(speed: float, longest: int) -> None:
    assert decays._longest_block(torch.full((1, 3, 64, 2), -speed).cumsum(2)) == longest


GATES = {
    **dict.fromkeys(("gated.mamba2", "gated.gla", "gated.gsa", "gated.log_linear", "delta.rwkv7"), 3),
    **dict.fromkeys(("gated.mamba3", "delta.gated_deltanet", "delta.kda", "delta.comba", "delta.mesa"), 4),
    **{"delta.gated_deltanet2": 5, "delta.gated_deltaproduct": 6},
}
"""Where its log decays (of mamba2: its time steps) stand among a method's inputs."""


@pytest.mark.parametrize("function", ["forward", "reference"])
@pytest.mark.parametrize("nats", [300.0, 3000.0])
@pytest.mark.parametrize("name", GATES)
def test_what_follows_a_reset_is_as_exact_as_without_one(name: str, nats: float, function: str) -> None:
    """All gates lose that many nats at every 20th token, as at the end of a document: float32 keeps its digits."""
    call = Call(Variant(name), Problem(B=1, H=2, N=256, D=16, causal=True))
    with torch.no_grad():
        if name == "gated.mamba2":
            call.method.A_log.zero_()
        call.inputs[GATES[name]][:, :, 19::20] = nats if name == "gated.mamba2" else -nats
    # the output and the gradients of inputs, not that of A_log, in which the large steps themselves are added
    kept = 1 + len(call.inputs)
    for got, right in zip(call.results(function)[:kept], call.exact()[:kept], strict=True):
        assert torch.linalg.vector_norm(got - right) <= 4e-6 * torch.linalg.vector_norm(right)


FADING = [name for name in GATES if name not in {"gated.mamba2", "gated.mamba3", "gated.gsa", "gated.log_linear", "delta.mesa"}]


@pytest.mark.parametrize(("nats", "dtype"), [(3.0, "float32"), (100.0, "float32"), (100.0, "float64"), (1e4, "float64")])
@pytest.mark.parametrize("name", FADING)
def test_however_fast_the_state_fades_it_is_the_definition(name: str, nats: float, dtype: str) -> None:
    call = Call(Variant(name), Problem(B=1, H=2, N=130, D=8, causal=True, dtype=dtype))
    # every token of every other row of the state, or every other token
    with torch.no_grad():
        call.inputs[GATES[name]][..., ::2] *= nats
    same(call.results(), call.results("reference"), 1e-9 if dtype == "float64" else 2e-3)


@pytest.mark.parametrize(("dtype", "off_by"), [("float64", 1e-10), ("float32", 2e-5)])
@pytest.mark.parametrize("nats", [0.01, 40.0, 140.0])
@pytest.mark.parametrize("name", ["gated.mamba3", *(name for name in FADING if name != "delta.gated_deltaproduct")])
def test_decays_that_are_multiplied_into_queries_and_keys_are_those_of_pairs(
    name: str, nats: float, dtype: str, off_by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = called(name, {"chunk": 32}, N=70, H=4, kv_heads=2, dtype=dtype)
    log_decay = call.inputs[GATES[name]]
    with torch.no_grad():
        # three quarters of it in a chunk, more or less evenly
        log_decay.copy_(-nats / 32 * (0.5 + torch.rand_like(log_decay) / 2))
    multiplied = call.results()
    for module in (decays, rows):
        monkeypatch.setattr(module, "FACTORED", -1.0)
    by_pairs = call.results()
    same(multiplied, by_pairs, off_by)
    assert not torch.equal(multiplied[0], by_pairs[0])
