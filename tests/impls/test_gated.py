"""Gated linear attentions against their dense definitions, each other, and token by token."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import load

METHODS = ["gated.retnet", "gated.lightning", "gated.mamba2", "gated.gla", "gated.hgrn2"]
LIGHTNINGS: list[dict[str, Any]] = [{"slopes": "fla"}, {"slopes": "fla", "layer": 3, "layers": 4}, {"layer": 1, "layers": 3}]
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS),
    *(("gated.lightning", params) for params in LIGHTNINGS),
    ("gated.hgrn2", {"lower_bound": 0.3}),
    *((name, {"chunk": 16}) for name in METHODS),
]


def method_of(name: str, params: dict[str, Any] | None = None, **shape: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 3, "N": 40, "D": 6, "M": 5, "causal": True, "dtype": "float64", **shape})
    return build(name, problem, **(params or {})).to(getattr(torch, problem.dtype))


def part(inputs: Any, start: int, stop: int) -> list[Tensor]:
    return [x.detach()[:, :, start:stop] for x in inputs]


def everything(method: Any, function: Any, inputs: Any, g: Tensor) -> list[Tensor]:
    """The output, and the gradients of inputs and parameters."""
    o = function(*inputs)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


@pytest.mark.parametrize("N", [1, 2, 63, 64, 257])
@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, inputs_of: Any, gradient_of: Any
) -> None:
    method = method_of(name, params, N=N)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (everything(method, function, inputs, g) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def recurrence(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """S <- keep S + k vᵀ, o = Sᵀ q, token by token; keep [B, H, N, D or 1]."""
    state, outputs = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]), []
    for t in range(q.shape[2]):
        state = keep[:, :, t, :, None] * state + k[:, :, t, :, None] * v[:, :, t, None]
        outputs.append((state * q[:, :, t, :, None]).sum(2))
    return torch.stack(outputs, 2)


def as_published(name: str, inputs: Any, method: Any) -> Tensor:
    """Each method from its paper's symbols, shared with nothing of the implementation."""
    q, k, v = inputs[:3]
    H, one = q.shape[1], torch.ones(*q.shape[:3], 1, dtype=torch.float64)
    heads = torch.arange(H, dtype=torch.float64).view(1, H, 1, 1)
    if name == "gated.retnet":
        return recurrence(q, k, v, (1 - 2 ** (-5 - heads)) * one) / 6**0.5
    if name == "gated.lightning":
        return recurrence(q, k, v, torch.exp(-(2 ** (-8 * (heads + 1) / H)) * (1 + 1e-5)) * one)
    if name == "gated.mamba2":
        step, rate = inputs[3].unsqueeze(-1), method.A_log.exp().view(1, H, 1, 1)
        return recurrence(q, step * k, v, torch.exp(-step * rate))
    if name == "gated.gla":
        return recurrence(q, k, v, inputs[3].exp()) / 6**0.5
    forget = 1 / (1 + torch.exp(-k))
    return recurrence(q, 1 - forget, v, forget)


@pytest.mark.parametrize("name", METHODS)
def test_the_definition_is_the_recurrence_of_the_paper(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    torch.testing.assert_close(method.reference(*inputs), as_published(name, inputs, method), rtol=0, atol=1e-12)


@pytest.mark.parametrize("start", [0, 1, 23])
@pytest.mark.parametrize(("name", "params"), CASES[:-5], ids=str)
def test_token_by_token_is_the_definition(name: str, params: dict[str, Any], start: int, inputs_of: Any) -> None:
    method = method_of(name, params)
    inputs = inputs_of(method)
    with torch.no_grad():
        o, state = method.prefill(*part(inputs, 0, start), capacity=40)
        outputs = [o]
        for t in range(start, 40):
            o, state = method.step(*part(inputs, t, t + 1), state=state)
            outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, 2), method.reference(*inputs).detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_a_sequence_in_parts_that_carry_the_state_on_is_the_whole(name: str, inputs_of: Any) -> None:
    method = method_of(name, N=150)
    inputs = inputs_of(method)
    with torch.no_grad():
        first, state = method.prefill(*part(inputs, 0, 65), capacity=150)
        second, state = method.extend(*part(inputs, 65, 150), state=state)
        torch.testing.assert_close(torch.cat([first, second], 2), method(*inputs), rtol=0, atol=1e-10)
        torch.testing.assert_close(state.sums, method.prefill(*inputs, capacity=150)[1].sums, rtol=0, atol=1e-10)


