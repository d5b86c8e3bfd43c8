"""Attention over quantised keys: by blocks and tables it is the dense softmax, with the gradients of the paper."""

import math
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.api import Causality, Cell

blockwise: Any = import_module("attnbench_impls.vq.blockwise")
block_attention: Any = import_module("attnbench_impls.vq.block_attention")
gau: Any = import_module("attnbench_impls.vq.gau")
quantised: Any = import_module("attnbench_impls.vq.quantised")
codebooks: Any = import_module("attnbench_impls.vq.codebook")
softmax: Any = import_module("attnbench_impls.partial.softmax")

Blockwise, Gated, Quantised = blockwise.BlockwiseVQ, gau.GatedVQ, quantised.QuantisedSoftmax
EXACTLY: dict[str, Any] = {"rtol": 0, "atol": 1e-10}


def build(N: int, method: Any = Blockwise, shape: dict[str, Any] | None = None, **params: Any) -> Any:
    """A small method, whose codes are few and whose parameters are not at their start."""
    problem = Problem(**{"B": 2, "H": 2, "N": N, "D": 8, "M": 5, "dtype": "float64", "causal": True, **(shape or {})})
    few = {} if method is Quantised else {"block": 8}
    made = method(problem, **{"codes": 6, **few, **params}).to(getattr(torch, problem.dtype))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def evaluate(method: Any, function: str, inputs: tuple[Tensor, ...], g: Tensor, choices: Tensor | None = None) -> list[Tensor]:
    """The output and the gradients of inputs and parameters."""
    o = (method if function == "forward" else getattr(method, function))(*inputs, choices=choices)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


