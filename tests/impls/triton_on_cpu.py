"""Runs linear.triton by Triton's interpreter: a process of its own, since that is chosen before triton is imported.

Reads the path of a request from each line of stdin, writes the answer beside it as PATH.out and the path to stdout.
"""

import gc
import sys
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Problem
from attnbench.measure.profiler_memory import torch_profiler_peak

linear: Any = import_module("attnbench_impls.linear.triton")
product: Any = import_module("attnbench_impls.linear.triton_product")


def run(request: dict[str, Any]) -> list[Any]:
    """The output, and the gradients where there is a g; or the peak; or what torch.library finds wrong."""
    method = linear.TritonLinear(Problem(**request["problem"]), **request["params"])
    q, k, v = (x.detach().requires_grad_() for x in request["inputs"])
    if request["what"] == "opcheck":
        return [torch.library.opcheck(product.causal_linear_attention, (q, k, v, "elu_plus_one", 1e-6))]
    if request["what"] == "peak":
        return [_peak(method, (q, k, v), request)]
    return _evaluate(method, (q, k, v), request)


def _evaluate(method: Any, inputs: tuple[Tensor, ...], request: dict[str, Any]) -> list[Tensor]:
    trains = request.get("g") is not None
    with torch.set_grad_enabled(trains):
        o = method(*inputs, key_mask=request.get("key_mask"))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.get("later", before))
    try:
        return _with_gradients(o, inputs, request)
    finally:
        torch.set_float32_matmul_precision(before)


def _with_gradients(o: Tensor, inputs: tuple[Tensor, ...], request: dict[str, Any]) -> list[Tensor]:
    trains = request.get("g") is not None
    return [o.detach(), *(torch.autograd.grad(o, inputs, request["g"].expand_as(o)) if trains else ())]


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
