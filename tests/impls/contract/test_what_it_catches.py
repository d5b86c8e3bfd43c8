"""The contract fails where a method is wrong: three mistakes that are easily made, each in another method."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from tests.impls.contract.subjects import Variant
from tests.impls.contract.test_causality import (
    test_earlier_outputs_have_no_gradient_in_later_tokens as no_gradient_from_the_future,
)
from tests.impls.contract.test_causality import test_the_future_changes_nothing_before_it as nothing_from_the_future
from tests.impls.contract.test_decoding import test_a_prompt_and_steps_are_the_whole as steps_are_the_whole
from tests.impls.contract.test_dtypes import (
    test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype as no_worse_in_a_dtype,
)
from tests.impls.contract.test_values import test_values_and_gradients_are_those_of_the_definition as same_values

Forward = Callable[..., Tensor]


def a_scale_that_is_off_by_a_thousandth(forward: Forward) -> Forward:
    return lambda self, q, *rest, **keywords: forward(self, 1.001 * q, *rest, **keywords)


def one_token_of_the_future(forward: Forward) -> Forward:
    def wrong(self: Any, q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
        return forward(self, q, k, v, **keywords) + 1e-4 * v.roll(-1, 2).repeat_interleave(q.shape[1] // v.shape[1], 1)

    return wrong


def a_gradient_that_is_a_hundredth_too_large(forward: Forward) -> Forward:
    return lambda self, q, k, v, **keywords: forward(self, q, k, v + 0.01 * (v - v.detach()), **keywords)


MISTAKES: list[tuple[str, dict[str, Any], Callable[[Forward], Forward], list[tuple[Any, tuple[Any, ...]]]]] = [
    ("softmax.naive", {}, a_scale_that_is_off_by_a_thousandth, [(same_values, (63,)), (steps_are_the_whole, ())]),
    (
        "sparse.strided",
        {"stride": 5},
        one_token_of_the_future,
        [(same_values, (2,)), (nothing_from_the_future, ()), (no_gradient_from_the_future, ())],
    ),
    (
        "vq.blockwise",
        {"codes": 6, "block": 8},
        a_gradient_that_is_a_hundredth_too_large,
        [(same_values, (63,)), (no_worse_in_a_dtype, ("float32",))],
    ),
]


@pytest.mark.parametrize(
    ("name", "params", "mistake", "held"), MISTAKES, ids=[mistake.__name__ for _, _, mistake, _ in MISTAKES]
)
def test_a_mistake_is_found(
    name: str, params: dict[str, Any], mistake: Any, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = Variant(name, params)
    for test, arguments in held:
        test(variant, *arguments)
    monkeypatch.setattr(variant.kind, "forward", mistake(variant.kind.forward))
    for test, arguments in held:
        with pytest.raises(AssertionError):
            test(variant, *arguments)
