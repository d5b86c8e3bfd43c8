"""Each dtype costs no more accuracy than evaluating the definition in it does."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build, registry
from attnbench.api import Cell, Tier

METHODS: list[tuple[str, bool, dict[str, Any]]] = [
    ("softmax.naive", False, {}),
    ("softmax.naive", True, {}),
    ("softmax.sdpa", False, {}),
    ("softmax.sdpa", True, {}),
    *((f"softmax.{name}", causal, {}) for name in ("sdpa_math", "sdpa_flash", "recompute") for causal in (False, True)),
    ("linear.full", False, {}),
    *((name, True, {}) for name in ("linear.chunked", "linear.recurrent", "linear.naive_cumsum")),
    *(("linear.full", False, {"feature_map": phi}) for phi in ("cosine", "quadratic", "favor", "efficient")),
    *(("linear.chunked", True, {"feature_map": phi}) for phi in ("cosine", "quadratic", "favor")),
    ("linear.recurrent", True, {"feature_map": "efficient"}),
    ("lsh.reformer_pytorch", False, {"bucket_size": 16}),
    ("lsh.reformer_pytorch", True, {"bucket_size": 16, "rounds": 1}),
    *(("lsh.reformer", causal, {"bucket_size": 16}) for causal in (False, True)),
    ("lsh.reformer", True, {"bucket_size": 16, "across_buckets": False, "duplicates": "corrected"}),
    *(
        (f"sparse.{name}", causal, {})
        for name in ("strided", "fixed", "local", "atrous", "window", "longformer")
        for causal in (False, True)
    ),
    ("sparse.longformer", True, {"window": 20, "dilation": 3, "globals": 5}),
]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "causal", "params"), METHODS, ids=str)
def test_the_error_is_within_twice_that_of_the_reference_in_the_same_dtype(
    name: str, causal: bool, params: dict[str, Any], dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, Problem(B=1, H=2, N=256, D=32, causal=causal, dtype=dtype), **params)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    wide = {id(x): x.detach().double().requires_grad_() for x in inputs}

    got = evaluate(method, "forward", inputs, g, choices)
    eager = evaluate(method, "reference", inputs, g, choices)
    exact = evaluate(method, "reference", [wide[id(x)] for x in inputs], g.double(), choices)

    for o, e, r in zip(got, eager, exact, strict=True):
        rounded = r.to(o.dtype)
        # four units in the last place on top: in float32 the two errors are both of that size, and one may be lucky
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert distance(o, r) <= 2 * distance(e, r) + 2 * distance(rounded + 0.3 - 0.3, rounded) + slack


@pytest.mark.parametrize(("name", "causal"), [("linear.full", False), ("linear.chunked", True)])
def test_float16_survives_denominators_that_it_cannot_hold(name: str, causal: bool, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=1, N=4096, D=64, causal=causal, dtype="float16"))
    q, k, v = inputs_of(method)
    with torch.no_grad():
        o, r = method(q, k, v), method.reference(q.double(), k.double(), v.double())
    assert distance(o[..., -1, :], r[..., -1, :]) < 1e-3 < float(r[..., -1, :].abs().max())


def test_bfloat16_keeps_its_state_in_float32() -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    method = build("linear.chunked", Problem(B=1, H=1, N=4096, D=8, causal=True, dtype="bfloat16"), chunk=4)
    k = torch.zeros(1, 1, 4096, 8, dtype=torch.bfloat16)
    v = torch.cat([torch.zeros(1, 1, 2048, 8), torch.ones(1, 1, 2048, 8)], dim=2).bfloat16()
    torch.testing.assert_close(method(k, k, v)[0, 0, -1].float(), torch.full((8,), 0.5), rtol=0.02, atol=0)


WITH_PARAMETERS_OF_THEIR_OWN: dict[str, list[dict[str, Any]]] = {
    "vq.blockwise": [{"bias": "relative"}],
    "vq.gau": [{"bias": "relative"}],
    "landmark.nystrom": [{"convolution_kernel": 5}],
    "landmark.nystrom_attention": [{"convolution_kernel": 5}],
}


# reformer-pytorch is always there; what needs other packages is tested where they are
PEERS = {name for name in registry.catalogue() if registry.load(name).requires} - {"lsh.reformer_pytorch"}
INSTALLED = [
    pytest.mark.peers,
    # of the packages, at their import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=INSTALLED if name in PEERS else []) for name in registry.catalogue()]
)
def test_what_is_built_for_a_dtype_is_in_it_and_gives_it(name: str, dtype: str) -> None:
    kind = registry.load(name)
    for params in ({}, *WITH_PARAMETERS_OF_THEIR_OWN.get(name, ())):
        cells = [
            Cell(method=name, problem=Problem(N=256, H=2, D=16, causal=causal, dtype=dtype), params=params)
            for causal in (False, True)
        ]
        # what has to be compiled takes long, and has nothing of its own
        for cell in cells if not registry.missing(kind) and kind.tier is not Tier.COMPILED else ():
            if kind.refusal(cell) is None:
                method = registry.build_for(cell)
                inputs = kind.inputs(cell.problem, torch.Generator().manual_seed(1))
                assert {x.dtype for x in method.parameters()} <= {getattr(torch, dtype)}
                assert method(*inputs).dtype is getattr(torch, dtype)
