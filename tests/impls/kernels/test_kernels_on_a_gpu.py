"""Our kernels on a GPU: widths, TF32, bits, streams and graphs; the rest is in the contract of all methods."""

import threading
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem
from attnbench.registry import load
from tests.impls.contract.calls import Call, evaluated, no_worse, turned
from tests.impls.contract.subjects import Variant

pytestmark = pytest.mark.cuda
ROUNDING = 2e-6
"""What float32 leaves of a gradient that is exactly 0, as of a single key's."""
DTYPES = ["float32", "bfloat16", "float16"]
CUDA, LINEAR = Variant("linear.cuda"), Variant("linear.triton")
STRIDED, FIXED = Variant("sparse.strided_triton", {"stride": 32}), Variant("sparse.fixed_triton", {"stride": 64, "c": 8})
LONGFORMER = Variant("sparse.longformer_triton", {"window": 64, "globals": 5})
VQ = Variant("vq.triton", {"codes": 96, "block": 128})
TRITON = [LINEAR, STRIDED, FIXED, LONGFORMER, VQ]
EACH = pytest.mark.parametrize("variant", [CUDA, *TRITON], ids=str)


def called(variant: Variant = CUDA, **shape: Any) -> Call:
    if variant is CUDA:
        pytest.importorskip("cuda.core", minversion="1.0")
    return Call(variant, Problem(**{"B": 1, "H": 2, "D": 64, "causal": True, **shape}), "cuda")


def assert_as_good_as_eager(call: Call) -> None:
    eager, exact = call.measure()
    # the codebook is rounded to the dtype of the keys, and that of the wide reference is not
    codes = 4 * torch.finfo(getattr(torch, call.problem.dtype)).eps if call.choices is not None else 0.0
    no_worse(call.results(), eager, exact, ROUNDING + codes * max(float(x.abs().max()) for x in exact))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("D", "M"), [(16, 16), (32, 128), (128, 32), (128, 128), (256, 256), (256, 20), (20, 9), (1, 1)])
@EACH
def test_widths_may_differ(variant: Variant, D: int, M: int, dtype: str) -> None:
    if variant not in (CUDA, LINEAR) or max(D, M) <= 128:
        assert_as_good_as_eager(called(variant, N=700, D=D, M=M, dtype=dtype))


