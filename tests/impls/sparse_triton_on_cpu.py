"""Runs the sparse Triton kernels by Triton's interpreter: a process of its own, since that is chosen before triton is imported.

Reads the path of a request from each line of stdin, writes the answer beside it as PATH.out and the path to stdout.
"""

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import triton.runtime.interpreter as interpreter
from torch import Tensor

from attnbench.api import Problem
from attnbench.measure.profiler_memory import torch_profiler_peak

sparse: Any = import_module("attnbench_impls.sparse.triton")
product: Any = import_module("attnbench_impls.sparse.triton_product")
tuning: Any = import_module("attnbench_impls.sparse.triton_tuning")


def run(request: dict[str, Any]) -> list[Any]:
    """The output, and the gradients where there is a g; or the peak; or the FLOPs; or what torch.library finds wrong."""
    # short sequences have little to share: the length from which it is worth it can be asked for
    tuning._SHARE = request.get("share", 512)
    method = getattr(sparse, request["method"])(Problem(**request["problem"]), **request["params"])
    inputs = tuple(x.detach().requires_grad_() for x in request["inputs"])
    if request["what"] == "opcheck":
        return [torch.library.opcheck(product.sparse_attention, (*inputs, method.described, method.causal))]
    if request["what"] == "peak":
        return [_peak(method, inputs, request)]
    if request["what"] == "flops":
        return [_flops(lambda: _evaluate(method, inputs, request))]
    return _evaluate(method, inputs, request)


def _evaluate(method: Any, inputs: tuple[Tensor, ...], request: dict[str, Any]) -> list[Tensor]:
    trains = request.get("g") is not None
    with torch.set_grad_enabled(trains):
        o = method(*inputs)
    return [o.detach(), *(torch.autograd.grad(o, inputs, request["g"].expand_as(o)) if trains else ())]


def _flops(call: Callable[[], object]) -> int:
    """What the products of a call take."""
    found, multiply = 0, interpreter.InterpreterBuilder.create_dot

    def counted(self: Any, a: Any, b: Any, *more: Any) -> Any:
        nonlocal found
        found += 2 * a.data.shape[0] * a.data.shape[1] * b.data.shape[1]
        return multiply(self, a, b, *more)

    interpreter.InterpreterBuilder.create_dot = counted
    try:
        call()
    finally:
        interpreter.InterpreterBuilder.create_dot = multiply
    return found


def _peak(method: Any, inputs: tuple[Tensor, ...], request: dict[str, Any]) -> int | None:
    def call() -> object:
        return _evaluate(method, inputs, request)

    # torch holds on to the frames of its first call, and so to tensors, until they are collected
    call()
    gc.collect()
    return torch_profiler_peak(call).bytes


if __name__ == "__main__":
    for line in sys.stdin:
        path = line.strip()
        torch.save(run(torch.load(path, weights_only=False)), f"{path}.out")
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
