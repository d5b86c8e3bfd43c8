"""Gated linear attention by chunks is the recurrence, token by token; how it is walked along cannot be seen."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.measure.profiler_memory import torch_profiler_peak

# by name: installed under another name than that of its folder
linear: Any = import_module("attnbench_impls.recurrence.linear")
decays: Any = import_module("attnbench_impls.recurrence.decay")
parts: Any = import_module("attnbench_impls.recurrence.parts")
state_of: Any = import_module("attnbench_impls.recurrence.state")
between: Any = import_module("attnbench_impls.recurrence.states")


def token_by_token(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None, scale: float, state: Tensor) -> Any:
    """S <- exp(log decay) S + k vᵀ, o = scale Sᵀ q."""
    outputs = []
    for t in range(q.shape[2]):
        if log_decay is not None:
            state = log_decay[:, :, min(t, log_decay.shape[2] - 1)].exp().unsqueeze(-1) * state
        state = state + k[:, :, t].unsqueeze(-1) * v[:, :, t].unsqueeze(-2)
        outputs.append(scale * (q[:, :, t].unsqueeze(-2) @ state))
    return torch.cat(outputs, 2), state


def drawn(N: int, gates: int, speed: float = 1.0, B: int = 2, H: int = 3, D: int = 4, M: int = 5) -> list[Tensor]:
    """q, k, v, log decays and a state, in float64, with gradients asked for."""
    generator = torch.Generator().manual_seed(N)
    shapes = [(B, H, N, D), (B, H, N, D), (B, H, N, M), (B, H, N, D if gates > 1 else 1), (B, H, D, M)]
    tensors = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    tensors[3] = -speed * tensors[3].abs()
    return [x.requires_grad_() for x in tensors]


def agree(got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor], leaves: list[Tensor]) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    weights = [torch.randn_like(x) for x in want]
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, weights), torch.autograd.grad(want, leaves, weights), rtol=0, atol=1e-10
    )


@settings(max_examples=50, deadline=None)
@given(
    N=st.integers(1, 70),
    chunk=st.integers(1, 80),
    gates=st.sampled_from([1, 4]),
    speed=st.sampled_from([0.01, 1.0, 50.0]),
    rows=st.sampled_from([1, 4, 8]),
    tokens=st.sampled_from([1, 40, 4096]),
)
def test_no_cut_into_chunks_parts_and_rows_changes_values_or_gradients(
    N: int, chunk: int, gates: int, speed: float, rows: int, tokens: int
) -> None:
    q, k, v, log_decay, state = leaves = drawn(N, gates, speed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_TOGETHER", rows)
        patch.setattr(parts, "TOKENS", tokens)
        got = linear.linear_attention(q, k, v, log_decay, scale=0.7, chunk=chunk, state=state)
        want = token_by_token(q, k, v, log_decay, 0.7, state)
        agree(got, want, leaves)


@pytest.mark.parametrize("gates", [1, 4])
def test_decays_may_be_taken_into_queries_and_keys_or_not(gates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v, log_decay, state = leaves = drawn(150, gates, 0.3)
    factored = linear.linear_attention(q, k, v, log_decay, state=state)
    monkeypatch.setattr(decays, "FACTORED", -1.0)
    agree(factored, linear.linear_attention(q, k, v, log_decay, state=state), leaves)


def test_one_row_that_decays_too_fast_is_enough() -> None:
    c = torch.zeros(2, 1, 64, 3)
    assert decays.Decay(c, c.dtype).most_lost <= decays.FACTORED
    c[1, 0, 63, 2] = -decays.FACTORED * 1.01
    assert decays.Decay(c, c.dtype).most_lost > decays.FACTORED


@pytest.mark.parametrize("N", [1, 2, 63, 64, 65, 150])
def test_without_decay_it_is_unnormalised_linear_attention(N: int) -> None:
    q, k, v, _, _ = drawn(N, 1)
    o, last = linear.linear_attention(q, k, v)
    agree((o, last), ((q @ k.mT).tril() @ v, k.mT @ v), [q, k, v])


@pytest.mark.parametrize("N", [1, 63, 130])
def test_decays_that_are_the_same_at_every_token_may_be_given_once(N: int) -> None:
    q, k, v, log_decay, state = drawn(N, 1)
    once = log_decay.detach()[:, :, :1]
    got = linear.linear_attention(q, k, v, once, state=state)
    agree(got, linear.linear_attention(q, k, v, once.expand(-1, -1, N, -1), state=state), [q, k, v, state])
    for_all = once[:1].detach().requires_grad_()
    got = linear.linear_attention(q, k, v, for_all, state=state)
    agree(got, token_by_token(q, k, v, for_all.expand(2, -1, -1, -1), 1.0, state), [q, k, v, for_all, state])


@pytest.mark.parametrize("gates", [1, 4])
def test_a_sequence_in_parts_that_carry_the_state_on_is_the_whole(gates: int) -> None:
    q, k, v, log_decay, state = leaves = drawn(150, gates)
    outputs, after = [], state
    for some in (slice(0, 1), slice(1, 70), slice(70, 150)):
        o, after = linear.linear_attention(*(x[:, :, some] for x in (q, k, v, log_decay)), state=after)
        outputs.append(o)
    whole = linear.linear_attention(q, k, v, log_decay, state=state)
    agree((torch.cat(outputs, 2), after), whole, leaves)


def test_no_tokens_leave_the_state_as_it_is() -> None:
    q, k, v, log_decay, state = (x.detach() for x in drawn(5, 1))
    o, last = linear.linear_attention(*(x[:, :, :0] for x in (q, k, v, log_decay)), state=state)
    assert o.shape == (2, 3, 0, 5)
    assert torch.equal(last, state)


@pytest.mark.parametrize("gates", [1, 4])
def test_a_step_is_one_token_more(gates: int) -> None:
    q, k, v, log_decay, before = (x.detach() for x in drawn(9, gates))
    want = token_by_token(q, k, v, log_decay, 0.5, before)
    state, outputs = state_of.RecurrentState(before.clone()), []
    for t in range(9):
        token = [x[:, :, t : t + 1] for x in (q, k, v, log_decay)]
        state = state.then(*token[1:])
        outputs.append(state.read(token[0], 0.5))
    torch.testing.assert_close((torch.cat(outputs, 2), state.sums), want, rtol=0, atol=1e-12)


def test_the_gradient_is_that_of_finite_differences() -> None:
    leaves = drawn(5, 2, B=1, H=1, D=2, M=2)
    assert torch.autograd.gradcheck(lambda q, k, v, g, s: linear.linear_attention(q, k, v, g, chunk=2, state=s), tuple(leaves))


def test_a_second_backward_gives_the_same_gradients() -> None:
    q, k, v, log_decay, state = leaves = drawn(70, 4)
    o, _ = linear.linear_attention(q, k, v, log_decay, state=state)
    once = torch.autograd.grad(o.square().sum(), leaves, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(o.square().sum(), leaves), once, rtol=0, atol=0)


def test_without_gradients_it_is_the_same_bit_for_bit_and_leaves_its_inputs_alone() -> None:
    q, k, v, log_decay, state = leaves = drawn(100, 4)
    before = [x.detach().clone() for x in leaves]
    with torch.no_grad():
        bare = linear.linear_attention(q, k, v, log_decay, state=state)
    assert all(torch.equal(a, b) for a, b in zip(bare, linear.linear_attention(q, k, v, log_decay, state=state), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(leaves, before, strict=True))


def test_tokens_may_lie_in_memory_in_any_order() -> None:
    tensors = [x.detach() for x in drawn(70, 4)[:4]]
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    assert torch.equal(linear.linear_attention(*swapped)[0], linear.linear_attention(*tensors)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    tensors = [x.detach().to(dtype) for x in drawn(100, 4)[:4]]
    o, last = linear.linear_attention(*tensors)
    want, _ = linear.linear_attention(*(x.float() for x in tensors))
    assert (o.dtype, last.dtype) == (dtype, torch.float32)
    torch.testing.assert_close(o, want.to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("carry", [1.0, "row", "all"])
def test_states_are_those_met_on_the_way(carry: Any, backwards: bool) -> None:
    add, first = torch.randn(2, 4, 3, 5, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)
    left = {"row": torch.rand(2, 4, 3, 1, dtype=torch.float64), "all": torch.rand(2, 1, 1, 1, dtype=torch.float64)}.get(carry)
    met, last = between.states(carry if left is None else left, add, first, backwards=backwards)
    state, by_chunk = first, torch.ones(1) if left is None else left.expand(-1, 4, -1, -1)
    for n in reversed(range(4)) if backwards else range(4):
        torch.testing.assert_close(met[:, n], state)
        state = (state if left is None else by_chunk[:, n] * state) + add[:, n]
    torch.testing.assert_close(last, state)
    assert (between.states(1.0, add)[0][:, 0] == 0).all()


@given(N=st.integers(0, 500), rows=st.integers(1, 40), D=st.integers(1, 300), chunk=st.integers(1, 600))
def test_parts_cover_each_token_once_in_whole_chunks(N: int, rows: int, D: int, chunk: int) -> None:
    walk = parts.parts(torch.empty(rows, N, D, device="meta"), 7, chunk)
    assert [t for part in walk for t in range(part.start, part.stop)] == list(range(N))
    assert all((part.stop - part.start) % part.L == 0 for part in walk)
    assert [x for some in parts.groups(rows, False) for x in range(rows)[some]] == list(range(rows))


@pytest.mark.parametrize("gates", [1, 16])
def test_memory_grows_with_the_length_and_not_with_its_square(gates: int) -> None:
    def peak(N: int) -> float:
        q, k, v, log_decay = (x.float().detach().requires_grad_() for x in drawn(N, gates, 0.1, B=1, H=1, D=16, M=16)[:4])
        g = torch.randn(1, 1, N, 16)

        def call() -> object:
            return torch.autograd.grad(linear.linear_attention(q, k, v, log_decay)[0], (q, k, v, log_decay), g)

        found = torch_profiler_peak(call).bytes
        assert found is not None
        return found / N

    assert peak(2**15) < peak(2**13)
    assert peak(2**15) < 8 * 3 * 16 * 4


@pytest.mark.parametrize("chunk", [0, 2.0, True])
def test_a_chunk_is_a_number_of_tokens(chunk: Any) -> None:
    with pytest.raises(ValueError, match=r"chunk=.*1 or more"):
        parts.refuse_bad_chunk(chunk)