def theorem_3_7(q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor, L: int) -> Tensor:
    """Query by query: codes weighted by log counts with the means of their values, and the keys of two blocks."""
    outputs = []
    for i in range(q.shape[0]):
        old, logits, values = max(0, i // L - 1) * L, [], []
        for s in range(len(codebook)):
            with_code = codes[:old] == s
            if count := int(with_code.sum()):
                logits.append(q[i] @ codebook[s] + math.log(count))
                values.append(v[:old][with_code].mean(0))
        for j in range(old, i + 1):
            logits.append(q[i] @ k_hat[j])
            values.append(v[j])
        outputs.append(torch.stack(logits).softmax(0) @ torch.stack(values))
    return torch.stack(outputs)


def theorem_3_4(q: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
    """All keys by their codes, weighted by log counts."""
    used = codes.unique()
    counts = torch.stack([(codes == s).sum().double() for s in used])
    means = torch.stack([v[codes == s].mean(0) for s in used])
    return (q @ codebook[used].mT + counts.log()).softmax(-1) @ means


class TestTheDefinition:
    @pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
    @pytest.mark.parametrize("bias", ["none", "relative"])
    @pytest.mark.parametrize("N", [1, 2, 7, 8, 9, 16, 17, 63, 64])
    def test_values_and_gradients_are_those_of_the_reference(
        self, N: int, bias: str, reduction: str, inputs_of: Any, gradient_of: Any
    ) -> None:
        method = build(N, bias=bias, reduction=reduction)
        inputs, g = inputs_of(method), gradient_of(method)
        choices = method.choose(*inputs)
        want = evaluate(method, "reference", inputs, g, choices)
        torch.testing.assert_close(evaluate(method, "forward", inputs, g, choices), want, **EXACTLY)
        torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, **EXACTLY)

    @pytest.mark.parametrize("bias", ["none", "relative"])
    @pytest.mark.parametrize("method", [Blockwise, Gated])
    def test_so_they_are_without_a_fused_kernel_and_in_the_smallest_portions(
        self, method: Any, bias: str, inputs_of: Any, gradient_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (softmax, block_attention):
            monkeypatch.setattr(module, "is_fused", lambda _: False)
        for room in ("ROOM", "TOKENS", "TILE"):
            monkeypatch.setattr(block_attention, room, 1)
        method = build(45, method, bias=bias)
        inputs, g = inputs_of(method), gradient_of(method)
        want = evaluate(method, "reference", inputs, g)
        torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, **EXACTLY)

    @pytest.mark.parametrize("through_table", [False, True])
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("method", [Blockwise, Gated, Quantised])
    def test_so_are_those_of_every_method(
        self, method: Any, causal: bool, through_table: bool, inputs_of: Any, gradient_of: Any
    ) -> None:
        params = {} if method is Quantised else {"gradient_through_table": through_table}
        for M in (5, 8, 12):
            made = build(37, method, {"causal": causal, "M": M}, normalise=M == 5, tau=1.5, **params)
            inputs, g = inputs_of(made), gradient_of(made)
            want = evaluate(made, "reference", inputs, g)
            torch.testing.assert_close(evaluate(made, "forward", inputs, g), want, **EXACTLY)

    @given(
        N=st.integers(1, 70),
        block=st.integers(1, 80),
        codes=st.integers(1, 40),
        bias=st.sampled_from(["none", "relative"]),
        reduction=st.sampled_from(["serial", "matmul", "scan"]),
    )
    @settings(max_examples=40, deadline=None)
    def test_any_length_any_block_any_number_of_codes(self, N: int, block: int, codes: int, bias: str, reduction: str) -> None:
        method = build(N, shape={"B": 1}, block=block, codes=codes, bias=bias, reduction=reduction)
        inputs = tuple(x.requires_grad_() for x in Blockwise.inputs(method.problem, torch.Generator().manual_seed(N)))
        g = torch.randn(1, 2, N, 5, dtype=torch.float64)
        want = evaluate(method, "reference", inputs, g)
        torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, **EXACTLY)

    @pytest.mark.parametrize("function", ["forward", "reference"])
    @pytest.mark.parametrize("through_table", [False, True])
    def test_it_is_theorem_3_7_with_its_gradients(
        self, through_table: bool, function: str, inputs_of: Any, gradient_of: Any
    ) -> None:
        method = build(29, gradient_through_table=through_table)
        inputs, g = inputs_of(method), gradient_of(method)
        got = evaluate(method, function, inputs, g)
        q, k, v = inputs
        codes, codebook = method.choose(*inputs), method.codebook.vectors.double()
        k_hat = codebooks.rows_of(codebook, codes)
        q, k = (F.rms_norm(x, (8,), eps=1e-6) / 8**0.25 for x in (q, k))
        k_hat = k_hat + k - k.detach()
        rows = [[theorem_3_7(q[b, h], k_hat[b, h], v[b, h], codes[b, h], codebook[h], 8) for h in (0, 1)] for b in (0, 1)]
        want = torch.stack([torch.stack(row) for row in rows])
        torch.testing.assert_close(got[0], want.detach(), **EXACTLY)
        dq, dk, dv = torch.autograd.grad(want, inputs, g)
        torch.testing.assert_close(got[1:3], [dq, dk], **EXACTLY)
        if through_table:
            torch.testing.assert_close(got[3], dv, **EXACTLY)

    @pytest.mark.parametrize("method", [Blockwise, Quantised])
    def test_without_a_mask_it_is_theorem_3_4(self, method: Any, inputs_of: Any) -> None:
        made = build(29, method, {"causal": False}, normalise=False)
        q, k, v = inputs = inputs_of(made)
        codes, codebook = made.choose(*inputs), made.codebook.vectors.double()
        rows = [[theorem_3_4(q[b, h] / 8**0.25, v[b, h], codes[b, h], codebook[h]) for h in (0, 1)] for b in (0, 1)]
        torch.testing.assert_close(made(q, k, v), torch.stack([torch.stack(row) for row in rows]), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("function", ["forward", "reference"])
    def test_positions_are_seen_up_to_a_block_away(self, function: str, inputs_of: Any) -> None:
        method = build(40, shape={"B": 1, "H": 1}, bias="relative")
        q, _, v = inputs = inputs_of(method)
        got = getattr(method, function)(*inputs)[0, 0]
        q, at = F.rms_norm(q, (8,), eps=1e-6)[0, 0] / 8**0.25, method.position
        k_hat = codebooks.rows_of(method.codebook.vectors.double(), method.choose(*inputs))[0, 0]
        waves = 1e5 ** (-torch.arange(4.0, dtype=torch.float64) / 4)
        for i in range(40):
            scores = (q[i] + at.u[0] / 8**0.25) @ k_hat[: i + 1].mT
            for j in range(max(0, i - 8), i + 1):
                r = at.w[0] @ torch.cat(((waves * (i - j)).sin(), (waves * (i - j)).cos())) / 8**0.25
                scores = scores + F.one_hot(torch.tensor(j), i + 1) * ((q[i] + at.v[0] / 8**0.25) @ r)
            torch.testing.assert_close(got[i], scores.softmax(0) @ v[0, 0, : i + 1], **EXACTLY)


class TestIdentities:
    @pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
    def test_the_length_of_a_block_changes_nothing(self, reduction: str, inputs_of: Any) -> None:
        methods = [build(75, block=block, reduction=reduction) for block in (1, 2, 5, 8, 25, 37, 74, 75, 76, 200)]
        inputs = inputs_of(methods[0])
        for method in methods:
            method.codebook = methods[0].codebook
            torch.testing.assert_close(method(*inputs), methods[0].reference(*inputs), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("normalise", [False, True])
    def test_with_the_keys_for_codes_it_is_softmax_attention(self, normalise: bool, causal: bool, inputs_of: Any) -> None:
        method = build(40, shape={"B": 1, "causal": causal}, codes=40, normalise=normalise)
        q, k, v = inputs = inputs_of(method)
        method.codebook = codebooks.Codebook(method.normalised(k)[0])
        assert torch.equal(method.choose(*inputs), torch.arange(40).expand(1, 2, 40))
        torch.testing.assert_close(method(*inputs), method.exact(*inputs), rtol=0, atol=1e-12)
        if not normalise:
            want = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            torch.testing.assert_close(method(*inputs), want, rtol=0, atol=1e-12)

    def test_codes_that_no_key_has_are_not_seen_however_many(self, inputs_of: Any) -> None:
        # more of them than a kernel takes keys at a time, and the first ones
        method = build(40, shape={"B": 1}, codes=1400)
        inputs = inputs_of(method)
        far = method.codebook.vectors.clone()
        far[:, :1300] = 1e3
        method.codebook = codebooks.Codebook(far)
        assert int(method.choose(*inputs).min()) >= 1300
        torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-12)

    def test_scores_of_any_size_are_stable(self, inputs_of: Any) -> None:
        method = build(60, tau=1e-3)
        inputs = inputs_of(method)
        torch.testing.assert_close(method(*inputs), method.reference(*inputs), **EXACTLY)

    def test_the_last_causal_row_is_that_without_a_mask(self, inputs_of: Any) -> None:
        causal, whole = build(50), build(50, shape={"causal": False})
        causal.codebook = whole.codebook
        inputs = inputs_of(causal)
        torch.testing.assert_close(causal(*inputs)[:, :, -1], whole(*inputs)[:, :, -1], rtol=0, atol=1e-12)

    def test_samples_and_heads_do_not_mix(self, inputs_of: Any) -> None:
        method, order = build(30, bias="relative"), torch.tensor([1, 0])
        inputs = inputs_of(method)
        samples = method(*(x[order] for x in inputs))
        torch.testing.assert_close(samples, method(*inputs)[order], rtol=0, atol=1e-12)
        want = method(*inputs)[:, order]
        method.codebook = codebooks.Codebook(method.codebook.vectors[order])
        for parameter in method.parameters():
            parameter.data = parameter.data[order]
        torch.testing.assert_close(method(*(x[:, order] for x in inputs)), want, rtol=0, atol=1e-12)


class TestGradients:
    """Keys of the window get theirs as if they were not quantised; in the table only values do."""

    def gradients(self, inputs_of: Any, since: int, **params: Any) -> tuple[Tensor, ...]:
        method = build(64, **params)
        inputs = inputs_of(method)
        loss = method(*inputs)[:, :, since:].square().sum()
        gradients: tuple[Tensor, ...] = torch.autograd.grad(loss, inputs)
        return gradients

    def test_keys_in_the_table_get_none_and_their_values_do(self, inputs_of: Any) -> None:
        _, dk, dv = self.gradients(inputs_of, 48)
        # the first query that is differentiated is of block 6
        assert torch.equal(dk[:, :, :40], torch.zeros_like(dk[:, :, :40]))
        assert (dk[:, :, 40:].abs().amax(-1) > 0).all()
        assert (dv.abs().amax(-1) > 0).all()

    def test_values_in_the_table_get_none_where_asked(self, inputs_of: Any) -> None:
        _, _, dv = self.gradients(inputs_of, 48, gradient_through_table=False)
        assert torch.equal(dv[:, :, :40], torch.zeros_like(dv[:, :, :40]))
        assert (dv[:, :, 40:].abs().amax(-1) > 0).all()

    def test_without_a_mask_no_key_has_one(self, inputs_of: Any) -> None:
        _, dk, dv = self.gradients(inputs_of, 0, shape={"causal": False})
        assert torch.equal(dk, torch.zeros_like(dk))
        assert (dv.abs().amax(-1) > 0).all()

    def test_a_key_passes_on_the_gradient_of_its_code(self, inputs_of: Any) -> None:
        method = build(12, normalise=False, tau=1.0)
        q, k, v = inputs_of(method)
        codes, codebook = method.choose(q, k, v), method.codebook.vectors.double()
        k_hat = codebooks.rows_of(codebook, codes).requires_grad_()
        want = torch.autograd.grad(F.scaled_dot_product_attention(q, k_hat, v, is_causal=True, scale=1.0).square().sum(), k_hat)
        torch.testing.assert_close(torch.autograd.grad(method(q, k, v).square().sum(), k), want, **EXACTLY)

    def test_codes_are_no_parameters(self) -> None:
        assert [name for name, _ in build(8).named_parameters()] == []
        assert {name for name, _ in build(8, bias="relative").named_parameters()} == {"position.u", "position.v", "position.w"}

    def test_normalisation_is_differentiated_as_torch_does(self) -> None:
        assert torch.autograd.gradcheck(
            lambda x: import_module("attnbench_impls.vq.rms").rms_norm(x, 0.7),
            torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True),
        )

    def test_a_second_backward_gives_the_same(self, inputs_of: Any, gradient_of: Any) -> None:
        method = build(40, bias="relative")
        inputs, g = inputs_of(method), gradient_of(method)
        o = method(*inputs)
        first = torch.autograd.grad(o, inputs, g, retain_graph=True)
        assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(o, inputs, g), strict=True))


