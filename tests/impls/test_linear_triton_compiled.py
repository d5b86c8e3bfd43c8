"""The Triton kernels are valid beyond the interpreter: they compile for GPUs, and fit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNELS = "sums,scan,attend,queries,keys,values"
SHARED = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes that one program may have, by compute capability (CUDA C++ Programming Guide, table of technical specifications)."""


def compiled(folder: Path, capabilities: str, dtypes: str, widths: str, kernels: str, precision: str = "highest") -> list[Any]:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    script = [sys.executable, str(Path(__file__).with_name("triton_for_gpus.py"))]
    done = subprocess.run(
        [*script, capabilities, dtypes, widths, kernels, precision],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_fits(found: list[Any], spilled: int) -> None:
    """`spilled`: bytes of stack that Triton 3.6 to 3.9 stay within; a tile that is too wide takes many times as much."""
    assert found
    for kernel in found:
        assert kernel["shared"] <= SHARED[kernel["capability"]], kernel
        assert kernel["stack"] <= spilled, kernel


def test_a_kernel_compiles_for_a_gpu_without_one(tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "90", "bfloat16", "32", "attend,scan"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_fits_and_hardly_spills(dtype: str, tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "80,90", dtype, "16,32,64,128", KERNELS), 128)


@pytest.mark.slow
def test_tf32_fits_and_hardly_spills(tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "80,90", "float32", "16,32,64,128", KERNELS, "high"), 160)


@pytest.mark.slow
def test_float32_fits_and_spills_at_the_widest_only(tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "80,90", "float32", "16,32,64", KERNELS), 128)
    assert_fits(compiled(tmp_path, "80,90", "float32", "128", KERNELS), 1024)