@pytest.mark.parametrize("t", [1, 63, 64, 100])
@pytest.mark.parametrize("name", METHODS)
def test_the_future_changes_nothing_before_it(name: str, t: int, inputs_of: Any) -> None:
    # so short that blocks never depend on the decays
    method = method_of(name, {"chunk": 32}, N=150, dtype="float32")
    inputs = [x.detach() for x in inputs_of(method)]
    with torch.no_grad():
        o = method(*inputs)
        for x in inputs:
            x[:, :, t:] = x[:, :, t:].flip(2) / 2
        changed = method(*inputs)
    assert torch.equal(changed[:, :, :t], o[:, :, :t])
    assert not torch.equal(changed[:, :, t:], o[:, :, t:])


def test_a_future_that_decays_faster_moves_no_more_than_the_last_bits_before_it(inputs_of: Any) -> None:
    method = method_of("gated.gla", N=64)
    inputs = [x.detach() for x in inputs_of(method)]
    o = method(*inputs)
    # blocks get shorter for all tokens of these chunks
    inputs[3][:, :, 40:] *= 1e4
    torch.testing.assert_close(method(*inputs)[:, :, :40], o[:, :, :40], rtol=0, atol=1e-12)


def test_retnet_is_mamba2_with_a_constant_step(inputs_of: Any) -> None:
    retnet, mamba = method_of("gated.retnet"), method_of("gated.mamba2")
    q, k, v = inputs_of(retnet)
    gamma = 1 - 2.0 ** (-5 - torch.arange(3, dtype=torch.float64))
    mamba.A_log.data = (-gamma.log() / 0.1).log()
    steps = torch.full((2, 3, 40), 0.1, dtype=torch.float64)
    torch.testing.assert_close(mamba(q / 6**0.5, k / 0.1, v, steps), retnet(q, k, v), rtol=0, atol=1e-10)


def test_gla_with_the_same_decay_in_all_rows_is_mamba2(inputs_of: Any) -> None:
    mamba, gla = method_of("gated.mamba2"), method_of("gated.gla")
    q, k, v, steps = inputs_of(mamba)
    log_decay = (steps * -mamba.A_log.exp().view(1, 3, 1)).unsqueeze(-1).expand(-1, -1, -1, 6)
    got = gla(q * 6**0.5, k * steps.unsqueeze(-1), v, log_decay)
    torch.testing.assert_close(got, mamba(q, k, v, steps), rtol=0, atol=1e-10)


def test_without_decay_gla_is_linear_attention_without_its_denominator(inputs_of: Any) -> None:
    method = method_of("gated.gla", N=130)
    q, k, v, _ = inputs_of(method)
    torch.testing.assert_close(method(q, k, v, torch.zeros_like(k)), (q @ k.mT).tril() @ v / 6**0.5, rtol=0, atol=1e-10)