@pytest.mark.parametrize(
    ("variant", "shape"),
    [
        # of vq 64 tables, each made of the one before it
        *((variant, {"N": 8192, "dtype": dtype}) for variant in (LINEAR, VQ) for dtype in DTYPES),
        *((LONGFORMER, {"N": 8192, "dtype": dtype, "causal": False}) for dtype in DTYPES),
        # so many heads that one segment is enough
        *((variant, {"B": 16, "H": 32, "N": 1000, "dtype": "bfloat16"}) for variant in (CUDA, LINEAR)),
        *(
            (Variant("vq.triton", {"codes": codes, "block": block}), {"B": 2, "N": 2000})
            for codes, block in ((512, 512), (1, 7), (100, 100))
        ),
    ],
    ids=str,
)
def test_sequences_may_be_long_heads_many_and_blocks_and_codebooks_of_any_size(variant: Variant, shape: dict[str, Any]) -> None:
    assert_as_good_as_eager(called(variant, **shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("D", [1, 20, 64, 128, 256])
def test_the_codes_chosen_are_the_nearest(D: int, dtype: str) -> None:
    """By exact distances, but for what float32 leaves of them."""
    call = called(VQ, B=2, N=3000, D=D, dtype=dtype)
    k = call.method.normalised(call.inputs[1].detach())
    exact, codebook = k.double(), call.method.codebook.vectors.double()
    distances = torch.cdist(exact.transpose(0, 1).flatten(1, 2), codebook, compute_mode="donot_use_mm_for_euclid_dist").square()
    codes = call.method.assigned(k).transpose(0, 1).flatten(1).unsqueeze(-1)
    assert float((distances.gather(-1, codes)[..., 0] - distances.amin(-1)).max()) <= 1e-5 * float(distances.max())


def test_float16_survives_denominators_that_it_cannot_hold() -> None:
    call = called(B=1, H=1, N=65536, dtype="float16")
    method, (q, k, v) = call.method, (x.detach() for x in call.inputs)
    fq, fk = method.phi(q[0, 0, -1].double()), method.phi(k[0, 0].double())
    want = fq @ fk.mT @ v[0, 0].double() / (fq @ fk.mT).sum()
    assert float((method(q, k, v)[0, 0, -1].double() - want).abs().max()) < 1e-3 < float(want.abs().max())


@pytest.mark.parametrize("variant", TRITON, ids=str)
def test_tf32_is_taken_where_torch_allows_it(variant: Variant) -> None:
    call = called(variant, N=1000)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        got = call.results()
    finally:
        torch.set_float32_matmul_precision(before)
    for o, r in zip(got, call.exact(), strict=True):
        off, largest = float((o - r).abs().max()), float(r.abs().max())
        assert 1e-6 * largest < off < 1e-2 * largest


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@EACH
def test_the_same_call_gives_the_same_bits_in_any_layout(variant: Variant, dtype: str, causal: bool) -> None:
    if causal or variant not in (CUDA, LINEAR):
        call = called(variant, B=2, N=4096, dtype=dtype, causal=causal)
        first = call.results()
        for others in (call.inputs, turned(call.inputs, 1, 2)):
            assert all(torch.equal(a, b) for a, b in zip(first, call.results(inputs=others), strict=True))


@pytest.mark.parametrize("variant", [CUDA, LINEAR, STRIDED], ids=str)
def test_it_compiles_into_one_graph(variant: Variant) -> None:
    call = called(variant, N=300)
    got = evaluated(torch.compile(call.method, fullgraph=True), call.inputs, call.g, ())
    torch.testing.assert_close(got, call.results())


def test_the_operator_of_vq_compiles_into_one_graph() -> None:
    """What is before it is torch's own."""
    call = called(VQ, N=300)
    k_hat, codes, codebook = call.method.coded(call.inputs[1].detach(), None)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = call.method.attend(q, k, v, codes, codebook, 128, True, True)[0]
        return o

    leaves = (call.inputs[0], k_hat.requires_grad_(), call.inputs[2])
    compiled = torch.compile(attend, fullgraph=True)
    torch.testing.assert_close(evaluated(compiled, leaves, call.g, ()), evaluated(attend, leaves, call.g, ()))


def test_it_is_launched_on_the_current_stream_into_a_graph_and_by_a_thread_that_never_touched_the_device() -> None:
    call, stream, graph = called(N=4096), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    want, found = call.forward(), list[Tensor]()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        found.append(call.forward())
    assert not stream.query()
    stream.synchronize()
    with torch.cuda.graph(graph):
        found.append(call.forward())
    found[1].zero_()
    graph.replay()
    thread = threading.Thread(target=lambda: found.append(call.forward()))
    thread.start()
    thread.join()
    assert all(torch.equal(o, want) for o in found)
    assert len(found) == 3


@pytest.mark.parametrize("family", ["linear", "sparse", "vq"])
def test_other_blocks_can_be_timed(family: str) -> None:
    measure: Any = import_module(f"attnbench_impls.{family}.triton.measure")
    tuning: Any = import_module(f"attnbench_impls.{family}.triton.tuning")
    problem = Problem(B=1, H=2, N=1024, D=32, dtype="bfloat16", causal=True)
    window: Any = load("sparse.window_triton")
    about = {
        "linear": (),
        "sparse": (window(Problem(B=1, H=2, N=64, D=32, causal=True), window=128).pattern,),
        "vq": (import_module("attnbench_impls.vq.options").VQOptions(),),
    }
    ((seconds, _),) = measure.timed(problem, *about[family], "attend", [tuning.Launch(64, 32, 4, 2)])
    assert seconds > 0
