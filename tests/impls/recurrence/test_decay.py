"""What decays leave of pairs, states and writes, whatever their speed: within a chunk, in chunks, and after a reset."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call, evaluated, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
decays: Any = import_module("attnbench_impls.recurrence.decay")
linear: Any = import_module("attnbench_impls.recurrence.linear")
parts: Any = import_module("attnbench_impls.recurrence.parts")


def pair_by_pair(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Its definition, one pair after the other: [X, S, L, L]."""
    rows_, S, L, _ = q.shape
    rows = []
    for i in range(L):
        row = [q.new_zeros(rows_, S)] * L
        for j in range(i + 1):
            left = log_decay[:, :, j + 1 : i + 1].sum(2).exp()
            row[j] = (q[:, :, i] * k[:, :, j] * left).sum(-1)
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, -2)


def drawn(L: int, gates: int, speed: float, D: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 2, L, D, generator=generator, dtype=torch.float64) for _ in range(2))
    log_decay = -speed * torch.rand(2, 2, L, D if gates > 1 else 1, generator=generator, dtype=torch.float64)
    return q.requires_grad_(), k.requires_grad_(), log_decay.requires_grad_()


@settings(max_examples=60, deadline=None)
@given(
    L=st.integers(1, 24),
    gates=st.sampled_from([1, 3]),
    speed=st.sampled_from([0.0, 0.01, 1.0, 10.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_definition(L: int, gates: int, speed: float, seed: int) -> None:
    inputs, g = drawn(L, gates, speed, seed=seed), torch.randn(2, 2, L, L, dtype=torch.float64)
    got = evaluated(lambda q, k, log_decay: decays.Decay.of(log_decay).pairs(q, k), inputs, g, ())
    same(got, evaluated(pair_by_pair, inputs, g, ()), 1e-10)


@pytest.mark.parametrize("L", [16, 63, 64])
@pytest.mark.parametrize("speed", [0.02, 3.0, 200.0])
def test_how_long_blocks_are_cannot_be_seen(L: int, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, log_decay = (x.detach() for x in drawn(L, 3, speed))
    found = []
    for most in (0.0, 5.0, 60.0):
        monkeypatch.setattr(decays, "FACTORED", most)
        found.append(decays.Decay.of(log_decay).pairs(q, k))
    same(found[1:], [found[0]] * 2, 1e-12)


@pytest.mark.parametrize(("speed", "longest"), [(0.1, 64), (1.5, 32), (7.0, 8), (1000.0, 1)])
def test_blocks_are_as_long_as_their_decays_allow(speed: float, longest: int) -> None:
    c = torch.full((1, 3, 64, 2), -speed).cumsum(2)
    assert decays._longest_block(c) == longest


def test_one_row_that_decays_too_fast_is_enough() -> None:
    c = torch.zeros(2, 1, 64, 3)
    assert decays.Decay(c, c.dtype).most_lost <= decays.FACTORED
    c[1, 0, 63, 2] = -decays.FACTORED * 1.01
    assert decays.Decay(c, c.dtype).most_lost > decays.FACTORED


@pytest.mark.parametrize("gates", [1, 8])
def test_nothing_overflows_however_fast_it_decays(gates: int) -> None:
    q, k = (torch.randn(1, 2, 64, 8, requires_grad=True) for _ in range(2))
    log_decay = (-torch.logspace(-3, 3, 64)[torch.randperm(64)].view(1, 1, 64, 1).expand(1, 2, 64, gates)).requires_grad_()
    decay = decays.Decay.of(log_decay)
    o = decay.pairs(q, k).sum() + decay.read(q).sum() + decay.write(k).sum() + decay.carry.sum()
    assert all(x.isfinite().all() for x in (o, *torch.autograd.grad(o, (q, k, log_decay))))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("gates", [1, 4])
def test_decays_may_be_taken_into_queries_and_keys_or_not(gates: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(2, group * 3, 150, 4), (2, 3, 150, 4), (2, 3, 150, 5), (2, 3, 150, gates), (2, 3, 4, 5)]
    q, k, v, log_decay, state = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    leaves = [x.requires_grad_() for x in (q, k, v, -0.3 * log_decay.abs(), state)]
    weights = torch.randn(2, group * 3, 150, 5, dtype=torch.float64), torch.randn_like(state)

    def results() -> list[Tensor]:
        o = linear.linear_attention(*leaves[:4], state=leaves[4])
        return [*o, *torch.autograd.grad(o, leaves, weights)]

    factored = results()
    monkeypatch.setattr(decays, "FACTORED", -1.0)
    same(factored, results(), 1e-10)


@given(N=st.integers(0, 500), rows=st.integers(1, 40), D=st.integers(1, 300), chunk=st.integers(1, 600))
def test_parts_cover_each_token_once_in_whole_chunks(N: int, rows: int, D: int, chunk: int) -> None:
    q = torch.empty(rows, 1, N, D, device="meta")
    walk = parts.parts(q, 7, chunk)
    assert [t for part in walk for t in range(part.start, part.stop)] == list(range(N))
    assert all((part.stop - part.start) % part.L == 0 for part in walk)
    assert [x for some in parts.groups(q) for x in range(rows)[some]] == list(range(rows))


GATES = {
    **{"gated.mamba2": 3, "gated.gla": 3, "delta.gated_deltanet": 4, "delta.kda": 4, "delta.rwkv7": 3},
    **{"delta.gated_deltanet2": 5, "delta.comba": 4, "delta.gated_deltaproduct": 6, "delta.mesa": 4},
    **{"gated.gsa": 3, "gated.log_linear": 3, "gated.mamba3": 4},
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
