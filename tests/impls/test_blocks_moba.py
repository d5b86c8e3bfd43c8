"""MoBA: the right blocks are chosen, attended exactly, differentiated and decoded."""

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

moba: Any = import_module("attnbench_impls.blocks.moba")
lists: Any = import_module("attnbench_impls.blocks.lists")
own_block: Any = import_module("attnbench_impls.blocks.own_block")
choosing: Any = import_module("attnbench_impls.blocks.choosing")
softmax: Any = import_module("attnbench_impls.partial.softmax")


def build(N: int, block: int = 8, topk: int = 3, **fields: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 3, "N": N, "D": 6, "causal": True, "dtype": "float64", **fields})
    return moba.MobaAttention(problem, block=block, topk=topk)


def by_loops(q: Tensor, k: Tensor, v: Tensor, block: int, topk: int) -> tuple[Tensor, list[set[int]]]:
    """One head, [N, D]: the sets of blocks that the queries see, and the output, from the words of the paper."""
    outputs, seen = [], []
    for i in range(len(q)):
        scores = {c: float(q[i] @ k[c * block : (c + 1) * block].mean(0)) for c in range(i // block)}
        blocks = {i // block, *sorted(scores, key=lambda c: -scores[c])[: topk - 1]}
        keys = [j for j in range(i + 1) if j // block in blocks]
        outputs.append((q[i] @ k[keys].mT / q.shape[1] ** 0.5).softmax(-1) @ v[keys])
        seen.append(blocks)
    return torch.stack(outputs), seen


@pytest.fixture(params=["cut", "whole"])
def cuts(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once, or a little at a time."""
    if request.param == "cut":
        for module in (lists, own_block, choosing):
            for name, count in {"QUERIES": 30, "HEADS": 2, "SCORES": 60, "SORTED": 50}.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, count)


@pytest.mark.usefixtures("cuts")
@pytest.mark.parametrize("M", [3, 6])
@pytest.mark.parametrize(("N", "topk"), [(1, 3), (2, 3), (7, 1), (8, 3), (9, 2), (63, 3), (64, 1), (64, 4), (97, 2)])
def test_it_is_its_definition_with_its_gradients(
    N: int, topk: int, M: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(N, topk=topk, M=M)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("topk", [1, 2, 4])
def test_the_definition_is_the_paper_query_by_query(topk: int, inputs_of: Any) -> None:
    method = build(37, topk=topk)
    q, k, v = (x.detach() for x in inputs_of(method))
    choices, o = method.choose(q, k, v), method.reference(q, k, v)
    for b in range(2):
        for h in range(3):
            want, blocks = by_loops(q[b, h], k[b, h], v[b, h], 8, topk)
            torch.testing.assert_close(o[b, h], want, rtol=0, atol=1e-12)
            assert [{*row, i // 8} - {-1} for i, row in enumerate(choices[b, h].tolist())] == blocks


@pytest.mark.parametrize(("N", "topk"), [(30, 4), (33, 5), (64, 8), (64, 100)])
def test_with_all_blocks_it_is_softmax_attention(N: int, topk: int, inputs_of: Any) -> None:
    method = build(N, topk=topk)
    q, k, v = inputs_of(method)
    torch.testing.assert_close(method(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True), rtol=0, atol=1e-10)


def test_with_one_block_it_is_attention_within_blocks(inputs_of: Any) -> None:
    method = build(24, topk=1)
    q, k, v = inputs_of(method)
    assert method.choose(q, k, v).shape == (2, 3, 24, 0)
    o = method(q, k, v)
    q, k, v = (x.unflatten(2, (3, 8)) for x in (q, k, v))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten(2, 3)
    torch.testing.assert_close(o, want, rtol=0, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(N=st.integers(1, 60), block=st.integers(1, 20), topk=st.integers(1, 6), queries=st.sampled_from([1, 64, 2**14]))
def test_any_length_and_any_block(N: int, block: int, topk: int, queries: int) -> None:
    method = build(N, block, topk)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    with pytest.MonkeyPatch.context() as patch:
        for module in (lists, own_block):
            patch.setattr(module, "QUERIES", queries)
        torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


def test_without_the_fused_kernel_it_is_the_same(
    inputs_of: Any, gradient_of: Any, evaluate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build(63)
    inputs, g = inputs_of(method), gradient_of(method)
    want = evaluate(method, "forward", inputs, g)
    monkeypatch.setattr(softmax, "is_fused", lambda _: False)
    torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-12)


def test_all_may_choose_one_block(inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = build(64, topk=2)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = torch.zeros(2, 3, 64, 1, dtype=torch.int64)
    choices[:, :, :8] = -1
    # but of one head none does
    choices[1, 1] = -1
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def test_the_future_changes_nothing_before_it(inputs_of: Any) -> None:
    method = build(100)
    q, k, v = (x.detach() for x in inputs_of(method))
    o, choices = method(q, k, v), method.choose(q, k, v)
    for x in (q, k, v):
        x[:, :, 61:] = 3 - x[:, :, 61:]
    torch.testing.assert_close(method(q, k, v)[:, :, :61], o[:, :, :61], rtol=0, atol=1e-12)
    assert torch.equal(method.choose(q, k, v)[:, :, :61], choices[:, :, :61])


def test_gradients_are_the_same_at_each_call(inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = build(128, dtype="float32")
    inputs, g = inputs_of(method), gradient_of(method)
    first, again = (evaluate(method, "forward", inputs, g) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_in_a_narrow_dtype_it_is_within_twice_the_error_of_the_definition(
    dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(130, block=16, dtype=dtype, D=16)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, eager = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    for o, e, r in zip(got, eager, evaluate(method, "reference", wide, g.double(), choices), strict=True):
        assert o.dtype == getattr(torch, dtype)
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack


def test_inputs_of_any_layout(inputs_of: Any) -> None:
    method = build(40)
    inputs = inputs_of(method)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    torch.testing.assert_close(method(*turned), method(*inputs), rtol=0, atol=1e-13)


@pytest.mark.parametrize("given_choices", [False, True])
@pytest.mark.parametrize(("N", "topk", "prompt"), [(1, 3, 0), (33, 3, 0), (33, 3, 1), (33, 1, 8), (33, 9, 20), (33, 2, 33)])
def test_decoding_is_the_parallel_form(N: int, topk: int, prompt: int, given_choices: bool, inputs_of: Any) -> None:
    method = build(N, topk=topk, M=5)
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
    assert method.state_bytes(state) == 2 * 3 * (N * (6 + 5) + N // 8 * 6) * 8
    with pytest.raises(ValueError, match=f"token {N + 1} is beyond the capacity of {N} tokens"):
        method.step(*(x[:, :, :1] for x in inputs), state=state)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"causal": False}, "it is causal"), ({"kv_heads": 1}, "kv_heads must equal H")],
)
def test_an_unsupported_cell_says_why(fields: dict[str, Any], words: str) -> None:
    cell = Cell(method="blocks.moba", problem=Problem(**{"N": 8, "H": 2, "causal": True, **fields}))
    assert words in (moba.MobaAttention.why_not(cell) or "")


@pytest.mark.parametrize("params", [{"block": 0}, {"topk": 0}, {"block": 2.5}, {"topk": True}])
def test_a_bad_count_is_refused_by_name(params: dict[str, Any]) -> None:
    refused = pytest.raises(ValueError, match=f"{next(iter(params))}=.*: must be a whole number, 1 or more")
    with refused:
        moba.MobaAttention(Problem(N=8, causal=True), **params)
    with refused:
        moba.MobaAttention.cost(Problem(N=8, causal=True), params, Workload.FORWARD)