class TestCausality:
    @pytest.mark.parametrize("method", [Blockwise, Gated, Quantised])
    @pytest.mark.parametrize("t", [1, 7, 8, 9, 17, 40])
    def test_the_future_changes_nothing_before_it(self, method: Any, t: int, inputs_of: Any) -> None:
        made = build(50, method, {"dtype": "float32"})
        inputs = [x.detach() for x in inputs_of(made)]
        o = made(*inputs)
        for x in inputs:
            x[:, :, t:] = 3 - x[:, :, t:]
        changed = made(*inputs)
        assert torch.equal(changed[:, :, :t], o[:, :, :t])
        assert not torch.equal(changed[:, :, t:], o[:, :, t:])

    @pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
    def test_so_with_positions_and_every_reduction(self, reduction: str, inputs_of: Any) -> None:
        method = build(70, bias="relative", reduction=reduction)
        inputs = [x.detach() for x in inputs_of(method)]
        o = method(*inputs)
        for x in inputs:
            x[:, :, 43:] = 3 - x[:, :, 43:]
        torch.testing.assert_close(method(*inputs)[:, :, :43], o[:, :, :43], rtol=0, atol=1e-12)
        assert method.causality is Causality.FULL


class TestDtypes:
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
    @pytest.mark.parametrize(
        ("method", "params"), [(Blockwise, {}), (Blockwise, {"bias": "relative"}), (Gated, {}), (Quantised, {})], ids=str
    )
    def test_none_costs_more_accuracy_than_the_definition_in_it(
        self, method: Any, params: dict[str, Any], dtype: str, inputs_of: Any, gradient_of: Any
    ) -> None:
        made = build(200, method, {"D": 32, "M": 32, "dtype": dtype}, codes=20, **params)
        inputs, g = inputs_of(made), gradient_of(made)
        choices = made.choose(*inputs)
        got, eager = (evaluate(made, function, inputs, g, choices) for function in ("forward", "reference"))
        wide = tuple(x.detach().double().requires_grad_() for x in inputs)
        exact = evaluate(made.double(), "reference", wide, g.double(), choices)
        for o, e, r in zip(got, eager, exact, strict=True):
            error, allowed = ((x.double() - r).abs().max() for x in (o, e))
            assert o.dtype is getattr(torch, dtype)
            assert error <= 2 * allowed + 4 * torch.finfo(o.dtype).eps * r.abs().max()

    def test_codes_are_not_rounded_with_the_module(self) -> None:
        method = build(8, shape={"dtype": "bfloat16"})
        assert method.codebook.sums.dtype is torch.float32


