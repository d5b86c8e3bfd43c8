"""What other people's packages are called with, by small stand-ins that compute softmax attention densely."""

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.forms import packed
from tests.impls.contract.calls import inputs_of
from tests.impls.peers.stand_ins import Calls, install, is_its_definition, load

FLASH, XFORMERS = "softmax.flash_attn", "softmax.xformers"
FLASHES = {FLASH: "flash_attn", f"{FLASH}_3": "flash_attn_interface", f"{FLASH}_4": "flash_attn.cute"}
"""The methods, and the modules of their packages."""


def dense_BNHD(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Softmax attention of [B, N, H, D], heads of k and v shared by neighbours, written apart from the project's own."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], dim=2) for x in (k, v))
    scores_BHNN = torch.einsum("bnhd,bmhd->bhnm", q, k) * scale
    if causal:
        scores_BHNN = scores_BHNN + torch.full_like(scores_BHNN, float("-inf")).triu(1)
    return torch.einsum("bhnm,bmhd->bnhd", scores_BHNN.softmax(-1), v).contiguous()


def documents_BNHD(q: Tensor, k: Tensor, v: Tensor, starts: list[int], scale: float, causal: bool) -> Tensor:
    """The same of [N, H, D], where documents begin and the last ends."""
    documents = zip(*(x.unsqueeze(0).tensor_split(starts[1:-1], 1) for x in (q, k, v)), strict=True)
    return torch.cat([dense_BNHD(q, k, v, scale, causal) for q, k, v in documents], 1)[0]


class LowerTriangularMask:
    """What xformers calls its causal mask."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Puts all stand-ins in place, and records each call."""
    seen: Calls = []

    def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, *, softmax_scale: float, causal: bool) -> Tensor:
        seen.append({"tensors": (q, k, v), "scale": softmax_scale, "causal": causal})
        return dense_BNHD(q, k, v, softmax_scale, causal)

    def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens_q: Tensor, **named: Any) -> Tensor:
        seen.append({"tensors": (q, k, v), "borders": cu_seqlens_q, **named})
        return documents_BNHD(q, k, v, cu_seqlens_q.tolist(), named["softmax_scale"], named["causal"])

    def memory_efficient_attention(q: Tensor, k: Tensor, v: Tensor, *, attn_bias: Any, scale: float) -> Tensor:
        assert attn_bias is None or isinstance(attn_bias, LowerTriangularMask)
        seen.append({"tensors": (q, k, v), "scale": scale, "causal": attn_bias is not None})
        return dense_BNHD(q, k, v, scale, attn_bias is not None)

    def later(function: Any) -> Any:
        return lambda *tensors, **named: (function(*tensors, **named), None)

    functions = {"flash_attn_func": flash_attn_func, "flash_attn_varlen_func": flash_attn_varlen_func}
    install(monkeypatch, "flash_attn", **functions)
    install(monkeypatch, "flash_attn_interface", **functions)
    install(monkeypatch, "flash_attn.cute", **{name: later(function) for name, function in functions.items()})
    attend = memory_efficient_attention
    install(monkeypatch, "xformers.ops", memory_efficient_attention=attend, LowerTriangularMask=LowerTriangularMask)
    return seen


