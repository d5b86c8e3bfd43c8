"""The kernels of vq.triton are valid beyond the interpreter: they compile for GPUs, and fit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNELS = "sums,tables,attend,queries,codes,shares,keys"
SHARED = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes that one program may have, by compute capability (CUDA C++ Programming Guide, table of technical specifications)."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def compiled(folder: Path, dtype: str, widths: str, precision: str = "highest") -> list[Any]:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    script = [sys.executable, str(Path(__file__).with_name("vq_triton_for_gpus.py"))]
    done = subprocess.run(
        [*script, "80,90", dtype, widths, KERNELS, precision], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_fits(found: list[Any], spilled: int) -> None:
    """`spilled`: bytes of stack that Triton 3.6 to 3.9 stay within; a tile that is too wide takes many times as much."""
    assert found
    for kernel in found:
        assert kernel["shared"] <= SHARED[kernel["capability"]], kernel
        assert kernel["stack"] <= spilled, kernel


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_fits_and_hardly_spills(dtype: str, tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, dtype, "16,32,64,128"), 96)
    assert_fits(compiled(tmp_path, dtype, "256"), 256)


def test_tf32_fits_and_hardly_spills(tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "float32", "16,32,64,128,256", "high"), 208)


def test_float32_fits_and_spills_at_the_widest_only(tmp_path: Path) -> None:
    assert_fits(compiled(tmp_path, "float32", "16,32,64"), 64)
    assert_fits(compiled(tmp_path, "float32", "128,256"), 320)
