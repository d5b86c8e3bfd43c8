"""On a GPU the same holds: the definition, causality, hidden keys, decoding; our own kernels as exactly as a CPU."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Causality, Problem, Tier, Workload
from tests.impls.contract.calls import Call, no_worse, same, turned
from tests.impls.contract.method import Method
from tests.impls.contract.subjects import NAMES, Variant, declared, marks_of

DTYPES = ("float64", "float32", "bfloat16", "float16")


@pytest.fixture(autouse=True)
def _cudnn_is_for_who_asks() -> Iterator[None]:
    """Its backward is wrong after another method's call of the same shape with dL/do in another order: docs/gpu.md."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    yield
    torch.backends.cuda.enable_cudnn_sdp(True)


def there(keep: Callable[[Variant], object] = lambda _: True) -> list[Any]:
    """The variants that a GPU runs."""
    found = []
    for name in NAMES:
        kind = registry.load(name)
        for params in () if registry.missing(kind) or kind.tier is Tier.COMPILED else declared().get(name, Method()).variants:
            variant = Variant(name, params)
            if keep(variant) and any(problems(variant, 256)):
                found.append(pytest.param(variant, id=str(variant), marks=[pytest.mark.cuda, *marks_of(kind)]))
    return found


def problems(variant: Variant, N: int, **shape: Any) -> Iterator[Problem]:
    """Causal and not, in each dtype, alone and with heads that share keys: what it takes. Definitions hold up to H N² D.

    Where q·k is small, half precision leaves nothing of (q·k)².
    """
    dtypes = DTYPES[:2] if variant.params.get("feature_map") == "quadratic" else DTYPES
    sizes = {"B": 1, "H": 8 if N <= 300 else 4, "N": N, "D": 64}
    asked = (
        variant.problem(device="cuda", **{**sizes, "causal": causal, "dtype": dtype, **heads, **shape})
        for causal in ((False, True) if "causal" not in shape else (shape["causal"],))
        for dtype in dtypes
        for heads in ({}, {"kv_heads": 2})
    )
    return (problem for problem in asked if problem is not None)


def rounding(call: Call) -> float:
    """What float32 leaves of a gradient that is exactly 0; what other people's kernels, TF32 among them, may be off."""
    if call.problem.dtype == "float64":
        # the terms of (q·k)² cancel where q·k is small
        return 1e-7 if call.variant.params.get("feature_map") == "quadratic" else 1e-9
    if call.method.tier in {Tier.TRITON, Tier.CUDA} and not call.method.requires[0].startswith("fla"):
        return 2e-5
    return 1e-3 if call.problem.dtype == "float32" else 0.06


@pytest.mark.parametrize("N", [1, 64, 257, 1024])
@pytest.mark.parametrize("variant", there())
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(variant: Variant, N: int) -> None:
    for problem in problems(variant, N):
        call = Call(variant, problem, "cuda")
        no_worse(call.results(), *call.measure(), rounding(call))


@pytest.mark.parametrize("variant", there())
def test_the_order_in_memory_makes_no_difference(variant: Variant) -> None:
    for problem in problems(variant, 256):
        call = Call(variant, problem, "cuda")
        for a, b in zip(call.results(inputs=turned(call.inputs, 1, 2)), call.results(), strict=True):
            assert float((a - b).abs().max()) <= rounding(call) * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("variant", there(lambda variant: variant.kind.causality is Causality.FULL))
def test_the_future_changes_nothing_before_it(variant: Variant) -> None:
    for problem in problems(variant, 1000, causal=True):
        call = Call(variant, problem, "cuda")
        later = {id(x): torch.cat((x[:, :, :700], y[:, :, 700:]), 2) for x, y in zip(call.inputs, call.drawn(8), strict=True)}
        before, after = call.forward(), call.forward(*(later[id(x)] for x in call.inputs))
        exactly = variant.params not in variant.method.bends
        same([after[:, :, :700]], [before[:, :, :700]], 0.0 if exactly else rounding(call))


@pytest.mark.parametrize("variant", there(lambda variant: variant.kind.masks))
def test_hidden_keys_do_not_exist(variant: Variant) -> None:
    for problem in problems(variant, 300, B=3, padding=0.5):
        call, mask = Call(variant, problem, "cuda"), torch.rand(3, 300, device="cuda") < 0.6
        mask[0, :3], mask[1] = False, False
        got = call.results(key_mask=mask)
        assert not got[0][1].any()
        no_worse(got, *call.measure(key_mask=mask), rounding(call))


@pytest.mark.parametrize("prompt", [0, 130])
@pytest.mark.parametrize("variant", there(lambda variant: variant.kind.decodes))
def test_a_prompt_and_steps_are_the_whole(variant: Variant, prompt: int) -> None:
    for problem in problems(variant, 200, causal=True):
        if variant.takes(problem, Workload.DECODE, "cuda"):
            call = Call(variant, problem, "cuda")
            with torch.no_grad():
                off_by = 0.03 if problem.dtype in {"bfloat16", "float16"} else max(1e-4, rounding(call))
                torch.testing.assert_close(call.decoded(prompt, choices=call.choices), call.forward(), rtol=off_by, atol=off_by)
