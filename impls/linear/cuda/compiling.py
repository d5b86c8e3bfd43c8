"""Compile causal_product.cu at first use with NVRTC, which needs no installed compiler or toolkit.

D query/key width, M value width.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..eager.segments import accumulator
from .layout import Layout, Pass, layout

if TYPE_CHECKING:
    from cuda.core import Kernel, ObjectCode  # type: ignore[import-untyped, unused-ignore]

SOURCE = Path(__file__).with_name("causal_product.cu")
_SCALARS = {torch.float64: "double", torch.float32: "float", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@dataclass(frozen=True)
class Variant:
    """The options that one binary is compiled for; `phi` is the name of a struct in the source."""

    D: int
    M: int
    dtype: torch.dtype
    phi: str

    def layout(self, of: Pass) -> Layout:
        """Return how one of its passes is laid out over threads."""
        return layout(of, self.D, self.M, self.dtype.itemsize)

    @property
    def macros(self) -> list[tuple[str, str]]:
        """Return the macros that the source needs."""
        real = _SCALARS[accumulator(self.dtype)]
        return [("D", str(self.D)), ("M", str(self.M)), ("SCALAR", _SCALARS[self.dtype]), ("REAL", real), ("PHI", self.phi)]


def attend(of: Layout, *, reads: bool) -> str:
    """Name the kernel that walks over the tokens or, without `reads`, the one that only sums up the states."""
    return f"attend<{of.plan}, {str(reads).lower()}>"


def accumulate(of: Layout) -> str:
    """Name the kernel that sums up the states of the segments before each segment."""
    return f"accumulate<{of.plan}>"


CONTRACT = "contract"
"""Name of the kernel that computes -g·o of each row."""


FORWARD, BACKWARD = (Pass.FORWARD,), (Pass.QUERIES, Pass.KEYS, Pass.VALUES)
"""The passes that are compiled together: who never differentiates waits for no backward."""


def names(variant: Variant, passes: tuple[Pass, ...]) -> tuple[str, ...]:
    """Name the kernels that these passes of a variant need."""
    each = [variant.layout(of) for of in passes]
    walks = [attend(of, reads=reads) for of in each for reads in (True, False)]
    return (*walks, *map(accumulate, each), *((CONTRACT,) if passes == BACKWARD else ()))


@cache
def binary(variant: Variant, passes: tuple[Pass, ...], arch: str) -> "ObjectCode":
    """Compile these passes to machine code for `arch`, such as sm_90; needs no GPU. Raises RuntimeError with NVRTC's log."""
    from cuda.core import Program, ProgramOptions  # type: ignore[import-untyped, unused-ignore]

    options = ProgramOptions(name=SOURCE.name, arch=arch, std="c++17", define_macro=variant.macros)
    try:
        return Program(SOURCE.read_text(encoding="utf-8"), "c++", options).compile(
            "cubin", name_expressions=names(variant, passes)
        )
    except Exception as error:
        raise RuntimeError(f"{SOURCE.name} does not compile for {variant} on {arch}: {error}") from error


@cache
def kernel(variant: Variant, name: str, device: int) -> "Kernel":
    """Compile a kernel with the others of its passes, and load it for one device."""
    major, minor = torch.cuda.get_device_capability(device)
    passes = FORWARD if name in names(variant, FORWARD) else BACKWARD
    return binary(variant, passes, f"sm_{major}{minor}").get_kernel(name)
