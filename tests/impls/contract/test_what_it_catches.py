"""The contract fails where a method is wrong: three mistakes that are easily made, each in another method."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from tests.impls.contract import test_causality as causality
from tests.impls.contract import test_decoding as decoding
from tests.impls.contract import test_dtypes as dtypes
from tests.impls.contract import test_values as values
from tests.impls.contract.subjects import Variant

Forward = Callable[..., Tensor]


def a_scale_that_is_off_by_a_thousandth(forward: Forward) -> Forward:
    return lambda self, q, *rest, **keywords: forward(self, 1.001 * q, *rest, **keywords)


def one_token_of_the_future(forward: Forward) -> Forward:
    def wrong(self: Any, q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
        return forward(self, q, k, v, **keywords) + 1e-4 * v.roll(-1, 2).repeat_interleave(q.shape[1] // v.shape[1], 1)

    return wrong


def a_gradient_that_is_a_hundredth_too_large(forward: Forward) -> Forward:
    return lambda self, q, k, v, **keywords: forward(self, q, k, v + 0.01 * (v - v.detach()), **keywords)


NAIVE, STRIDED = Variant("softmax.naive"), Variant("sparse.strided", {"stride": 5})
VQ = Variant("vq.blockwise", {"codes": 6, "block": 8})


@pytest.mark.parametrize(
    ("variant", "mistake", "test", "arguments"),
    [
        (NAIVE, a_scale_that_is_off_by_a_thousandth, values.test_values_and_gradients_are_those_of_the_definition, (63,)),
        (NAIVE, a_scale_that_is_off_by_a_thousandth, decoding.test_a_prompt_and_steps_are_the_whole, ()),
        (STRIDED, one_token_of_the_future, values.test_values_and_gradients_are_those_of_the_definition, (2,)),
        (STRIDED, one_token_of_the_future, causality.test_the_future_changes_nothing_before_it, ()),
        (STRIDED, one_token_of_the_future, causality.test_earlier_outputs_have_no_gradient_in_later_tokens, ()),
        (VQ, a_gradient_that_is_a_hundredth_too_large, values.test_values_and_gradients_are_those_of_the_definition, (63,)),
        (
            *(VQ, a_gradient_that_is_a_hundredth_too_large),
            *(dtypes.test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype, ("float32",)),
        ),
    ],
)
def test_a_mistake_is_found(
    variant: Variant, mistake: Any, test: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    test(variant, *arguments)
    monkeypatch.setattr(variant.kind, "forward", mistake(variant.kind.forward))
    with pytest.raises(AssertionError):
        test(variant, *arguments)
