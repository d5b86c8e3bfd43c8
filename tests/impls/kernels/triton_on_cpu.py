"""Runs our Triton kernels by Triton's interpreter: a process of its own, since that is chosen before triton is imported.

Reads the path of a request from each line of stdin, writes the answer beside it as PATH.out and the path to stdout. A request
is of a method (its name, problem, parameters, state) or of an operator (module:function; `how`: what it takes beyond tensors).
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import triton.runtime.interpreter as interpreter
from torch import Tensor

from attnbench import registry
from attnbench.api import Problem

Request = dict[str, Any]
tuning: Any = import_module("attnbench_impls.sparse.triton.tuning")


def evaluate(request: Request) -> list[Tensor]:
    """The output, and where there is a g the gradients of q, k and v."""
    return call_of(request)()


def decoded(request: Request) -> list[Tensor]:
    """The output of each step, from the first token on; a state is updated in place."""
    method: Any = registry.load(request["name"])(Problem(**request["problem"]), **request["params"])
    nothing, *tokens = zip(*(x.split([0] + [1] * x.shape[2], dim=2) for x in request["inputs"]), strict=True)
    state = method.state_after(*nothing, capacity=len(tokens))
    return [torch.cat([method.step(*token, state=state)[0] for token in tokens], 2)]


def flops(request: Request) -> list[int]:
    """What the products of the kernels take."""
    found, multiply = 0, interpreter.InterpreterBuilder.create_dot

    def counted(self: Any, a: Any, b: Any, *more: Any) -> Any:
        nonlocal found
        found += 2 * a.data.shape[0] * a.data.shape[1] * b.data.shape[1]
        return multiply(self, a, b, *more)

    interpreter.InterpreterBuilder.create_dot = counted
    try:
        call_of(request)()
    finally:
        interpreter.InterpreterBuilder.create_dot = multiply
    return [found]


def opcheck(request: Request) -> list[Any]:
    """What torch.library finds wrong."""
    differentiable = request.get("differentiable", 3)
    tensors = [x.detach().requires_grad_(x.is_floating_point() and i < differentiable) for i, x in enumerate(request["inputs"])]
    return [torch.library.opcheck(operator_of(request), (*tensors, *request["how"]))]


def tables(request: Request) -> list[Tensor]:
    """The tables of vq.triton."""
    product: Any = import_module("attnbench_impls.vq.triton.product")
    (v, codes), (S, block) = request["inputs"], request["how"]
    return list(product.tables(product.launcher(v, v, S, block, causal=True), v, codes))


def operator_of(request: Request) -> Any:
    module, _, name = request["operator"].partition(":")
    return getattr(import_module(module), name)


def call_of(request: Request) -> Callable[[], list[Tensor]]:
    if "operator" in request:
        tensors = [x.detach().requires_grad_(x.is_floating_point()) for x in request["inputs"]]
        operator = operator_of(request)

        def forward() -> Tensor:
            o: Tensor = operator(*tensors, *request["how"])[0]
            return o
    else:
        kind: Any = registry.load(request["name"])
        method = kind(Problem(**request["problem"]), **request["params"])
        method.load_state_dict(request.get("state", {}))
        tensors = [x.detach() for x in request["inputs"]]
        if apart := request.get("apart"):
            # of one head, with memory between its tokens that is not touched
            tensors = [x.new_empty(x.shape[2] * apart).as_strided(x.shape, (0, 0, apart, 1)).copy_(x) for x in tensors]
        tensors = [x.requires_grad_() for x in tensors]

        def forward() -> Tensor:
            o: Tensor = method(*tensors, **request.get("keywords", {}))
            return o

    def call() -> list[Tensor]:
        # short sequences have little to share: the length from which it is worth it can be asked for
        tuning._SHARE = request.get("share", 512)
        with torch.set_grad_enabled("g" in request):
            o = forward()
        if "g" not in request:
            return [o.detach()]
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(request.get("later", before))
        try:
            return [o.detach(), *torch.autograd.grad(o, tensors[:3], request["g"].expand_as(o))]
        finally:
            torch.set_float32_matmul_precision(before)

    return call


if __name__ == "__main__":
    for line in sys.stdin:
        path = line.strip()
        asked = torch.load(path, weights_only=False)
        torch.save(list(globals()[asked["what"]](asked)), f"{path}.out")
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
