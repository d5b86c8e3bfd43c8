"""What a causal call hides cannot be seen in its output, not even in the last bit."""

from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Causality
from attnbench.registry import load

SPARSE = [f"sparse.{name}" for name in ("strided", "fixed", "local", "atrous", "window", "longformer")]
FULL = ["softmax.naive", "softmax.sdpa", "linear.chunked", *SPARSE]


@pytest.mark.parametrize("t", [1, 63, 64, 100])
@pytest.mark.parametrize("name", FULL)
def test_the_future_changes_nothing_before_it(name: str, t: int, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=150, D=8, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, t:] = 3 - x[:, :, t:]
    changed = method(q, k, v)
    assert torch.equal(changed[:, :, :t], o[:, :, :t])
    assert not torch.equal(changed[:, :, t:], o[:, :, t:])


def test_hashing_hides_later_values(inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=1, H=2, N=128, D=8, causal=True), bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    buckets = method.choose(qk, qk, v)
    o = method(qk, qk, v, choices=buckets)
    v[:, :, 100:] = 3 - v[:, :, 100:]
    assert torch.equal(method(qk, qk, v, choices=buckets)[:, :, :100], o[:, :, :100])


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa"])
def test_the_last_causal_row_sees_everything(name: str, inputs_of: Any) -> None:
    causal, whole = (build(name, Problem(B=1, H=2, N=70, D=8, causal=c, dtype="float64")) for c in (True, False))
    inputs = inputs_of(whole)
    torch.testing.assert_close(causal(*inputs)[:, :, -1], whole(*inputs)[:, :, -1], rtol=0, atol=1e-12)


def test_the_last_row_of_chunked_is_that_of_full(inputs_of: Any) -> None:
    chunked = build("linear.chunked", Problem(B=1, H=2, N=200, D=8, M=3, causal=True, dtype="float64"))
    full = build("linear.full", Problem(B=1, H=2, N=200, D=8, M=3, dtype="float64"))
    inputs = inputs_of(full)
    torch.testing.assert_close(chunked(*inputs)[:, :, -1], full(*inputs)[:, :, -1], rtol=0, atol=1e-12)


def test_each_method_says_what_it_hides() -> None:
    said = {name: load(name).causality for name in (*FULL, "linear.full", "lsh.reformer_pytorch")}
    assert said == {
        **dict.fromkeys(FULL, Causality.FULL),
        "linear.full": Causality.NONE,
        "lsh.reformer_pytorch": Causality.VALUES_ONLY,
    }
