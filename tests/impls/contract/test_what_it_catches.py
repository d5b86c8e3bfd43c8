"""The contract fails where a method is wrong: five mistakes that are easily made, each in another method."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.impls.contract.subjects import Variant
from tests.impls.contract.test_causality import (
    test_earlier_outputs_have_no_gradient_in_later_tokens as no_gradient_from_the_future,
)
from tests.impls.contract.test_causality import test_the_future_changes_nothing_before_it as nothing_from_the_future
from tests.impls.contract.test_decoding import test_a_prompt_and_steps_are_the_whole as steps_are_the_whole
from tests.impls.contract.test_values import (
    test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype as no_worse_in_a_dtype,
)
from tests.impls.contract.test_values import test_values_and_gradients_are_those_of_the_definition as same_values

Forward = Callable[..., Tensor]


def a_scale_that_is_off_by_a_thousandth(forward: Forward) -> Forward:
    return lambda self, q, *rest, **keywords: forward(self, 1.001 * q, *rest, **keywords)


def states_that_are_one_token_late_from_the_second_chunk_on(forward: Forward) -> Forward:
    def wrong(self: Any, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, **keywords: Any) -> Tensor:
        late = forward(self, q, k.roll(1, 2), v.roll(1, 2), *gates, **keywords)
        return torch.cat((forward(self, q, k, v, *gates, **keywords)[:, :, :16], late[:, :, 16:]), 2)

    return wrong


def one_token_of_the_future(forward: Forward) -> Forward:
    def wrong(self: Any, q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
        return forward(self, q, k, v, **keywords) + 1e-4 * v.roll(-1, 2).repeat_interleave(q.shape[1] // v.shape[1], 1)

    return wrong


def a_gradient_that_is_a_hundredth_too_large(forward: Forward) -> Forward:
    return lambda self, q, k, v, **keywords: forward(self, q, k, v + 0.01 * (v - v.detach()), **keywords)


def a_last_token_that_is_forgotten_at_odd_lengths(forward: Forward) -> Forward:
    def wrong(self: Any, *inputs: Tensor, **keywords: Any) -> Tensor:
        o = forward(self, *inputs, **keywords)
        return torch.cat((o[:, :, :-1], 0.99 * o[:, :, -1:]), 2) if o.shape[2] % 64 == 1 else o

    return wrong


MISTAKES: list[tuple[str, dict[str, Any], Callable[[Forward], Forward], list[tuple[Any, tuple[Any, ...]]]]] = [
    ("softmax.naive", {}, a_scale_that_is_off_by_a_thousandth, [(same_values, (63,)), (steps_are_the_whole, ())]),
    ("linear.chunked", {"chunk": 16}, states_that_are_one_token_late_from_the_second_chunk_on, [(same_values, (64,))]),
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
    ("delta.kda", {"chunk": 16}, a_last_token_that_is_forgotten_at_odd_lengths, [(same_values, (1,)), (same_values, (65,))]),
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