class TestLimits:
    def why_not(self, method: Any = Blockwise, params: dict[str, Any] | None = None, **shape: Any) -> str:
        return method.why_not(Cell(method="x", problem=Problem(**{"N": 64, **shape}), params=params or {})) or ""

    @pytest.mark.parametrize("method", [Blockwise, Gated, Quantised])
    def test_shared_heads_are_refused_in_words(self, method: Any) -> None:
        assert "kv_heads must equal H" in self.why_not(method, kv_heads=2)
        assert not self.why_not(method, causal=True)
        assert not self.why_not(method)

    def test_positions_without_an_order_are_refused_in_words(self) -> None:
        assert "knows no positions" in self.why_not(params={"bias": "relative"})
        assert not self.why_not(params={"bias": "relative"}, causal=True)
        with pytest.raises(ValueError, match="bias='relative': must be none"):
            build(8, shape={"causal": False}, bias="relative")

    @pytest.mark.parametrize(
        "params",
        [
            {"codes": 0},
            {"codes": 2.5},
            {"block": True},
            {"tau": 0.0},
            {"tau": "big"},
            {"normalise": 1},
            {"bias": "rotary"},
            {"reduction": "sum"},
            {"gradient_through_table": "no"},
        ],
    )
    def test_a_bad_parameter_is_refused_by_name(self, params: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
            build(8, **params)
        with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
            Blockwise.cost(Problem(N=8), params, "forward")

    def test_an_unknown_parameter_is_a_type_error(self) -> None:
        with pytest.raises(TypeError, match="colour"):
            build(8, colour=3)
        with pytest.raises(TypeError, match="block"):
            Quantised(Problem(N=8), block=3)

    def test_a_gate_of_another_shape_is_refused_in_words(self, inputs_of: Any) -> None:
        method = build(8, Gated)
        q, k, v, g = inputs_of(method)
        with pytest.raises(ValueError, match=r"g \[2, 2, 8, 1\]: must have the shape of the output, \[2, 2, 8, 5\]"):
            method(q, k, v, g[..., :1])


@pytest.mark.cuda
@pytest.mark.parametrize("bias", ["none", "relative"])
@pytest.mark.parametrize("N", [64, 257, 2048])
def test_a_gpu_computes_and_differentiates_it(N: int, bias: str, inputs_of: Any, gradient_of: Any) -> None:
    method = build(N, shape={"dtype": "float32", "D": 64, "M": 64}, codes=64, block=128, bias=bias).cuda()
    inputs = tuple(x.detach().cuda().requires_grad_() for x in inputs_of(method))
    choices, g = method.choose(*inputs), gradient_of(method).cuda()
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
