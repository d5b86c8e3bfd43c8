"""The delta rules and RWKV-7: what they compute, whatever the chunks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell
from attnbench.registry import load

RULES = ["delta.deltanet", "delta.gated_deltanet", "delta.kda"]
ALL = [*RULES, "delta.rwkv7"]


def method_of(name: str, params: dict[str, Any] | None = None, **shape: Any) -> Any:
    return build(
        name, Problem(**{"B": 2, "H": 2, "N": 65, "D": 8, "causal": True, "dtype": "float64", **shape}), **params or {}
    )


def by_tokens(name: str, inputs: Any, scale: float) -> Tensor:
    """The recurrences as the papers print them, one token after the other, a matrix for each transition."""
    q, k, v, *rest = inputs
    S, outputs = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[2]):
        q_t, k_t, v_t, *gates = (x[:, :, t].unsqueeze(-1) for x in (q, k, v, *rest))
        if name == "delta.rwkv7":
            w, a, b = gates
            S = (w.exp() * torch.eye(q.shape[-1], dtype=q.dtype) + b @ a.mT) @ S + k_t @ v_t.mT
        else:
            beta, log_decay = gates[0].unsqueeze(-1), gates[1] if len(gates) > 1 else torch.zeros_like(gates[0])
            log_decay = log_decay if log_decay.dim() == 4 else log_decay.unsqueeze(-1)
            S = log_decay.exp() * S
            S = S - beta * k_t @ (k_t.mT @ S) + beta * k_t @ v_t.mT
        outputs.append(scale * (S.mT @ q_t).squeeze(-1))
    return torch.stack(outputs, 2)


def same(a: Any, b: Any, atol: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("N", [1, 2, 63, 64, 257])
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, N: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = method_of(name, B=1, N=N, M=5)
    inputs, g = inputs_of(method), gradient_of(method)
    same(evaluate(method, "forward", inputs, g), evaluate(method, "reference", inputs, g))


@pytest.mark.parametrize("N", [1, 2, 37])
@pytest.mark.parametrize("name", ALL)
def test_the_definition_is_the_recurrence_of_the_paper(name: str, N: int, inputs_of: Any, gradient_of: Any) -> None:
    method = method_of(name, N=N, M=5)
    inputs, g = inputs_of(method), gradient_of(method)
    want, got = by_tokens(name, inputs, method.scale), method.reference(*inputs)
    same(got, want, 1e-12)
    same(torch.autograd.grad(got, inputs, g), torch.autograd.grad(want, inputs, g))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(ALL),
    sizes=st.tuples(*[st.integers(1, 4)] * 4),
    N=st.integers(1, 90),
    chunk=st.integers(1, 70),
    tokens=st.sampled_from([1, 64, 4096]),
    rows=st.sampled_from([1, 3, 8]),
)
def test_no_cut_into_chunks_parts_and_groups_changes_values_or_gradients(
    name: str, sizes: tuple[int, ...], N: int, chunk: int, tokens: int, rows: int
) -> None:
    B, H, D, M = sizes
    method = method_of(name, {"chunk": chunk}, B=B, H=H, N=N, D=D, M=M)
    inputs = [x.requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(N))]
    g = torch.randn(B, H, N, M, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnbench_impls.recurrence.parts.TOKENS", tokens)
        patch.setattr("attnbench_impls.recurrence.parts.ROWS_TOGETHER", rows)
        o = method(*inputs)
        gradients = torch.autograd.grad(o, inputs, g)
    want = method.reference(*inputs)
    same(o, want)
    same(gradients, torch.autograd.grad(want, inputs, g))


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_that_of_finite_differences(name: str, inputs_of: Any) -> None:
    method = method_of(name, {"chunk": 3}, B=1, H=1, N=5, D=2, M=3)
    assert torch.autograd.gradcheck(method, inputs_of(method))


@pytest.mark.parametrize("name", ALL)
def test_a_second_backward_gives_the_same_gradients(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    loss = method(*inputs).square().sum()
    once = torch.autograd.grad(loss, inputs, retain_graph=True)
    same(torch.autograd.grad(loss, inputs), once, 0)


@pytest.mark.parametrize("name", ALL)
def test_the_scale_is_a_factor(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    assert method.scale == pytest.approx(1 if name == "delta.rwkv7" else 8**-0.5)
    same(method_of(name, {"scale": 3 * method.scale})(*inputs), 3 * method(*inputs), 1e-12)


class TestIdentities:
    def test_orthonormal_keys_are_linear_attention(self) -> None:
        method = method_of("delta.deltanet", N=8)
        q, _, v, _ = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
        k = torch.linalg.qr(torch.randn(2, 2, 8, 8, dtype=torch.float64))[0]
        o = method(q, k, v, torch.ones(2, 2, 8, dtype=torch.float64))
        same(o, method.scale * (q @ k.mT).tril() @ v, 1e-12)

    def test_a_key_written_twice_with_full_strength_keeps_the_last_value(self) -> None:
        method = method_of("delta.deltanet", {"scale": 1.0}, N=2)
        _, k, v, beta = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
        k = k[:, :, :1].expand(-1, -1, 2, -1)
        same(method(k, k, v, torch.ones_like(beta)), v, 1e-12)

    def test_without_decay_the_gated_rule_is_deltanet(self, inputs_of: Any) -> None:
        gated, plain = method_of("delta.gated_deltanet"), method_of("delta.deltanet")
        *inputs, g = inputs_of(gated)
        same(gated(*inputs, torch.zeros_like(g)), plain(*inputs), 1e-12)

    def test_one_decay_for_all_rows_of_the_state_is_the_gated_rule(self, inputs_of: Any) -> None:
        gated, kda = method_of("delta.gated_deltanet"), method_of("delta.kda")
        *inputs, g = inputs_of(gated)
        same(kda(*inputs, g.unsqueeze(-1).expand(-1, -1, -1, 8)), gated(*inputs, g), 1e-12)

    def test_rwkv7_with_the_step_of_the_delta_rule_is_kda(self, inputs_of: Any) -> None:
        kda, rwkv7 = method_of("delta.kda"), method_of("delta.rwkv7", {"scale": 8**-0.5})
        q, k, v, beta, g = inputs_of(kda)
        step = beta.unsqueeze(-1) * k
        # (I - step kᵀ) Diag(α) = Diag(α) - step (α k)ᵀ
        same(rwkv7(q, step, v, g, g.exp() * k, -step), kda(q, k, v, beta, g), 1e-12)

    def test_without_a_low_rank_step_rwkv7_is_gated_linear_attention(self, inputs_of: Any) -> None:
        method = method_of("delta.rwkv7", N=70)
        r, k, v, w, _, b = inputs_of(method)
        c = w.cumsum(2)
        scores = torch.einsum("bhid,bhjd,bhijd->bhij", r, k, (c.unsqueeze(3) - c.unsqueeze(2)).clamp(max=0).exp())
        same(method(r, k, v, w, torch.zeros_like(b), b), scores.tril() @ v, 1e-12)


@pytest.mark.parametrize(("nats", "dtype"), [(3.0, "float32"), (100.0, "float32"), (100.0, "float64"), (1e4, "float64")])
@pytest.mark.parametrize("name", ["delta.gated_deltanet", "delta.kda", "delta.rwkv7"])
def test_however_fast_the_state_fades_nothing_overflows(
    name: str, nats: float, dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = method_of(name, B=1, N=130, dtype=dtype)
    inputs = list(inputs_of(method))
    at = 3 if name == "delta.rwkv7" else 4
    # every token of every other row of the state, or every other token
    faster = torch.ones_like(inputs[at])
    faster[..., ::2] = nats
    inputs[at] = (inputs[at].detach() * faster).requires_grad_()
    g = gradient_of(method)
    got, want = evaluate(method, "forward", inputs, g), evaluate(method, "reference", inputs, g)
    for x, y in zip(got, want, strict=True):
        same(x, y, (1e-9 if dtype == "float64" else 2e-3) * max(1.0, float(y.abs().max())))


@pytest.mark.parametrize("t", [1, 63, 64, 100])
@pytest.mark.parametrize("name", ALL)
def test_the_future_changes_nothing_before_it(name: str, t: int, inputs_of: Any) -> None:
    method = method_of(name, B=1, N=150)
    inputs = [x.detach() for x in inputs_of(method)]
    o = method(*inputs)
    for x in inputs:
        x[:, :, t:] = x[:, :, t:].flip(2) / 2
    changed = method(*inputs)
    same(changed[:, :, :t], o[:, :, :t], 1e-12)
    assert not torch.equal(changed[:, :, t:], o[:, :, t:])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ALL)
def test_permuted_samples_or_heads_come_out_permuted(name: str, dim: int, inputs_of: Any) -> None:
    method, order = method_of(name, B=3, H=3), torch.tensor([2, 0, 1])
    inputs = inputs_of(method)
    permuted = method(*(x.index_select(dim, order) for x in inputs))
    same(permuted, method(*inputs).index_select(dim, order), 1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_rounded_once(name: str, dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = method_of(name, dtype=dtype, N=100)
    inputs, g = inputs_of(method), gradient_of(method)
    exact = method_of(name, N=100)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    eps = torch.finfo(getattr(torch, dtype)).eps
    for x, y in zip(evaluate(method, "forward", inputs, g), evaluate(exact, "forward", wide, g.double()), strict=True):
        assert x.dtype is inputs[0].dtype
        same(x.double(), y, eps * float(y.abs().max()))


class TestInputs:
    @pytest.mark.parametrize("name", RULES)
    def test_keys_have_length_one_and_strengths_lie_between_nothing_and_all(self, name: str, inputs_of: Any) -> None:
        q, k, _, beta, *log_decay = inputs_of(method_of(name))
        for x in (q, k):
            same(x.norm(dim=-1), torch.ones_like(beta), 1e-12)
        assert ((beta > 0) & (beta < 1)).all()
        assert all((g < 0).all() for g in log_decay)

    def test_the_step_of_rwkv7_points_back_along_its_key(self, inputs_of: Any) -> None:
        _, _, _, w, a, b = inputs_of(method_of("delta.rwkv7"))
        assert ((w < 0) & (w > -0.61)).all()
        same(a.norm(dim=-1), torch.ones_like(a[..., 0]), 1e-12)
        assert ((-b / a > 0) & (-b / a < 1)).all()

    @pytest.mark.parametrize("name", ALL)
    def test_all_methods_of_a_shape_see_the_same_values(self, name: str, inputs_of: Any) -> None:
        same(inputs_of(method_of(name))[2], inputs_of(method_of("linear.chunked"))[2], 0)


@pytest.mark.parametrize("name", ALL)
def test_what_it_cannot_do_it_says(name: str) -> None:
    refuse = load(name).refusal
    assert "causal" in (refuse(Cell(method=name, problem=Problem(N=8))) or "")
    assert "kv_heads" in (refuse(Cell(method=name, problem=Problem(N=8, causal=True, kv_heads=2))) or "")
    assert refuse(Cell(method=name, problem=Problem(N=8, causal=True))) is None


@pytest.mark.parametrize("params", [{"chunk": 0}, {"chunk": 2.5}, {"chunk": True}, {"scale": float("inf")}, {"scale": "1"}])
@pytest.mark.parametrize("name", ALL)
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
        method_of(name, params)
