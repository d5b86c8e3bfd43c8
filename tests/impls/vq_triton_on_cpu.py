"""Runs vq.triton by Triton's interpreter: a process of its own, since that is chosen before triton is imported.

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

# a script beside this one
counting: Any = import_module("sparse_triton_on_cpu")
vq: Any = import_module("attnbench_impls.vq.triton")
product: Any = import_module("attnbench_impls.vq.triton_product")


def run(request: dict[str, Any]) -> list[Any]:
    """What the request asks of the kernels, or of the method that is built on them."""
    return list(globals()[f"_{request['what']}"](request))


def _attend(request: dict[str, Any]) -> list[Tensor]:
    """By the operator: the output, and where there is a g the gradients of q, k and v."""
    tensors = [x.detach().requires_grad_(x.is_floating_point()) for x in request["inputs"]]
    o, _ = product.vq_attention(*tensors, *request["how"])
    return [o.detach(), *(torch.autograd.grad(o, tensors[:3], request["g"].expand_as(o)) if "g" in request else ())]


def _tables(request: dict[str, Any]) -> tuple[Tensor, Tensor]:
    q, _, v, codes, codebook = request["inputs"]
    block, causal, _ = request["how"]
    return product.tables(product.launcher(q, v, codebook.shape[1], block, causal=causal), v, codes)  # type: ignore[no-any-return]


def _opcheck(request: dict[str, Any]) -> list[Any]:
    tensors = [x.detach().requires_grad_(x.is_floating_point() and i < 3) for i, x in enumerate(request["inputs"])]
    return [torch.library.opcheck(product.vq_attention, (*tensors, *request["how"]))]


def _flops(request: dict[str, Any]) -> list[int]:
    """What the products of the kernels take."""
    return [counting._flops(lambda: _attend(request))]


def _method(request: dict[str, Any]) -> list[Tensor]:
    """By the method, with its codebook: the output, and where there is a g the gradients of the inputs."""
    return _call(request)()


def _peak(request: dict[str, Any]) -> list[int | None]:
    call, launch = _call(request), interpreter.GridExecutor.__call__

    def tidy(*args: Any, **kwargs: Any) -> None:
        launch(*args, **kwargs)
        # the interpreter leaves cycles behind, and so holds on to tensors, until they are collected
        gc.collect()

    interpreter.GridExecutor.__call__ = tidy
    # what is there already need not be looked through each time
    gc.freeze()
    try:
        # as torch does after its first call
        call()
        gc.collect()
        return [torch_profiler_peak(call).bytes]
    finally:
        gc.unfreeze()
        interpreter.GridExecutor.__call__ = launch


def _call(request: dict[str, Any]) -> Callable[[], list[Tensor]]:
    method = vq.TritonVQ(Problem(**request["problem"]), **request["params"])
    method.load_state_dict(request["state"])
    inputs = tuple(x.detach().requires_grad_() for x in request["inputs"])
    trains, choices = "g" in request, request.get("choices")

    def call() -> list[Tensor]:
        with torch.set_grad_enabled(trains):
            o = method(*inputs, choices=choices)
        return [o.detach(), *(torch.autograd.grad(o, inputs, request["g"]) if trains else ())]

    return call


if __name__ == "__main__":
    for line in sys.stdin:
        path = line.strip()
        torch.save(run(torch.load(path, weights_only=False)), f"{path}.out")
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()