@pytest.mark.parametrize(
    ("name", "shape"),
    [*((name, shape) for name in FLASHES for shape in ({}, {"kv_heads": 2})), (XFORMERS, {}), (XFORMERS, {"M": 5})],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_the_package_is_called_so_that_softmax_attention_comes_out_and_nothing_is_copied(
    name: str, shape: dict[str, Any], causal: bool, calls: Calls
) -> None:
    method = load(name)(Problem(**{"B": 2, "H": 4, "N": 33, "D": 9, "causal": causal, "dtype": "float64", **shape}))
    inputs, o = is_its_definition(method)
    (call,) = calls
    assert (call["causal"], call["scale"]) == (causal, pytest.approx(1 / 3))
    for given, x in zip(inputs, call["tensors"], strict=True):
        assert x.shape == given.transpose(1, 2).shape
        assert x.is_contiguous()
        assert x.data_ptr() == given.data_ptr()
    assert o.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", FLASHES)
def test_documents_in_one_row_are_one_call_that_is_told_where_they_begin(name: str, causal: bool, calls: Calls) -> None:
    shape = {"B": 1, "H": 4, "kv_heads": 2, "N": 33, "D": 8, "causal": causal, "dtype": "float64", "documents": (20, 1, 12)}
    method: Any = packed(load(name))(Problem(**shape))
    inputs, _ = is_its_definition(method)
    (call,) = calls
    assert call["borders"] is call["cu_seqlens_k"]
    assert (call["borders"].tolist(), call["borders"].dtype) == ([0, 20, 21, 33], torch.int32)
    assert call["max_seqlen_q"] == call["max_seqlen_k"] == 20
    assert [x.shape for x in call["tensors"]] == [(33, 4, 8), (33, 2, 8), (33, 2, 8)]
    # what every call needs is on the device already
    method(*inputs)
    assert calls[1]["borders"] is call["borders"]


def test_torch_s_own_flash_kernel_takes_documents_in_one_call_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    method: Any = load("softmax.sdpa_flash")(Problem(B=1, H=4, kv_heads=2, N=33, D=8, causal=True))
    called: list[Any] = []

    def varlen_attn(q: Tensor, k: Tensor, v: Tensor, *ends: Any, scale: float, window_size: Any, enable_gqa: bool) -> Tensor:
        called.append((q.shape, k.shape, v.shape, [*map(str, ends)], scale, window_size, enable_gqa))
        return q

    class OnCuda(Tensor):
        is_cuda = True

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    inputs = tuple(torch.zeros(1, heads, 33, 8).as_subclass(OnCuda) for heads in (4, 2, 2))
    assert method.attend_documents(method.forward, inputs, (20, 13)).shape == (1, 4, 33, 8)
    at = str(torch.tensor([0, 20, 33], dtype=torch.int32))
    assert called == [((33, 4, 8), (33, 2, 8), (33, 2, 8), [at, at, "20", "20"], pytest.approx(8**-0.5), (-1, 0), True)]


@pytest.mark.parametrize(
    ("name", "capability", "D", "said"),
    [
        (f"{FLASH}_3", (9, 0), 64, None),
        (f"{FLASH}_3", (10, 0), 64, "for compute capability 9.x, not for 10.x"),
        (f"{FLASH}_4", (8, 6), 64, "no backward for compute capability 8.x"),
        (f"{FLASH}_4", (9, 0), 192, None),
        (f"{FLASH}_4", (10, 3), 256, None),
        (f"{FLASH}_4", (10, 3), 192, "beyond 128"),
        (f"{FLASH}_4", (12, 0), 256, "beyond 128"),
        (FLASH, (8, 6), 64, None),
        ("softmax.sdpa_fa3", (9, 0), 64, None),
        ("softmax.sdpa_fa3", (8, 9), 64, "for compute capability 9.x, not for 8.x"),
        ("softmax.sdpa_fa4", (12, 0), 64, "for compute capability 9.x and 10.x, not for 12.x"),
    ],
)
def test_what_a_gpu_of_another_generation_has_no_kernel_for_is_refused_in_words(
    name: str, capability: tuple[int, int], D: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    cell = Cell(method=name, problem=Problem(N=64, D=D, dtype="float16"), workload=Workload.FORWARD_BACKWARD, device="cuda:0")
    refusal = load(name).refusal(cell)
    assert refusal is None if said is None else said in str(refusal)


@pytest.mark.parametrize("switch", ["FA3", "FA4"])
def test_torch_s_switch_is_set_when_built_and_a_torch_without_is_named(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    switched: list[str] = []
    name, problem = f"softmax.sdpa_{switch.lower()}", Problem(N=64, dtype="float16")
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", switched.append)
    load(name)(problem)
    assert switched == [switch]
    monkeypatch.delattr(torch.nn.attention, "list_flash_attention_impls")
    cell = Cell(method=name, problem=problem, device="cuda:0")
    assert f"has no switch to {switch}; take 2.11 or later" in str(load(name).refusal(cell))


class TestFlashInfer:
    """The wrappers as the package documents them: sequences in one row; a page [B, K, page, D] for each."""

    @pytest.fixture
    def plans(self, monkeypatch: pytest.MonkeyPatch) -> Calls:
        made: Calls = []

        class Decodes:
            def __init__(self, workspace: Tensor, kv_layout: str, *, use_tensor_cores: bool = False) -> None:
                assert kv_layout == "HND"
                assert not workspace.any()
                self.use_tensor_cores = use_tensor_cores

            def plan(self, starts: Tensor, pages: Tensor, lengths: Tensor, *sizes: int, sm_scale: float, **kinds: Any) -> None:
                assert {x.dtype for x in (starts, pages, lengths)} == {torch.int32}
                self.starts, self.pages, self.lengths, self.sizes, self.scale = starts, pages, lengths, sizes, sm_scale
                made.append({"lengths": lengths.tolist(), **kinds, "use_tensor_cores": self.use_tensor_cores})

            def run(self, q: Tensor, pages: tuple[Tensor, Tensor]) -> Tensor:
                H, kv_heads, D, page = self.sizes
                assert q.shape[1:] == (H, D)
                assert all(x.shape[1:] == (kv_heads, page, D) for x in pages)
                rows = []
                for b in range(len(q)):
                    (at,) = self.pages[self.starts[b] : self.starts[b + 1]]
                    k, v = (x[at, :, : self.lengths[b]].transpose(0, 1)[None] for x in pages)
                    rows.append(dense_BNHD(q[b][None, None], k, v, self.scale, causal=False)[0, 0])
                return torch.stack(rows)

        class Prefills:
            def __init__(self, workspace: Tensor, kv_layout: str) -> None:
                assert kv_layout == "NHD"
                self.compiled = sys  # a module, as the package's own, which nobody can copy

            def plan(self, q_starts: Tensor, k_starts: Tensor, *sizes: int, causal: bool, sm_scale: float, **_: Any) -> None:
                assert torch.equal(q_starts, k_starts)
                self.starts, self.scale, self.causal = q_starts.tolist(), sm_scale, causal
                made.append({"starts": self.starts})

            def run(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                return documents_BNHD(q, k, v, self.starts, self.scale, self.causal)

        wrappers = {"BatchDecodeWithPagedKVCacheWrapper": Decodes, "BatchPrefillWithRaggedKVCacheWrapper": Prefills}
        install(monkeypatch, "flashinfer", **wrappers)
        return made

    @pytest.mark.parametrize("kv_heads", [4, 1])
    @pytest.mark.parametrize("causal", [False, True])
    def test_whole_sequences_are_softmax_attention(self, plans: Calls, kv_heads: int, causal: bool) -> None:
        method = load("softmax.flashinfer")(Problem(B=3, H=4, kv_heads=kv_heads, N=9, D=64, causal=causal, dtype="float64"))
        for _ in range(2):
            is_its_definition(method)
        # planned once
        assert plans == [{"starts": [0, 9, 18, 27]}]

    @pytest.mark.parametrize("kv_heads", [4, 1])
    def test_steps_are_those_of_softmax_attention_and_each_length_is_planned_once(self, plans: Calls, kv_heads: int) -> None:
        method = load("softmax.flashinfer")(Problem(B=2, H=4, kv_heads=kv_heads, N=9, D=64, causal=True, dtype="float64"))
        inputs = [x.detach() for x in inputs_of(method)]
        first, state = method.prefill(*(x[:, :, :5] for x in inputs), capacity=12)
        outputs, token = [first], [x[:, :, 5:6] for x in inputs]
        method.step(*token, state=state)
        with pytest.MonkeyPatch.context() as patch:
            # what is planned a CUDA graph can hold: nothing is copied to the device or read from it
            patch.setattr(Tensor, "to", None)
            patch.setattr(Tensor, "tolist", None)
            method.step(*token, state=state)
        for t in range(5, 9):
            o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
            outputs.append(o)
        torch.testing.assert_close(torch.cat(outputs, dim=2), method.reference(*inputs), rtol=0, atol=1e-10)
        kinds = {"q_data_type": torch.float64, "kv_data_type": torch.float64, "use_tensor_cores": kv_heads == 1}
        assert [plan for plan in plans if "lengths" in plan] == [{"lengths": [n, n], **kinds} for n in (6, 7, 8, 9)]


def in_int8(x: Tensor, block: int) -> Tensor:
    """Rounded as sageattention documents it, written apart from the project's own."""
    N = x.shape[2]
    padded = torch.cat([x, x.new_zeros(*x.shape[:2], -N % block, x.shape[3])], dim=2).unflatten(2, (-1, block))
    scale = padded.abs().amax(dim=(3, 4), keepdim=True) / 127
    ratio = padded / scale
    rounded: Tensor = ((ratio + 0.5 * ratio.sign()).trunc() * scale).flatten(2, 3)[:, :, :N]
    return rounded


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_sage_is_called_so_that_its_definition_comes_out_near_softmax(kv_heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Calls = []

    def sageattn(q: Tensor, k: Tensor, v: Tensor, *, sm_scale: float, **how: Any) -> Tensor:
        calls.append({"k": k, **how})
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (in_int8(k, 64), v))
        o: Tensor = (in_int8(q * sm_scale, 128) @ k.mT).softmax(-1) @ v
        return o

    install(monkeypatch, "sageattention", sageattn=sageattn)
    method = load("softmax.sage")(Problem(B=2, H=4, kv_heads=kv_heads, N=192, D=64, dtype="float64"))
    q, k, v = (x.detach() for x in inputs_of(method))
    before, want, heads = k.clone(), method.reference(q, k, v), 4 // kv_heads
    torch.testing.assert_close(method(q, k, v), want, rtol=0, atol=1e-10)
    (call,) = calls
    # whose mean is taken off outside, or the caller's keys would change
    assert call.pop("k").mean(dim=2).abs().max() < 1e-12
    assert torch.equal(k, before)
    assert call == {"tensor_layout": "HND", "is_causal": False, "smooth_k": False}
    at = torch.tensor([0, 100, 127, 128, 191])
    rows = method.rows(3, at, q[0, 3], k[0, 3 // heads], v[0, 3 // heads])
    torch.testing.assert_close(rows, want[0, 3, at], rtol=0, atol=1e-12)
    # later versions choose another function by the GPU
    assert not Requirement(method.requires[0]).specifier.contains("2.2.0")
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert 1e-3 < (want - exact).norm() / exact.norm() < 0.05


INTERPRETED = """
import torch
from sageattention.attn_qk_int8_per_block import forward
from sageattention.quant_per_block import per_block_int8
from attnbench import Problem, registry

torch.manual_seed(0)
for N in (192, 200):
    q, k, v = (torch.randn(1, 2, N, 64, dtype=torch.float16) for _ in range(3))
    q8, q_scale, k8, k_scale = per_block_int8(q, k - k.mean(2, keepdim=True))
    got = forward(q8, k8, v, q_scale, k_scale, output_dtype=torch.float16).double()
    method = registry.load("softmax.sage")(Problem(B=1, H=2, N=N, D=64, dtype="float16"))
    print(float((got - method.reference(q.double(), k.double(), v.double())).abs().max()))
"""


@pytest.mark.peers
def test_the_kernels_of_sageattention_round_as_its_definition_here_and_count_keys_beyond_the_end() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    whole, ragged = map(float, done.stdout.split())
    assert whole < 5e-3
    assert ragged > 5e-2
