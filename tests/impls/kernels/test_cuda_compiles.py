"""The CUDA source compiles for the GPUs it is meant for, and what it keeps stays in registers."""

from importlib import import_module
from typing import Any

import pytest
import torch

pytest.importorskip("cuda.core")

compiling: Any = import_module("attnbench_impls.linear.cuda.compiling")


class Log:
    """Where the compiler writes."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


WIDE, NARROW = (128, 64, torch.bfloat16, "elu_plus_one"), (20, 17, torch.float16, "relu")


@pytest.mark.parametrize(
    ("D", "M", "dtype", "phi", "arch"),
    [
        (*WIDE, "sm_80"),
        (*NARROW, "sm_90"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((*WIDE, "sm_90"), (*NARROW, "sm_80"))),
    ],
    ids=str,
)
def test_every_kernel_compiles(D: int, M: int, dtype: torch.dtype, phi: str, arch: str) -> None:
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
def test_nothing_spills(D: int, M: int, dtype: torch.dtype, arch: str) -> None:
    from cuda.core import Program, ProgramOptions  # type: ignore[import-untyped, unused-ignore]

    variant, log = compiling.Variant(D, M, dtype, "elu_plus_one"), Log()
    options = ProgramOptions(arch=arch, std="c++17", define_macro=variant.macros, ptxas_options="-v", no_cache=True)
    program = Program(compiling.SOURCE.read_text(encoding="utf-8"), "c++", options)
    names = [name for passes in (compiling.FORWARD, compiling.BACKWARD) for name in compiling.names(variant, passes)]
    program.compile("cubin", name_expressions=names, logs=log)
    spills = [line for line in log.text.splitlines() if "spill stores" in line]
    assert len(spills) == len(names)
    assert all(" 0 bytes spill stores, 0 bytes spill loads" in line for line in spills), spills


def test_a_source_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.Variant, "macros", property(lambda _: [("D", "64")]))
    with pytest.raises(RuntimeError, match=r"(?s)does not compile for Variant.*SCALAR"):
        compiling.binary(compiling.Variant(3, 3, torch.float32, "relu"), compiling.FORWARD, "sm_90")
