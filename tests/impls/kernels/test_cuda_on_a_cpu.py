"""The CUDA kernels compute linear attention and its gradient: their own source, run on a CPU with fibers for threads."""

import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.registry import load
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

# by name: installed under another name than that of its folder
compiling: Any = import_module("attnbench_impls.linear.cuda.compiling")
launching: Any = import_module("attnbench_impls.linear.cuda.launch")
layouts: Any = import_module("attnbench_impls.linear.cuda.layout")
product: Any = import_module("attnbench_impls.linear.cuda.product")

HERE = Path(__file__).parent / "cuda_on_cpu"
# a width that is no multiple of anything, one vector wide, and one beyond 64, for which eight lanes share a column
SMALL: dict[str, Any] = {"D": 8, "M": 5}
WIDE: dict[str, Any] = {"D": 68, "M": 66}


@cache
def compiled(variant: Any) -> ctypes.CDLL:
    """The kernels of a variant, once for all tests."""
    names = [name for passes in (compiling.FORWARD, compiling.BACKWARD) for name in compiling.names(variant, passes)]
    listed = " ".join(f"KERNEL({name})" for name in names)
    macros = {**dict(variant.macros), "SOURCE": f'"{compiling.SOURCE}"', "KERNELS": listed}
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE", "-shared", "-fPIC"]
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/kernels.so"
        subprocess.run(["g++", *flags, *defined, str(HERE / "kernels.cpp"), "-o", file], check=True)
        found = ctypes.CDLL(file)
    found.launch_on_cpu.restype = ctypes.c_char_p
    return found


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Launch on the CPU; `downwards` has each thread run before those below it instead of after."""

    def use(*, downwards: bool = False, segment: int | None = None) -> None:
        def launch(variant: Any, name: str, _: Any, grid: Any, block: Any, arguments: tuple[int | float, ...]) -> None:
            boxes = [ctypes.c_double(x) if isinstance(x, float) else ctypes.c_longlong(x) for x in arguments]
            packed = (ctypes.c_void_p * len(boxes))(*(ctypes.addressof(box) for box in boxes))
            error = compiled(variant).launch_on_cpu(name.encode(), *grid, *block, ctypes.c_bool(downwards), packed, len(boxes))
            assert error is None, (name, error)

        monkeypatch.setattr(launching, "launch", launch)
        if segment is not None:
            monkeypatch.setattr(layouts.Layout, "segment", lambda _, heads, N: min(N, segment))

    # what would compile for a GPU is not needed, and nothing is refused for the want of one
    monkeypatch.setattr(load("linear.cuda"), "refusal", classmethod(lambda *_: None))
    for name in ("cuda", "cuda.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    use()
    return use


def called(phi: str = "elu_plus_one", eps: float = 1e-6, **shape: Any) -> Call:
    shape = {"B": 1, "H": 2, "dtype": "float64", "causal": True, **shape}
    return Call(Variant("linear.cuda", {"feature_map": phi, "eps": eps}), Problem(**shape))


@pytest.mark.parametrize(
    ("phi", "shape", "segment"),
    [
        *(("elu_plus_one", {"B": 2, "H": 1, "N": N, **SMALL}, None) for N in (1, 5, 63, 64, 257)),
        *(("elu_plus_one", {"N": 65, **SMALL}, segment) for segment in (16, 24, 64)),
        # widths beyond 64 are cut into slices
        ("squared_relu", {"N": 37, **WIDE}, None),
    ],
    ids=str,
)
def test_values_and_gradients_are_those_of_the_definition(
    phi: str, shape: dict[str, Any], segment: int | None, on_cpu: Any
) -> None:
    on_cpu(segment=segment)
    call = called(phi, **shape)
    same(call.results(), call.exact(), 1e-10)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("phi", ["elu_plus_one", "relu", pytest.param("squared_relu", marks=pytest.mark.slow)])
def test_hidden_keys_add_nothing_under_any_feature_map(phi: str) -> None:
    call, mask = called(phi, eps=1.0, B=2, N=40, **SMALL), torch.rand(2, 40) < 0.7
    same(call.results(key_mask=mask), call.exact(key_mask=mask), 1e-10)


@pytest.mark.usefixtures("on_cpu")
def test_tensors_of_any_layout_and_alignment_are_taken_but_not_of_other_shapes_and_dtypes() -> None:
    call = called(B=2, H=3, N=9, **SMALL)
    assert call.g is not None
    shifted = [torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view_as(x).copy_(x.detach()) for x in call.inputs]
    strided = tuple(x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in shifted)
    spread = call.g[..., :1].expand_as(call.g)
    same(call.results(inputs=strided, g=spread), call.results("reference", g=spread), 1e-10)
    q, k, v = call.inputs
    for others in ((q, k[:, :, 1:], v), (q, k, v[:1]), (q, k, v.half())):
        with pytest.raises(ValueError, match="must be"):
            call.method(*others)


def test_the_order_of_the_threads_cannot_be_seen_in_the_result(on_cpu: Any) -> None:
    on_cpu(segment=16)
    call = called("squared_relu", N=50, **WIDE)
    upwards = call.results()
    on_cpu(downwards=True, segment=16)
    assert all(torch.equal(a, b) for a, b in zip(call.results(), upwards, strict=True))


@pytest.mark.usefixtures("on_cpu")
def test_the_future_changes_no_bit_of_the_past_and_decoding_goes_on_from_it() -> None:
    call = called(B=2, N=50, **SMALL)
    later = (torch.cat((x[:, :, :21], x[:, :, 21:] + 1), 2) for x in call.inputs)
    assert torch.equal(call.forward(*later)[:, :, :21], call.forward()[:, :, :21])
    same([call.decoded(21)], [call.forward()], 1e-10)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(("dtype", "phi"), [("float32", "elu_plus_one"), ("bfloat16", "relu")])
def test_sums_are_float32_whatever_the_dtype(dtype: str, phi: str) -> None:
    call = called(phi, N=100, D=16, M=8, dtype=dtype)
    for got, want in zip(call.results(), call.exact(), strict=True):
        # the only rounding that shows is that of the result itself
        slack = (2 if dtype == "bfloat16" else 16) * torch.finfo(got.dtype).eps
        torch.testing.assert_close(got.double(), want, rtol=slack, atol=slack * float(want.abs().max()))


@pytest.mark.usefixtures("on_cpu")
def test_bfloat16_rounds_as_torch_does() -> None:
    # two ties, one up and one down; zero, a NaN, the largest and the smallest numbers, and some in between
    pairs = [[1, 1 + 2**-7], [1 + 2**-7, 1 + 2**-6], [0, 0], [float("nan"), 1], [3e38, 3e38], [1e-39, 0], [5, -7], [0.1, 1e3]]
    v_BHNM = torch.tensor(pairs).bfloat16().T[None, None].contiguous()
    one = torch.eye(16, dtype=torch.bfloat16)[:1].expand(1, 1, 2, 16)
    # one feature of one: the second output is the mean of the two values
    o, _ = product.causal_linear_forward(one, one, v_BHNM, "relu", 0.0)
    want = v_BHNM.float().mean(2, keepdim=True).bfloat16()
    torch.testing.assert_close(o[:, :, 1:], want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("on_cpu")
def test_the_operators_keep_torchs_rules() -> None:
    q, k, v = called(N=9, **SMALL).inputs
    torch.library.opcheck(product.causal_linear_forward, (q, k, v, "elu_plus_one", 1e-6))
    o, d = product.causal_linear_forward(q.detach(), k.detach(), v.detach(), "elu_plus_one", 1e-6)
    arguments = (o, [x.detach() for x in (q, k, v)], o, d, "elu_plus_one")
    torch.library.opcheck(product.causal_linear_backward, arguments)


def test_every_layout_fits_a_block_and_covers_its_widths_in_slices_of_64() -> None:
    assert layouts.layout(layouts.Pass.FORWARD, 68, 66, 8).slices == 2
    for D in range(1, layouts.WIDEST + 1):
        for of in layouts.Pass:
            plan = layouts.layout(of, D, layouts.WIDEST - D + 1, 4)
            assert plan.padded_rows - 4 * plan.lanes < plan.rows <= plan.padded_rows <= 16 * plan.lanes
            assert plan.columns <= plan.padded_columns
            assert plan.tile * 4 <= 48 << 10


def test_segments_are_many_where_heads_are_few_and_one_where_they_are_many() -> None:
    plan = layouts.layout(layouts.Pass.FORWARD, 64, 64, 2)
    assert [plan.segment(*of) for of in ((512, 4096), (16, 65536), (1, 300), (1, 5))] == [4096, 1312, 256, 5]
    assert [plan.stored(*of) for of in ((512, 4096), (16, 65536))] == [0, 16 * 50 * plan.state]


def test_it_says_where_it_cannot_run() -> None:
    x = torch.zeros(1, 1, 4, 8)
    with pytest.raises(ValueError, match="cuda"):
        product.causal_linear_forward(x, x, x, "relu", 0.0)
