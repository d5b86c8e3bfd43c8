"""Compiling causal_product.cu where it is first needed, with NVRTC; no compiler or toolkit has to be installed.

D query/key width, M value width.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .cuda_layout import Layout, Pass, layout
from .segments import accumulator

if TYPE_CHECKING:
    from cuda.core import Kernel, ObjectCode  # type: ignore[import-untyped, unused-ignore]

SOURCE = Path(__file__).with_name("causal_product.cu")
_SCALARS = {torch.float64: "double", torch.float32: "float", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@dataclass(frozen=True)
class Variant:
    """What one binary is compiled for; `phi` is a struct of the source."""

    D: int
    M: int
    dtype: torch.dtype
    phi: str

    def layout(self, of: Pass) -> Layout:
        """How one of its passes lies over threads."""
        return layout(of, self.D, self.M, self.dtype.itemsize)

    @property
    def macros(self) -> list[tuple[str, str]]:
        """What the source wants defined."""
        real = _SCALARS[accumulator(self.dtype)]
        return [("D", str(self.D)), ("M", str(self.M)), ("SCALAR", _SCALARS[self.dtype]), ("REAL", real), ("PHI", self.phi)]


def attend(of: Layout, *, reads: bool) -> str:
    """The name of the kernel that walks over the tokens; without `reads`, of the one that only sums the states."""
    return f"attend<{of.plan}, {str(reads).lower()}>"


def accumulate(of: Layout) -> str:
    """The name of the kernel that sums the states of the segments before each."""
    return f"accumulate<{of.plan}>"


CONTRACT = "contract"
"""The name of the kernel that gives -g·o of each row."""


def names(variant: Variant) -> tuple[str, ...]:
    """All kernels of a variant."""
    each = [variant.layout(of) for of in Pass]
    walks = [attend(of, reads=reads) for of in each for reads in (True, False)]
    return (*walks, *map(accumulate, each), CONTRACT)


@cache
def binary(variant: Variant, arch: str) -> "ObjectCode":
    """Machine code for `arch`, such as sm_90. Needs no GPU. Raises RuntimeError with NVRTC's log."""
    from cuda.core import Program, ProgramOptions  # type: ignore[import-untyped, unused-ignore]

    options = ProgramOptions(name=SOURCE.name, arch=arch, std="c++17", define_macro=variant.macros)
    try:
        return Program(SOURCE.read_text(encoding="utf-8"), "c++", options).compile("cubin", name_expressions=names(variant))
    except Exception as error:
        raise RuntimeError(f"{SOURCE.name} does not compile for {variant} on {arch}: {error}") from error


@cache
def kernel(variant: Variant, name: str, device: int) -> "Kernel":
    """A kernel, compiled and loaded for one device."""
    major, minor = torch.cuda.get_device_capability(device)
    return binary(variant, f"sm_{major}{minor}").get_kernel(name)
