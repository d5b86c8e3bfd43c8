"""Every attention is its own reference, in float64, to 1e-10: values and gradients, odd lengths included."""

from typing import Any

import pytest
import torch

from attnbench import Problem, build

SPARSE: list[tuple[str, dict[str, Any]]] = [
    *(("strided", {"mode": mode, "convention": c}) for mode in ("merged", "per_head") for c in ("paper", "code")),
    *(("strided", {"mode": "by_layer", "layer": layer, "stride": 7}) for layer in (0, 1)),
    *(("fixed", {"mode": mode, "c": 1}) for mode in ("merged", "per_head", "by_layer")),
    ("fixed", {"mode": "by_layer", "layer": 1, "stride": 12, "c": 5}),
    ("fixed", {"distinct": False, "c": 1}),
    ("local", {"stride": 20}),
    ("atrous", {}),
    ("atrous", {"reach": 2}),
    ("window", {"window": 30}),
    ("longformer", {"window": 8, "dilation": 3, "globals": 2, "dilated_heads": 2}),
]

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *(
        (name, {"N": N, "M": 5, "causal": causal}, {})
        for name in ("softmax.naive", "softmax.sdpa")
        for N in (1, 63, 64, 257)
        for causal in (False, True)
    ),
    *(
        (name, {"N": 65, "causal": True, "H": 4, "kv_heads": K}, {})
        for name in ("softmax.naive", "softmax.sdpa")
        for K in (1, 2)
    ),
    *(("softmax.sdpa", {"N": N, "causal": causal}, {}) for N in (1, 63, 257) for causal in (False, True)),
    *(("linear.full", {"N": N, "M": 5}, {}) for N in (1, 63, 64, 257, 1100)),
    *(("linear.full", {"N": 65, "H": 4, "kv_heads": K}, {}) for K in (1, 2)),
    *(
        ("linear.chunked", {"N": N, "M": 5, "causal": True}, {"chunk": chunk})
        for N in (1, 63, 64, 257)
        for chunk in (1, 16, 64, 300)
    ),
    # several segments, the last one shorter
    ("linear.chunked", {"N": 1100, "causal": True}, {}),
    *(
        ("lsh.reformer_pytorch", {"N": N, "causal": causal}, {"bucket_size": 16, "rounds": rounds})
        for N in (64, 256)
        for causal in (False, True)
        for rounds in (1, 4, 8)
    ),
    *(
        (
            "lsh.reformer_pytorch",
            {"N": 128, "causal": causal},
            {"bucket_size": 16, "attend_across_buckets": False, "allow_duplicate_attention": both},
        )
        for causal in (False, True)
        for both in (False, True)
    ),
    ("lsh.reformer_pytorch", {"N": 64}, {"bucket_size": 16, "rounds": 1, "allow_duplicate_attention": False}),
    *(
        ("lsh.reformer", {"N": N, "M": 5, "causal": causal}, {"bucket_size": 16, "rounds": rounds})
        for N in (1, 63, 64, 257)
        for causal in (False, True)
        for rounds in (1, 4)
    ),
    *(
        (f"sparse.{name}", {"N": N, "M": 5, "causal": causal, "H": 4, "kv_heads": K}, params)
        for name, params in SPARSE
        for N in (1, 2, 63, 64, 65, 257)
        for causal, K in ((False, 4), (True, 4), (True, 2))
    ),
]


@pytest.mark.parametrize(("name", "shape", "params"), CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, shape: dict[str, Any], params: dict[str, Any], inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, Problem(**{"B": 2, "H": 2, "D": 8, "dtype": "float64", **shape}), **params)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)

    got = evaluate(method, "forward", inputs, g, choices)
    want = evaluate(method, "reference", inputs, g, choices)

    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "causal"), [("softmax.naive", False), ("softmax.naive", True), ("linear.full", False), ("linear.chunked", True)]
)
def test_the_forward_without_gradients_is_the_same_bit_for_bit(name: str, causal: bool, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=100, D=8, causal=causal))
    inputs = inputs_of(method)
    with torch.no_grad():
        bare = method(*inputs)
    assert torch.equal(bare, method(*inputs))


@pytest.mark.parametrize(
    ("name", "causal"), [("softmax.naive", True), ("softmax.sdpa", True), ("linear.full", False), ("linear.chunked", True)]
)
def test_the_inputs_are_left_as_they_were(name: str, causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=100, D=8, causal=causal))
    inputs, g = inputs_of(method), gradient_of(method)
    before = [x.detach().clone() for x in (*inputs, g)]
    evaluate(method, "forward", inputs, g)
    assert all(torch.equal(x, y) for x, y in zip((*inputs, g), before, strict=True))


@pytest.mark.cuda
@pytest.mark.parametrize("N", [64, 257, 1024, 2048, 8192])
@pytest.mark.parametrize(
    ("name", "causal"),
    [
        ("softmax.naive", False),
        ("softmax.naive", True),
        ("softmax.sdpa", True),
        ("linear.full", False),
        ("linear.chunked", True),
    ],
)
def test_a_gpu_computes_the_same(name: str, causal: bool, N: int, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=N, D=64, causal=causal))
    inputs = inputs_of(method)
    with torch.no_grad():
        o = method(*(x.cuda() for x in inputs)).cpu()
        torch.testing.assert_close(o, method.reference(*inputs), rtol=1e-4, atol=1e-4)