def test_hgrn2_is_gla_whose_keys_are_what_is_forgotten(inputs_of: Any) -> None:
    hgrn2, gla = method_of("gated.hgrn2", {"lower_bound": 0.2}), method_of("gated.gla")
    q, x, v = inputs_of(hgrn2)
    forget = 0.2 + 0.8 * x.sigmoid()
    torch.testing.assert_close(hgrn2(q, x, v), gla(q * 6**0.5, 1 - forget, v, forget.log()), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_chunks_of_any_length_give_the_same(name: str, inputs_of: Any) -> None:
    one = method_of(name, N=100)
    inputs, parameters = inputs_of(one), one.state_dict()
    for chunk in (1, 7, 33, 200):
        other = method_of(name, {"chunk": chunk}, N=100)
        other.load_state_dict(parameters)
        torch.testing.assert_close(other(*inputs), one(*inputs), rtol=0, atol=1e-10)


def test_decays_that_would_overflow_when_inverted_stay_right(inputs_of: Any, gradient_of: Any) -> None:
    method = method_of("gated.gla", N=130, dtype="float32")
    inputs, g = [x.detach() for x in inputs_of(method)], gradient_of(method)
    inputs[3] *= 400
    inputs = [x.requires_grad_() for x in inputs]
    got = everything(method, method, inputs, g)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    want = everything(method, method.reference, wide, g.double())
    torch.testing.assert_close([x.double() for x in got], want, rtol=1e-4, atol=1e-4)


def test_hgrn2_that_forgets_all_or_nothing_stays_finite(inputs_of: Any, gradient_of: Any) -> None:
    method = method_of("gated.hgrn2", N=70, dtype="float32")
    q, x, v = (y.detach() for y in inputs_of(method))
    for logits in (x * 100, x.abs() * 100, -x.abs() * 100):
        leaves = [y.clone().requires_grad_() for y in (q, logits, v)]
        assert all(y.isfinite().all() for y in everything(method, method, leaves, gradient_of(method)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", METHODS)
def test_half_precision_comes_out_as_it_went_in(name: str, dtype: str, inputs_of: Any, gradient_of: Any) -> None:
    method = method_of(name, N=100, dtype=dtype)
    inputs, g = inputs_of(method), gradient_of(method)
    got = everything(method, method, inputs, g)
    want = everything(method.double(), method.reference, [x.detach().double().requires_grad_() for x in inputs], g.double())
    for a, b in zip(got, want, strict=True):
        assert a.dtype == getattr(torch, dtype)
        assert float((a.double() - b).abs().max()) < 0.02 * float(b.abs().max())


@pytest.mark.parametrize("name", METHODS)
def test_states_are_at_least_float32_and_of_one_size(name: str, inputs_of: Any) -> None:
    method = method_of(name, dtype="bfloat16")
    inputs = inputs_of(method)
    with torch.no_grad():
        for n in (0, 1, 40):
            o, state = method.prefill(*part(inputs, 0, n), capacity=40)
            assert (o.shape[2], o.dtype, state.sums.dtype) == (n, torch.bfloat16, torch.float32)
            assert method.state_bytes(state) == 2 * 3 * 6 * 5 * 4
        o, _ = method.step(*part(inputs, 0, 1), state=state)
    assert (o.shape, o.dtype) == ((2, 3, 1, 5), torch.bfloat16)


def test_fixed_decays_are_not_rounded_to_the_inputs_dtype() -> None:
    q = torch.empty(1, 8, 1, 4, dtype=torch.bfloat16)
    retnet = method_of("gated.retnet", H=8, dtype="bfloat16")
    assert retnet.terms(q, q, q).log_decay.dtype is torch.float32
    torch.testing.assert_close(retnet.terms(q, q, q).log_decay.exp().flatten()[-1], torch.tensor(1 - 2.0**-12))


def test_slopes_are_those_of_their_models() -> None:
    h, q = torch.arange(8.0), torch.empty(1, 8, 1, 4)
    fla = method_of("gated.lightning", {"slopes": "fla", "layer": 1, "layers": 4}, H=8).log_decay(q).flatten()
    torch.testing.assert_close(fla, -0.75 * h)
    minimax = method_of("gated.lightning", {"layer": 2, "layers": 5}, H=8).log_decay(q).flatten()
    torch.testing.assert_close(minimax, -0.5 * 2 ** (-(h + 1)), rtol=1e-4, atol=0)


def test_inputs_are_those_of_all_methods_and_gates_on_top() -> None:
    for name, more in zip(METHODS, [(), (), ((2, 3, 40),), ((2, 3, 40, 6),), ()], strict=True):
        problem = method_of(name).problem
        first, second = (load(n).inputs(problem, torch.Generator().manual_seed(3)) for n in ("softmax.naive", name))
        assert all(torch.equal(a, b) for a, b in zip(first, second[:3], strict=True))
        assert tuple(tuple(x.shape) for x in second[3:]) == more


@pytest.mark.parametrize("name", METHODS)
def test_limits_are_said_in_words(name: str) -> None:
    def refusal(**shape: Any) -> str:
        return load(name).refusal(Cell(method=name, problem=Problem(**{"N": 64, "causal": True, **shape}))) or ""

    assert refusal() == ""
    assert "no form without a mask" in refusal(causal=False)
    assert "kv_heads must equal H" in refusal(kv_heads=2)
    assert "no key mask" in refusal(padding=0.5)


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        *((name, {"chunk": 0}, "chunk=0") for name in METHODS),
        ("gated.lightning", {"slopes": "steep"}, "slopes='steep'"),
        ("gated.lightning", {"layer": 2, "layers": 2}, "layer=2"),
        ("gated.hgrn2", {"lower_bound": 1.0}, r"lower_bound=1\.0"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any], words: str) -> None:
    problem = Problem(N=8, causal=True)
    with pytest.raises(ValueError, match=f"{words}.*must be"):
        build(name, problem, **params)
    with pytest.raises(ValueError, match=words):
        load(name).cost(problem, params, Workload.FORWARD)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(problem, {"colour": 1}, Workload.FORWARD)


@pytest.mark.cuda
@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_computes_the_same(name: str, inputs_of: Any, gradient_of: Any) -> None:
    method = method_of(name, N=1100)
    inputs, g = inputs_of(method), gradient_of(method)
    want = everything(method, method, inputs, g)
    moved = method.cuda()
    got = everything(moved, moved, [x.detach().cuda().requires_grad_() for x in inputs], g.cuda())
    torch.testing.assert_close([x.cpu() for x in got], want, rtol=0, atol=1e-10)
