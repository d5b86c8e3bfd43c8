"""Compiles the kernels of vq.triton for GPUs that need not be here, as they would be launched, and says what they take.

Arguments: compute capability, dtype, widths D = M, names of kernels, each with commas, and torch's float32 matmul precision.
Writes to stdout, for each kernel, one JSON line: bytes of shared memory, registers, and stack (where spilt registers go) of a
thread.
"""

import json
import sys
from importlib import import_module
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# a script beside this one
linear: Any = import_module("triton_for_gpus")
kernels: Any = import_module("attnbench_impls.vq.triton_kernels")
product: Any = import_module("attnbench_impls.vq.triton_product")
tuning: Any = import_module("attnbench_impls.vq.triton_tuning")
ROWS = {"q", "k", "v", "o", "g", "dq", "dk", "dv", "codebook"}
NUMBERS = {"logsumexp", "deltas", "means", "counts", "shares"}


def built(kernel: Any, constants: dict[str, Any], dtype: str, capability: int) -> Any:
    """The compiled kernel, for pointers and strides that are multiples of 16 bytes and numbers."""
    options = {key: constants[key] for key in ("num_warps", "num_stages", "enable_fp_fusion") if key in constants}
    fixed = {name: constants[name] for name in kernel.arg_names if name in constants}
    signature = {name: "constexpr" if name in fixed else _type(name, dtype) for name in kernel.arg_names}
    even = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if _even(name, fixed)}
    source = ASTSource(kernel, signature=signature, constexprs=fixed, attrs=even)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _type(name: str, dtype: str) -> str:
    if name in ROWS:
        return str(linear.ELEMENTS[dtype])
    return "*i64" if name == "codes" else "*fp32" if name in NUMBERS else "i32"


def _even(name: str, fixed: dict[str, Any]) -> bool:
    return name not in fixed and (name in ROWS | NUMBERS | {"codes"} or name[-2:] in {"_b", "_h", "_n", "_s"})


def constants_of(name: str, p: Any) -> dict[str, Any]:
    if name in {"tables", "shares"}:
        widths = {"M": p.widths["M"], "BM": p.widths["BM"], "BS": tuning.merged(p.widths["M"])}
        return {**widths, "num_warps": 4, "enable_fp_fusion": True}
    found: dict[str, Any] = p.constants(name)
    return {**found, "TABLE": True} if name == "keys" else found


if __name__ == "__main__":
    capabilities, dtypes, widths, names, precision = sys.argv[1:]
    torch.set_float32_matmul_precision(precision)
    for capability in map(int, capabilities.split(",")):
        for dtype in dtypes.split(","):
            for width in map(int, widths.split(",")):
                x = torch.empty(1, 1, 16384, width, dtype=getattr(torch, dtype), device="meta")
                p = product.launcher(x, x, 512, 512, causal=True)
                for name in names.split(","):
                    kernel, constants = getattr(kernels, f"{name}_kernel"), constants_of(name, p)
                    found = linear.usage(built(kernel, constants, dtype, capability))
                    about = {"capability": capability, "dtype": dtype, "width": width, "kernel": name}
                    sys.stdout.write(f"{json.dumps({**about, **found})}\n")
                    sys.stdout.flush()
