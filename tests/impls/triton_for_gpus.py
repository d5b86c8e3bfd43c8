"""Compiles the kernels of linear.triton for GPUs that need not be here, as they would be launched, and says what they take.

Arguments: compute capability, dtype, widths D = M, names of kernels, each with commas. Writes to stdout, for each kernel, one
JSON line: bytes of shared memory, registers, and stack (where spilt registers go) of a thread.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

kernels: Any = import_module("attnbench_impls.linear.triton_kernels")
product: Any = import_module("attnbench_impls.linear.triton_product")
ROWS = {"q", "k", "v", "o", "g", "x", "y", "dq", "dk", "dv"}
NUMBERS = {"denominators", "coefficients", "states"}
ELEMENTS = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")


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
        return ELEMENTS[dtype]
    return "*fp32" if name in NUMBERS else "fp32" if name == "eps" else "i32"


def _even(name: str, fixed: dict[str, Any]) -> bool:
    return name not in fixed and (name in ROWS | NUMBERS | {"T"} or name[-2:] in {"_b", "_h", "_n"})


def launched(names: list[str], p: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The kernels of those names, and what they are compiled for."""
    for name in names:
        kernel = getattr(kernels, f"{name}_kernel")
        if name == "scan":
            yield name, kernel, {"PLACES": 64, "BLOCK": 64, "REVERSE": True}
        else:
            constants = p.constants(getattr(p.blocks, name), p.M)
            yield name, kernel, {**constants, "REVERSE": 1} if name == "sums" else constants


def usage(compiled: Any) -> dict[str, int]:
    """What the assembler gave it."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = USAGE.search(told)
    assert found, told
    return {"registers": int(found[1]), "stack": int(found[2]), "shared": compiled.metadata.shared}


if __name__ == "__main__":
    capabilities, dtypes, widths, names, precision = sys.argv[1:]
    torch.set_float32_matmul_precision(precision)
    for capability in map(int, capabilities.split(",")):
        for dtype in dtypes.split(","):
            for width in map(int, widths.split(",")):
                x = torch.empty(1, 1, 256, width, dtype=getattr(torch, dtype), device="meta")
                for name, kernel, constants in launched(names.split(","), product.plan(x, x, "elu_plus_one")):
                    found = usage(built(kernel, constants, dtype, capability))
                    what = {"capability": capability, "dtype": dtype, "width": width, "kernel": name}
                    sys.stdout.write(f"{json.dumps({**what, **found})}\n")
