"""A function with a gradient of its own, which torch.compile takes as one operator and does not look into.

Looking into it, torch.compile compiles a loop over lists anew for every input, whose lengths are shapes. It also keeps of the
forward what it likes: torch 2.13 may keep a tensor and a view of it, and overwrite the one in the backward before it reads the
other.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Pair = tuple[Tensor, Tensor]


def opaque(
    name: str,
    forward: Callable[..., Pair],
    made: Callable[..., Pair],
    backward: Callable[..., tuple[Tensor, ...]],
    gradients: Callable[..., tuple[Tensor, ...]],
) -> Callable[..., Tensor]:
    """Return the function of forward's arguments, tensors and then numbers, that gives its output, differentiable once.

    `forward` gives the output and its logsumexp. `backward` gives the gradients of the first arguments, from dL/do, a list of
    the tensors that forward had (None is left out), one of its two results, and its numbers. `made` and `gradients` take the
    same and make results without values.
    """

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:  # noqa: ANN401 - torch's own bag
        ctx.numbers = [x for x in inputs if x is not None and not isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)), *output)
        ctx.mark_non_differentiable(output[1])
        # otherwise torch fills zeros for the gradient of the logsumexp, in each backward
        ctx.set_materialize_grads(False)

    def differentiate(function: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor | None, ...]]:
        def of_all(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
            *tensors, o, logsumexp = ctx.saved_tensors
            found = function(g, tensors, [o, logsumexp], *ctx.numbers)
            return *found, *[None] * (len(ctx.needs_input_grad) - len(found))

        return of_all

    class Eager(torch.autograd.Function):
        """Does the same without operators, whose first backward takes a second to import torch's compiler."""

    Eager.forward = staticmethod(forward)  # type: ignore[method-assign]
    Eager.setup_context = staticmethod(keep)  # type: ignore[method-assign]
    Eager.backward = staticmethod(once_differentiable(differentiate(backward)))  # type: ignore[assignment]

    operator = torch.library.custom_op(f"attnbench::{name}", forward, mutates_args=())
    operator.register_fake(made)
    pull_back = torch.library.custom_op(f"attnbench::{name}_backward", backward, mutates_args=())
    pull_back.register_fake(gradients)
    operator.register_autograd(differentiate(pull_back), setup_context=keep)

    def apply(*args: Any) -> Tensor:  # noqa: ANN401 - as of forward
        both: Pair = operator(*args) if torch.compiler.is_compiling() else Eager.apply(*args)  # type: ignore[no-untyped-call]
        return both[0]

    return apply
