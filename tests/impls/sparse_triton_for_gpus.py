"""Compiles the sparse Triton kernels for GPUs that need not be here, as they would be launched, and says what they take.

Arguments: compute capability, dtype, widths D = M, names of kernels, each with commas, and torch's float32 matmul precision.
Writes to stdout, for each kernel of each pattern's walks, one JSON line: bytes of shared memory, registers, and stack (where
spilt registers go) of a thread.
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

kernels: Any = import_module("attnbench_impls.sparse.triton_kernels")
launch: Any = import_module("attnbench_impls.sparse.triton_launch")
factorised: Any = import_module("attnbench_impls.sparse.factorised")
tables: Any = import_module("attnbench_impls.sparse.triton_tables")
ROWS = {"q", "k", "v", "o", "g", "dq", "dk", "dv"}
NUMBERS = {"logsumexp", "deltas"}
TABLES = {"rows", "bands", "sharing"}
ELEMENTS = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}
USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
PATTERNS = {"strided": factorised.Strided(128), "fixed": factorised.Fixed(128)}


def built(kernel: Any, constants: dict[str, Any], dtype: str, capability: int) -> Any:
    """The compiled kernel, for pointers and strides that are multiples of 16 bytes and numbers."""
    options = {key: constants[key] for key in ("num_warps", "num_stages", "enable_fp_fusion")}
    fixed = {name: constants[name] for name in kernel.arg_names if name in constants}
    signature = {name: "constexpr" if name in fixed else _type(name, dtype) for name in kernel.arg_names}
    even = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if _even(name, fixed)}
    source = ASTSource(kernel, signature=signature, constexprs=fixed, attrs=even)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _type(name: str, dtype: str) -> str:
    if name in ROWS:
        return ELEMENTS[dtype]
    return "*i32" if name in TABLES else "*fp32" if name in NUMBERS else "fp32" if name == "scale" else "i32"


def _even(name: str, fixed: dict[str, Any]) -> bool:
    return name not in fixed and (name in ROWS | NUMBERS | TABLES or name[-2:] in {"_s", "_b", "_h", "_n"})


def launched(names: list[str], p: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The kernels of those names, for each walk, and what they are compiled for."""
    for name in names:
        for job in p.jobs(getattr(p.blocks, name), of_keys=name == "keys"):
            yield name, getattr(kernels, f"{name}_kernel"), job.constants()


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
                x = torch.empty(1, 1, 16384, width, dtype=getattr(torch, dtype), device="meta")
                for pattern, what in PATTERNS.items():
                    p = launch.plan((x, x, x), tables.described(what), True)
                    for name, kernel, constants in launched(names.split(","), p):
                        found = usage(built(kernel, constants, dtype, capability))
                        about = {"capability": capability, "dtype": dtype, "width": width, "kernel": name, "pattern": pattern}
                        sys.stdout.write(f"{json.dumps({**about, **found})}\n")
                        sys.stdout.flush()
