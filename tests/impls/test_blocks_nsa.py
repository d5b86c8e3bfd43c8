"""NSA: three branches, each by its words in the paper; the right blocks selected; differentiated and decoded."""

from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Workload

nsa: Any = import_module("attnbench_impls.blocks.nsa")
tiles: Any = import_module("attnbench_impls.blocks.tiles")
lists: Any = import_module("attnbench_impls.blocks.lists")
own_block: Any = import_module("attnbench_impls.blocks.own_block")
choosing: Any = import_module("attnbench_impls.blocks.choosing")
softmax: Any = import_module("attnbench_impls.partial.softmax")


def build(N: int, block: int = 8, selected: int = 4, window: int = 10, **fields: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 4, "kv_heads": 2, "N": N, "D": 6, "causal": True, "dtype": "float64", **fields})
    return nsa.NsaAttention(problem, block=block, selected=selected, window=window)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    o: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
    return o


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def by_words(q: Tensor, k: Tensor, v: Tensor, gates: Tensor, options: Any) -> tuple[Tensor, list[set[int]]]:
    """One head of k, queries [R, N, D], gates [3, R, N]: the output [R, N, M], and the blocks selected by each token."""
    L, outputs, selected = options.block, [], []
    means = [torch.stack([x[a : a + L].mean(0) for a in range(0, len(x) - L + 1, L)] or [x[:0].sum(0)]) for x in (k, v)]
    for i in range(len(k)):
        complete, own = (i + 1) // L, i // L
        weights = (q[:, i] @ means[0][:complete].mT / q.shape[-1] ** 0.5).softmax(-1).sum(0)
        ranking = sorted(range(own), key=lambda c: -(9.0 if c in {0, own - 1} else float(weights[c])))
        blocks = {own, *ranking[: options.selected - 1]}
        keys = [j for j in range(i + 1) if j // L in blocks]
        near = slice(max(0, i - options.window + 1), i + 1)
        branches = (
            attend(q[:, i], *(x[:complete] for x in means)) if complete else torch.zeros_like(q[:, i, :1] * v[:1]),
            attend(q[:, i], k[keys], v[keys]),
            attend(q[:, i], k[near], v[near]),
        )
        outputs.append(sum(g[:, i, None] * o for g, o in zip(gates, branches, strict=True)))
        selected.append(blocks)
    return torch.stack(outputs, 1), selected


@pytest.fixture(params=["cut", "whole"])
def cuts(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once, or a little at a time."""
    if request.param == "cut":
        for module in (lists, own_block, choosing, tiles):
            for name, count in {"QUERIES": 30, "HEADS": 2, "SCORES": 60, "SORTED": 50, "_STAIRS": 20}.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, count)


@pytest.mark.usefixtures("cuts")
@pytest.mark.parametrize("shape", [{}, {"kv_heads": 4, "M": 3}, {"kv_heads": 1, "M": 9}], ids=str)
@pytest.mark.parametrize(("N", "window"), [(1, 10), (2, 1), (7, 3), (8, 8), (9, 100), (63, 10), (64, 64), (97, 1), (150, 20)])
def test_it_is_its_definition_with_its_gradients(
    N: int, window: int, shape: dict[str, Any], inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(N, window=window, **shape)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("selected", "kv_heads"), [(3, 1), (4, 2), (5, 4)])
def test_the_definition_is_the_paper_query_by_query(selected: int, kv_heads: int, inputs_of: Any) -> None:
    method = build(57, selected=selected, kv_heads=kv_heads)
    q, k, v, *gates = (x.detach() for x in inputs_of(method))
    choices, o = method.choose(q, k, v, *gates), method.reference(q, k, v, *gates)
    R, g = 4 // kv_heads, torch.stack(gates)
    for b in range(2):
        for h in range(kv_heads):
            heads = slice(h * R, (h + 1) * R)
            want, blocks = by_words(q[b, heads], k[b, h], v[b, h], g[:, b, heads], method.options)
            torch.testing.assert_close(o[b, heads], want, rtol=0, atol=1e-12)
            assert [{*row, i // 8} - {-1} for i, row in enumerate(choices[b, h].tolist())] == blocks


def only(which: int, inputs: Any) -> list[Tensor]:
    """The same q, k and v; one gate open, two shut."""
    return [*inputs[:3], *(torch.full_like(g, float(i == which)) for i, g in enumerate(inputs[3:]))]


@pytest.mark.parametrize(("N", "selected"), [(30, 4), (64, 8), (65, 9), (65, 40)])
def test_with_all_blocks_selected_and_their_gate_alone_it_is_softmax_attention(N: int, selected: int, inputs_of: Any) -> None:
    method = build(N, selected=selected)
    inputs = only(1, inputs_of(method))
    want = softmax_attention(*inputs)
    torch.testing.assert_close(method(*inputs), want, rtol=0, atol=1e-10)
    torch.testing.assert_close(method.exact(*inputs), want, rtol=0, atol=1e-10)


def test_with_a_window_of_all_tokens_and_its_gate_alone_it_is_softmax_attention(inputs_of: Any) -> None:
    method = build(70, window=70)
    inputs = only(2, inputs_of(method))
    want = softmax_attention(*inputs)
    torch.testing.assert_close(method(*inputs), want, rtol=0, atol=1e-10)


def test_with_blocks_of_one_token_the_compressed_branch_is_softmax_attention(inputs_of: Any) -> None:
    method = build(40, block=1)
    inputs = only(0, inputs_of(method))
    want = softmax_attention(*inputs)
    torch.testing.assert_close(method(*inputs), want, rtol=0, atol=1e-10)


def test_before_the_first_block_ends_there_is_nothing_compressed(inputs_of: Any) -> None:
    method = build(20)
    o = method(*only(0, inputs_of(method)))
    assert not o[:, :, :7].any()
    assert o[:, :, 7:].abs().amin() > 0


def test_the_first_block_and_the_last_two_are_always_selected(inputs_of: Any) -> None:
    method = build(90, selected=3)
    choices = method.choose(*inputs_of(method))
    own = torch.arange(90) // 8
    both = torch.stack((torch.zeros_like(own), own - 1), -1)
    assert torch.equal(choices[:, :, 16:].sort(-1).values, both[16:].expand(2, 2, -1, -1))


def test_heads_that_share_keys_select_alike_and_others_do_not(inputs_of: Any) -> None:
    shared, apart = build(90, kv_heads=1), build(90, kv_heads=4)
    q, k, v, *gates = inputs_of(shared)
    assert shared.choose(q, k, v, *gates).shape == (2, 1, 90, 3)
    choices = apart.choose(q, k.expand(-1, 4, -1, -1), v.expand(-1, 4, -1, -1), *gates)
    assert not torch.equal(choices[:, 0], choices[:, 1])


@settings(max_examples=40, deadline=None)
@given(
    N=st.integers(1, 70),
    block=st.integers(1, 20),
    selected=st.integers(3, 7),
    window=st.integers(1, 90),
    kv_heads=st.sampled_from([1, 2, 4]),
)
def test_any_length_block_window_and_group(N: int, block: int, selected: int, window: int, kv_heads: int) -> None:
    method = build(N, block, selected, window, kv_heads=kv_heads)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


def test_without_the_fused_kernel_it_is_the_same(
    inputs_of: Any, gradient_of: Any, evaluate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build(63)
    inputs, g = inputs_of(method), gradient_of(method)
    want = evaluate(method, "forward", inputs, g)
    monkeypatch.setattr(softmax, "is_fused", lambda _: False)
    torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-12)


def test_the_future_changes_nothing_before_it(inputs_of: Any) -> None:
    method = build(100)
    inputs = [x.detach() for x in inputs_of(method)]
    o, choices = method(*inputs), method.choose(*inputs)
    for x in inputs:
        x[:, :, 61:] = 3 - x[:, :, 61:]
    torch.testing.assert_close(method(*inputs)[:, :, :61], o[:, :, :61], rtol=0, atol=1e-12)
    assert torch.equal(method.choose(*inputs)[:, :, :61], choices[:, :, :61])


def test_gates_are_between_zero_and_one_and_drawn_after_q_k_and_v() -> None:
    method = build(50)
    drawn = type(method).inputs(method.problem, torch.Generator().manual_seed(5))
    plain = super(nsa.NsaAttention, method).inputs(method.problem, torch.Generator().manual_seed(5))
    assert all(torch.equal(a, b) for a, b in zip(drawn, plain, strict=False))
    assert all(g.shape == (2, 4, 50) and 0 < g.min() < 0.3 < 0.7 < g.max() < 1 for g in drawn[3:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_in_a_narrow_dtype_it_is_within_twice_the_error_of_the_definition(
    dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(130, dtype=dtype, D=16)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, eager = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    for o, e, r in zip(got, eager, evaluate(method, "reference", wide, g.double(), choices), strict=True):
        assert o.dtype == getattr(torch, dtype)
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack


@pytest.mark.parametrize("given_choices", [False, True])
@pytest.mark.parametrize(("N", "kv_heads", "prompt"), [(1, 2, 0), (41, 2, 0), (41, 1, 1), (41, 4, 8), (41, 2, 25), (41, 2, 41)])
def test_decoding_is_the_parallel_form(N: int, kv_heads: int, prompt: int, given_choices: bool, inputs_of: Any) -> None:
    method = build(N, kv_heads=kv_heads, M=5)
    inputs = [x.detach() for x in inputs_of(method)]
    choices = method.choose(*inputs)

    def share(start: int, stop: int) -> dict[str, Any]:
        return {"choices": choices[:, :, start:stop]} if given_choices else {}

    o, state = method.prefill(*(x[:, :, :prompt] for x in inputs), capacity=N, **share(0, prompt))
    outputs = [o]
    for t in range(prompt, N):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state, **share(t, t + 1))
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, 2), method(*inputs), rtol=0, atol=1e-10)
    assert method.state_bytes(state) == 2 * kv_heads * (N + N // 8) * (6 + 5) * 8
    with pytest.raises(ValueError, match=f"token {N + 1} is beyond the capacity of {N} tokens"):
        method.step(*(x[:, :, :1] for x in inputs), state=state)


def test_what_is_not_causal_is_refused() -> None:
    assert "it is causal" in (nsa.NsaAttention.why_not(Cell(method="blocks.nsa", problem=Problem(N=8))) or "")


@pytest.mark.parametrize("params", [{"block": 0}, {"selected": 2}, {"window": 0}, {"selected": "many"}])
def test_a_bad_count_is_refused_by_name(params: dict[str, Any]) -> None:
    refused = pytest.raises(ValueError, match=f"{next(iter(params))}=.*: must be a whole number, . or more")
    with refused:
        nsa.NsaAttention(Problem(N=8, causal=True), **params)
    with refused:
        nsa.NsaAttention.cost(Problem(N=8, causal=True), params, Workload.FORWARD)
