"""Our kernels compile for the GPUs they are meant for, without one; they fit, and what they keep stays in registers."""

import io
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cuda.core")

compiling: Any = import_module("attnbench_impls.linear.cuda.compiling")
KERNELS = {
    "linear": "sums,scan,attend,queries,keys,values,step",
    "sparse": "attend,queries,keys",
    "coding": "normalise,normalise_back,nearest,rows",
    "vq": "sums,tables,attend,queries,codes,shares,keys",
}
SHARED = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes that one program may have, by compute capability (CUDA C++ Programming Guide, table of technical specifications)."""
SPILLED = [
    *(("linear", *rest, "highest", 256) for rest in (("float16", "16,32"), ("bfloat16", "16,32,64"), ("float32", "16,32"))),
    ("linear", "float32", "16,32", "high", 256),
    # the fastest on an H100 all the same
    *(("linear", *rest, "highest", 1024) for rest in (("bfloat16", "128"), ("float16", "64,128"), ("float32", "64,128"))),
    ("linear", "float32", "64,128", "high", 1024),
    *(
        (family, *rest)
        for family in ("sparse", "coding", "vq")
        for rest in (
            *((dtype, "16,32,64,128", "highest", 96) for dtype in ("bfloat16", "float16")),
            *((dtype, "256", "highest", 256) for dtype in ("bfloat16", "float16")),
            ("float32", "16,32,64,128,256", "high", 208),
            ("float32", "16,32,64", "highest", 64),
            ("float32", "128,256", "highest", 320),
        )
    ),
]
"""Bytes of stack that Triton 3.6 to 3.9 stay within; a tile that is too wide takes many times as much."""


def assert_fits(folder: Path, spilled: int, *arguments: str) -> list[dict[str, Any]]:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    script = [sys.executable, str(Path(__file__).with_name("triton_for_gpus.py"))]
    done = subprocess.run([*script, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found
    for kernel in found:
        assert kernel["shared"] <= SHARED[kernel["capability"]], kernel
        assert kernel["stack"] <= spilled, kernel
    return found


def test_a_triton_kernel_compiles_for_a_gpu_without_one(tmp_path: Path) -> None:
    assert_fits(tmp_path, 0, "linear", "90", "bfloat16", "32", "attend,scan,step", "highest")


@pytest.mark.slow
def test_linear_attention_computes_each_feature_once(tmp_path: Path) -> None:
    """Two tiles of 64 × 64, of q and k, by 128 threads. Triton computes a tile again for each layout that it is taken in."""
    found = assert_fits(tmp_path, 256, "linear", "90", "bfloat16", "64", "attend,queries,keys,values", "highest")
    assert {kernel["powers"] for kernel in found} == {64}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("family", "dtype", "widths", "precision", "spilled"), SPILLED)
def test_all_triton_kernels_fit_and_hardly_spill_but_at_the_widest(
    family: str, dtype: str, widths: str, precision: str, spilled: int, tmp_path: Path
) -> None:
    assert_fits(tmp_path, spilled, family, "80,90", dtype, widths, KERNELS[family], precision)


WIDE, NARROW = (128, 64, torch.bfloat16, "elu_plus_one"), (20, 17, torch.float16, "relu")


@pytest.mark.parametrize(
    ("D", "M", "dtype", "phi", "arch"),
    [
        (*NARROW, "sm_90"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((*WIDE, "sm_80"), (*WIDE, "sm_90"), (*NARROW, "sm_80"))),
    ],
    ids=str,
)
def test_every_cuda_kernel_compiles(D: int, M: int, dtype: torch.dtype, phi: str, arch: str) -> None:
    variant = compiling.Variant(D, M, dtype, phi)
    for passes, count in ((compiling.FORWARD, 3), (compiling.BACKWARD, 10)):
        cubin, names = compiling.binary(variant, passes, arch), compiling.names(variant, passes)
        assert cubin.code.startswith(b"\x7fELF")
        # what get_kernel will look up
        assert set(cubin.symbol_mapping) == set(names)
        assert len(names) == count


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("D", "M"), [(1, 1), (16, 32), (20, 17), (64, 64), (65, 31), (64, 128), (127, 128), (128, 128)])
def test_no_cuda_kernel_spills(D: int, M: int, dtype: torch.dtype, arch: str) -> None:
    from cuda.core import Program, ProgramOptions  # type: ignore[import-untyped, unused-ignore]

    variant, log = compiling.Variant(D, M, dtype, "elu_plus_one"), io.StringIO()
    options = ProgramOptions(arch=arch, std="c++17", define_macro=variant.macros, ptxas_options="-v", no_cache=True)
    program = Program(compiling.SOURCE.read_text(encoding="utf-8"), "c++", options)
    names = [name for passes in (compiling.FORWARD, compiling.BACKWARD) for name in compiling.names(variant, passes)]
    program.compile("cubin", name_expressions=names, logs=log)
    spills = [line for line in log.getvalue().splitlines() if "spill stores" in line]
    assert len(spills) == len(names)
    assert all(" 0 bytes spill stores, 0 bytes spill loads" in line for line in spills), spills


def test_a_source_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.Variant, "macros", property(lambda _: [("D", "64")]))
    with pytest.raises(RuntimeError, match=r"(?s)does not compile for Variant.*SCALAR"):
        compiling.binary(compiling.Variant(3, 3, torch.float32, "relu"), compiling.FORWARD, "sm_90")
