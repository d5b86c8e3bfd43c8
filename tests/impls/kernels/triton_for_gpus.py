"""Compiles our Triton kernels for GPUs that need not be here, as they would be launched, and says what they take.

Arguments: family, compute capabilities, dtype, widths D = M, names of kernels, with commas where several, and torch's float32
matmul precision. Writes a JSON line for each kernel: bytes of shared memory and of a thread's stack (spills), powers taken.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

Launch = tuple[str, Any, dict[str, Any]]
ROWS = {"q", "k", "v", "o", "g", "x", "y", "dq", "dk", "dv", "dx", "k_hat", "codebook", "parts"}
TABLES = {"rows": "*i32", "bands": "*i32", "sharing": "*i32", "codes": "*i64"}
NUMBERS = {"denominators", "coefficients", "states", "sums", "logsumexp", "deltas", "means", "counts", "shares", "half_norms"}
STACK = re.compile(r"STACK:(\d+)")


def module(family: str, name: str) -> Any:
    return import_module(f"attnbench_impls.{family}.{name}")


def linear(names: list[str], x: torch.Tensor) -> Iterator[Launch]:
    kernels, tuning = module("linear", "triton.kernels"), module("linear", "triton.tuning")
    chosen = tuning.blocks(x.shape[-1], x.shape[-1], tuning.arithmetic(x.dtype))
    p = module("linear", "triton.product").plan(x, x, "elu_plus_one", chosen)
    for name in names:
        if name == "scan":
            constants = {"PLACES": 64, "BLOCK": 64, "REVERSE": True}
        elif name == "step":
            constants = module("linear", "triton.product").step_constants(512, 4, p.D, p.M, p.phi)
        else:
            constants = {**p.constants(getattr(p.blocks, name), p.M), **({"REVERSE": 1} if name == "sums" else {})}
        yield name, getattr(kernels, f"{name}_kernel"), constants


def sparse(names: list[str], x: torch.Tensor) -> Iterator[Launch]:
    """For each walk of two patterns."""
    patterns, described = module("sparse", "patterns.factorised"), module("sparse", "triton.tables").described
    for pattern in (patterns.Strided(128), patterns.Fixed(128)):
        p = module("sparse", "triton.launch").plan((x, x, x), described(pattern), True)
        for name in names:
            for job in p.jobs(getattr(p.blocks, name), of_keys=name == "keys"):
                yield name, getattr(module("sparse", "triton.kernels"), f"{name}_kernel"), job.constants()


def vq(names: list[str], x: torch.Tensor) -> Iterator[Launch]:
    p = module("vq", "triton.product").launcher(x, x, 512, 512, causal=True)
    for name in names:
        if name in {"tables", "shares"}:
            M = p.widths["M"]
            constants = {"M": M, "BM": p.widths["BM"], "BS": module("vq", "triton.tuning").merged(M)}
            constants |= {"num_warps": 4, "enable_fp_fusion": True}
        else:
            constants = {**p.constants(name), **({"TABLE": True} if name == "keys" else {})}
        yield name, getattr(module("vq", "triton.kernels"), f"{name}_kernel"), constants


def coding(names: list[str], x: torch.Tensor) -> Iterator[Launch]:
    """What vq.triton does before it attends."""
    launches = module("vq", "triton.coding")
    for name in names:
        constants = launches.constants(x, 16384, 512) if name == "nearest" else {**launches.walk(x), "EPS": 1e-6}
        yield name, getattr(module("vq", "triton.coding_kernels"), f"{name}_kernel"), constants


def built(kernel: Any, constants: dict[str, Any], dtype: str, capability: int) -> Any:
    """The compiled kernel, for pointers and strides that are multiples of 16 bytes and numbers."""
    options = {key: constants[key] for key in ("num_warps", "num_stages", "enable_fp_fusion") if key in constants}
    fixed = {name: constants[name] for name in kernel.arg_names if name in constants}
    signature = {name: "constexpr" if name in fixed else type_of(name, dtype) for name in kernel.arg_names}
    # linear.triton cuts whole segments of T tokens
    whole = {"T"} if "segments" in kernel.arg_names else set()
    even = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(kernel.arg_names)
        if name not in fixed and (name in {*ROWS, *NUMBERS, *TABLES, *whole} or name[-2:] in {"_b", "_h", "_n", "_s"})
    }
    source = ASTSource(kernel, signature=signature, constexprs=fixed, attrs=even)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def type_of(name: str, dtype: str) -> str:
    if name in ROWS:
        return {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}[dtype]
    return "*fp32" if name in NUMBERS else "fp32" if name in {"eps", "scale", "factor"} else TABLES.get(name, "i32")


def usage(compiled: Any) -> dict[str, int]:
    """What the assembler gave it."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = STACK.search(told)
    assert found, told
    return {"stack": int(found[1]), "shared": compiled.metadata.shared, "powers": compiled.asm["ptx"].count("ex2.")}


if __name__ == "__main__":
    family, capabilities, dtype, widths, names, precision = sys.argv[1:]
    torch.set_float32_matmul_precision(precision)
    for capability, width in product(map(int, capabilities.split(",")), map(int, widths.split(","))):
        x = torch.empty(1, 1, 256 if family == "linear" else 16384, width, dtype=getattr(torch, dtype), device="meta")
        for name, kernel, constants in globals()[family](names.split(","), x):
            found = usage(built(kernel, constants, dtype, capability))
            sys.stdout.write(f"{json.dumps({'capability': capability, 'width': width, 'kernel': name, **found})}\n")
            sys.stdout.flush()
