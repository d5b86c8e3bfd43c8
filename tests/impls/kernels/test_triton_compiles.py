"""Our Triton kernels are valid beyond the interpreter: they compile for GPUs, and fit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {
    "linear": "sums,scan,attend,queries,keys,values",
    "sparse": "attend,queries,keys",
    "coding": "normalise,normalise_back,nearest,rows",
    "vq": "sums,tables,attend,queries,codes,shares,keys",
}
SHARED = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes that one program may have, by compute capability (CUDA C++ Programming Guide, table of technical specifications)."""
SPILLED = [
    ("linear", "float16", "16,32,64,128", "highest", 128),
    ("linear", "bfloat16", "16,32,64", "highest", 128),
    # the fastest on an H100 all the same
    ("linear", "bfloat16", "128", "highest", 448),
    ("linear", "float32", "16,32,64,128", "high", 160),
    ("linear", "float32", "16,32,64", "highest", 128),
    ("linear", "float32", "128", "highest", 1024),
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


def assert_fits(folder: Path, spilled: int, *arguments: str) -> None:
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


@pytest.mark.parametrize(
    ("family", "width", "kernels"),
    [("linear", "32", "attend,scan"), pytest.param("sparse", "64", "attend", marks=pytest.mark.slow)],
)
def test_a_kernel_compiles_for_a_gpu_without_one(family: str, width: str, kernels: str, tmp_path: Path) -> None:
    assert_fits(tmp_path, 0, family, "90", "bfloat16", width, kernels, "highest")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("family", "dtype", "widths", "precision", "spilled"), SPILLED)
def test_all_kernels_fit_and_hardly_spill_but_at_the_widest(
    family: str, dtype: str, widths: str, precision: str, spilled: int, tmp_path: Path
) -> None:
    assert_fits(tmp_path, spilled, family, "80,90", dtype, widths, KERNELS[family], precision)
