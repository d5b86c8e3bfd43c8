"""The packages of others themselves: what is said of them beyond the contract, and what they wrote down of our methods."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench import Problem, registry
from attnbench.api import Cell
from tests.impls.contract.calls import Call, evaluated, inputs_of
from tests.impls.contract.families.landmark import METHODS
from tests.impls.contract.subjects import PEER, Variant

pytestmark = list(PEER)
NYSTROM = "landmark.nystrom_attention"
HUGGING = "lsh.transformers"


@pytest.mark.parametrize("params", METHODS[NYSTROM].variants, ids=str)
def test_of_one_head_and_sample_it_is_ours(params: dict[str, Any]) -> None:
    problem = Problem(B=1, H=1, N=64, D=8, dtype="float64")
    theirs: Any = registry.build(NYSTROM, problem, **params).double()
    ours: Any = registry.build("landmark.nystrom", problem, **params)
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.copy_(other.view_as(mine))
    inputs = inputs_of(ours)
    torch.testing.assert_close(theirs(*inputs), ours(*inputs), rtol=0, atol=1e-10)


def test_one_sample_moves_another() -> None:
    method: Any = registry.build(NYSTROM, Problem(B=2, H=1, N=64, D=8), landmarks=8)
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    q[1] *= 30
    k[1] *= 30
    assert not torch.allclose(method(q, k, v)[0], o[0], rtol=0, atol=1e-4)


def test_lucidrains_is_ours_with_one_matrix_for_all_heads() -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    ours: Any = registry.build("linformer.linformer", problem, k=16, sharing="headwise")
    theirs: Any = registry.build("linformer.lucidrains", problem, k=16).double()
    with torch.no_grad():
        ours.E.copy_(theirs.attention.proj_k.mT)
        ours.F.copy_(theirs.attention.proj_v.mT)
    inputs = inputs_of(ours)
    torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


def test_tatp22_is_ours_but_for_its_biases() -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    for sharing in ("none", "headwise", "key_value", "layerwise"):
        ours: Any = registry.build("linformer.linformer", problem, k=16, sharing=sharing)
        theirs: Any = registry.build("linformer.tatp22", problem, k=16, sharing=sharing).double()
        assert sum(x.numel() for x in theirs.parameters()) == sum(x.numel() for x in ours.parameters()) * 65 // 64
        with torch.no_grad():
            for h, head in enumerate(theirs.heads):
                ours.E[h % len(ours.E)].copy_(head.E.weight)
                head.E.bias.zero_()
                head.F.bias.zero_()
                if ours.F is not None:
                    ours.F[h % len(ours.F)].copy_(head.F.weight)
        inputs = inputs_of(ours)
        torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


def test_the_triangle_of_linformer_pytorch_leaks_the_future() -> None:
    """Its own flag hides projected keys, each of which mixes all tokens: the first output moves with the last token."""
    family, problem = "attnbench_impls.linformer", Problem(B=1, H=2, N=64, D=8, causal=True)
    options = import_module(f"{family}.options").Options(16)
    head = import_module(f"{family}.tatp22").heads_of(problem, options, causal=True)[0]
    q, k, v = (torch.randn(1, 64, 8) for _ in "qkv")
    with torch.no_grad():
        before = head(q, k, v)[:, 0].clone()
        v[:, -1] += 1
        after = head(q, k, v)[:, 0]
    assert float((after - before).abs().max()) > 1e-3


def test_a_token_that_sees_only_itself_is_off_in_several_rounds_of_hugging_face() -> None:
    method: Any = registry.build(HUGGING, Problem(B=1, H=4, N=256, D=8, causal=True), bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    off = ((method(qk, qk, v) - v)[:, :, 0].abs() / v[:, :, 0].abs()).max()
    # -100000 is spaced by 0.0078 in float32, half of which is what a weight of a quarter may be off
    assert 1e-4 < float(off) < 4e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_hugging_face_in_half_precision_is_off_where_it_is_refused(dtype: str) -> None:
    problem = Problem(B=1, H=4, N=256, D=8, causal=True, dtype=dtype)
    of: Any = registry.load(HUGGING)
    assert of.why_not(Cell(method=HUGGING, problem=problem))
    method = of(problem, bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    first, own = method(qk, qk, v)[:, :, 0].float(), v[:, :, 0].float()
    assert float((first - own).norm() / own.norm()) > 0.05


@pytest.mark.parametrize("N", [128, 192, 256, 4096, 8192, 65536])
@pytest.mark.parametrize("bucket_size", [4, 16, 64])
def test_hugging_face_would_set_the_same_number_of_buckets(N: int, bucket_size: int) -> None:
    method: Any = registry.build(HUGGING, Problem(B=1, H=1, N=N, D=8), bucket_size=bucket_size)
    given = method.attention.num_buckets
    method.attention._set_num_buckets(N)
    assert method.attention.num_buckets == given


def test_the_naive_kda_has_no_gradient_where_a_chunk_loses_much() -> None:
    method: Any = registry.build("delta.kda_fla_naive", Problem(N=64, D=8, causal=True))
    *inputs, log_decay = inputs_of(method)
    strong = torch.full_like(log_decay, -3.0).requires_grad_()
    o, *gradients = evaluated(method, (*inputs, strong), torch.randn_like(inputs[2]), ())
    torch.testing.assert_close(o, method.reference(*inputs, strong), rtol=0, atol=1e-5)
    assert any(x.isnan().any() for x in gradients)


def test_based_is_the_packages_own_plain_function() -> None:
    from fla.ops.based.naive import naive_parallel_based

    method: Any = registry.build("linear.based", Problem(B=2, H=3, N=64, D=16, M=5, causal=True, dtype="float64"))
    inputs = [x.detach() for x in inputs_of(method)]
    torch.testing.assert_close(method(*inputs), naive_parallel_based(*inputs), rtol=0, atol=1e-10)


def called(name: str, params: dict[str, Any] | None = None, **shape: int) -> Call:
    return Call(Variant(name, params or {}), Problem(**{"B": 2, "D": 16, "causal": True, **shape}))


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Softmax attention with what is added to its scores, pairs of heads sharing keys."""
    k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
    return (q @ k.mT / 4 + bias).softmax(-1) @ v


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_forgetting_attention_is_that_of_flash_linear_attention(kv_heads: int) -> None:
    from fla.ops.forgetting_attn.naive import naive_forgetting_attn

    call = called("softmax.fox", H=4, kv_heads=kv_heads, N=97)
    theirs = naive_forgetting_attn(*(x.detach().transpose(1, 2) for x in call.inputs))
    torch.testing.assert_close(call.forward(), theirs.transpose(1, 2), rtol=0, atol=2e-5)


def test_a_window_with_sinks_is_that_of_gpt_oss() -> None:
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    call = called("sparse.window_sinks", {"window": 9}, H=4, kv_heads=2, N=65)
    method: Any = call.method
    apart = torch.arange(65)[:, None] - torch.arange(65)
    mask = torch.zeros(65, 65).masked_fill((apart < 0) | (apart >= 9), -torch.inf)
    module = SimpleNamespace(num_key_value_groups=2, sinks=method.sinks.detach(), training=False)
    theirs, _ = eager_attention_forward(module, *(x.detach() for x in call.inputs), mask, 16**-0.5)
    torch.testing.assert_close(call.forward(), theirs.transpose(1, 2), rtol=0, atol=2e-6)


def test_the_first_lambda_is_that_of_diff_llama() -> None:
    from transformers.models.diffllama.modeling_diffllama import lambda_init_fn

    for layer in (0, 5):
        method: Any = Variant("softmax.differential", {"layer": layer}).build(Problem(N=8, D=16))
        assert method.first == pytest.approx(lambda_init_fn(layer))


FORMS = Path(__file__).parents[2] / "benchmarks" / "plain_forms.py"
DELTA_RULES = ("Comba", "GatedDeltaNet2", "GatedDeltaNet2ByChunks", "DeltaProduct", "GatedDeltaProduct", "Mesa")
RACED: dict[str, dict[str, int]] = {
    **{f"Plain{name}": {} for name in (*DELTA_RULES, "Slots", "LogLinear", "Forgetting", "Path")},
    "MaskedDsa": {"k": 20},
    "MaskedSinkWindow": {"window": 9},
    "MaskedQsa": {"k": 16, "block": 8},
    "MaskedMsa": {"block": 16, "selected": 3},
    "MaskedHca": {"block": 16, "window": 20},
    "MaskedCsa": {"block": 4, "window": 20, "k": 6},
}
"""The rivals of plain_forms.yaml and softmax_forms.yaml in tests/benchmarks, with their parameters."""


@pytest.mark.parametrize("name", RACED)
def test_what_others_write_in_plain_torch_is_our_definition(name: str) -> None:
    M = 16 if name in {"PlainMesa", "MaskedHca", "MaskedCsa"} else 12
    call = called(f"{FORMS}:{name}", RACED[name], H=2, N=128, M=M)
    # what they learn is as it is at first
    call.method = type(call.method)(call.problem, **RACED[name])
    ours = call.method.reference(*call.inputs, **call.given)
    torch.testing.assert_close(call.forward(), ours, rtol=0, atol=5e-5 * float(ours.abs().max()))


def test_models_that_learn_are_those_of_flash_linear_attention_but_for_what_they_add() -> None:
    """It adds what is normed to its norm, where the paper adds the query; and the query's rate is that of all keys."""
    from fla.ops.ttt.naive import chunk_ttt_linear_ref

    call = called("delta.ttt_linear", H=2, N=128)
    # what it learns is as it is at first
    call.method = type(call.method)(call.problem)
    with torch.no_grad():
        call.inputs[3].fill_(0.04)
    q, k, v, rates = (x.detach().transpose(1, 2) for x in call.inputs)
    method: Any = call.method
    begin, (scale, shift) = method.begin.detach(), method.norm.detach()
    given = {"initial_state": begin[:, :-1].expand(2, -1, -1, -1), "initial_state_bias": begin[:, -1:].expand(2, -1, -1, -1)}
    theirs, *_ = chunk_ttt_linear_ref(q.clone(), k, v, scale, shift, rates.unsqueeze(-1), scale=1.0, **given)
    # of z + norm(z) the norm is that of z
    near_to_norm = torch.nn.functional.layer_norm(theirs.transpose(1, 2), (16,))
    torch.testing.assert_close(call.forward() - call.inputs[0].detach(), near_to_norm, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_reflections_between_tokens_are_those_of_flash_linear_attention(kv_heads: int) -> None:
    from fla.ops.path_attn.naive import naive_path_attn

    call = called("softmax.path", H=4, kv_heads=kv_heads, N=300)
    theirs = naive_path_attn(*(x.detach().transpose(1, 2) for x in call.inputs), g=torch.zeros(2, 300, 4), scale=0.25)
    torch.testing.assert_close(call.forward(), theirs.transpose(1, 2), rtol=0, atol=2e-5)


def test_chosen_tokens_are_those_of_flash_linear_attention() -> None:
    from fla.ops.dsa.naive import naive_dsa, naive_dsa_indexer

    call = called("sparse.dsa", {"k": 20}, H=8, kv_heads=2, N=97)
    q, k, v, index_q, index_k, w = (x.detach().transpose(1, 2) for x in call.inputs)
    assert call.choices is not None
    ours = call.choices[:, 0]
    theirs = naive_dsa(q, k, v, None, None, None, indices=ours)
    torch.testing.assert_close(call.forward(), theirs.transpose(1, 2), rtol=0, atol=2e-6)
    # tokens that no index head answers to are alike to theirs
    scores = torch.einsum("bthe,bse->bths", index_q, index_k[:, :, 0]).relu().mul(w.unsqueeze(-1)).sum(2)
    chosen = naive_dsa_indexer(index_q, index_k[:, :, 0], w, topk=20, activation="relu")
    mine, other = (scores.gather(2, x.clamp(min=0)).masked_fill(x < 0, 0).sort(-1).values for x in (ours, chosen))
    torch.testing.assert_close(mine, other, rtol=0, atol=1e-4)


def given(x: torch.Tensor) -> Any:
    """A projection that gives what is given."""
    return type("Given", (torch.nn.Module,), {"forward": lambda *_: x})()


@pytest.mark.parametrize(
    ("name", "params", "kind"),
    [
        ("blocks.hca", {"block": 8, "window": 12}, "DeepseekV4HCACompressor"),
        ("blocks.csa", {"block": 4, "window": 12, "k": 5}, "DeepseekV4CSACompressor"),
    ],
)
def test_compression_is_that_of_deepseek(name: str, params: dict[str, int], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transformers, given what its projections would make, and without its rotation."""
    from transformers.models.deepseek_v4 import modeling_deepseek_v4 as v4
    from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config

    call, N = called(name, params, H=4, N=65), 65
    # of the scorer queries and entries above 0, or scores of 0 would be alike, of which any may be kept
    inputs = tuple(x.detach().abs() if i in {4, 5} else x.detach() for i, x in enumerate(call.inputs))
    ours: Any = call.method
    rates = {"compressed_sparse_attention": params["block"], "heavily_compressed_attention": params["block"]}
    widths = {"hidden_size": 16, "head_dim": 16, "num_attention_heads": 4, "q_lora_rank": 16, "num_hidden_layers": 2}
    index = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": params.get("k", 1)}
    config = DeepseekV4Config(**widths, **index, compress_rates=rates, rms_norm_eps=1e-6)
    monkeypatch.setattr(v4, "apply_rotary_pos_emb", lambda x, *_, **__: x)
    theirs: Any = getattr(v4, kind)(config)

    def alike(compressor: Any, own: Any, u: torch.Tensor, z: torch.Tensor) -> None:
        compressor.kv_proj, compressor.gate_proj = given(u.squeeze(1)), given(z.squeeze(1))
        compressor.position_bias.data, compressor.kv_norm.weight.data = own.bias.detach(), own.norm.detach()

    q, c, u, z, *scorer = inputs
    alike(theirs, ours.compress, u, z)
    if scorer:
        index_q, index_u, index_z, w = scorer
        alike(theirs.indexer, ours.compress_index, index_u, index_z)
        theirs.indexer.q_b_proj = given(index_q.transpose(1, 2).flatten(2))
        theirs.indexer.scorer.weights_proj = given(w.transpose(1, 2))
    hidden, positions = torch.zeros(2, N, 16), torch.arange(N).expand(2, -1)
    entries, bias = theirs(hidden, hidden, positions, None, 0)
    apart = torch.arange(N)[:, None] - torch.arange(N)
    mask = torch.zeros(2, 1, N, N).masked_fill((apart < 0) | (apart >= params["window"]), -torch.inf)
    module = SimpleNamespace(num_key_value_groups=4, sinks=ours.sink.detach(), training=False)
    keys, mask = torch.cat((c, entries), 2), torch.cat((mask, bias.expand(2, -1, -1, -1)), -1)
    want, _ = v4.eager_attention_forward(module, q, keys, keys, mask, 16**-0.5)
    torch.testing.assert_close(ours(*inputs), want.transpose(1, 2), rtol=0, atol=2e-6)


def test_blocks_by_index_are_those_of_minimax_m3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transformers, given what its projections and norms would make, and without its rotation."""
    from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as m3

    call = called("blocks.msa", {"block": 8, "selected": 3, "local": 2}, H=4, kv_heads=2, N=65)
    monkeypatch.setattr(m3, "apply_rotary_pos_emb", lambda q, k, *_: (q, k))
    sizes = {"head_dim": 16, "n_heads": 2, "block_size": 8, "topk_blocks": 3, "local_blocks": 2}
    index = {f"index_{name}": size for name, size in sizes.items()}
    config = SimpleNamespace(**index, hidden_size=16, rms_norm_eps=1e-6, num_attention_heads=4)
    indexer: Any = m3.MiniMaxM3VLIndexer(config, 0)
    q, k, v, index_q, index_k = (x.detach() for x in call.inputs)
    indexer.q_proj, indexer.k_proj = given(index_q.transpose(1, 2).flatten(2)), given(index_k.transpose(1, 2).flatten(2))
    indexer.q_norm = indexer.k_norm = torch.nn.Identity()
    positions, rotation = torch.arange(65).expand(2, -1), torch.zeros(2, 65, 16)
    found = indexer(rotation, (rotation, rotation), None, positions)
    mask = indexer.build_block_mask(found, None, 65, torch.float32, q.device, positions)
    torch.testing.assert_close(call.forward(), dense(q, k, v, mask), rtol=0, atol=2e-6)


def test_tokens_of_indexed_blocks_are_those_of_qwen4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transformers, given what its projections and the norm of queries would make, and without its rotation."""
    from transformers.models.qwen4_exp import modeling_qwen4_exp as q4

    call = called("sparse.qsa", {"k": 12, "block": 4}, H=4, kv_heads=2, N=65)
    monkeypatch.setattr(q4, "apply_rotary_pos_emb", lambda x, **_: x)
    sizes = {"n_heads": 2, "kv_heads": 1, "head_dim": 8, "budget": 12, "compress_ratio": 4}
    config = SimpleNamespace(**{f"indexer_{name}": size for name, size in sizes.items()}, hidden_size=16, rms_norm_eps=1e-6)
    indexer: Any = q4.Qwen4ExpTextQSAIndexer(config, 0)
    # queries above 0 answer to every block whose key is above 0 anywhere, and so no two scores are alike
    inputs = tuple(x.detach().abs() if i > 2 else x.detach() for i, x in enumerate(call.inputs))
    q, k, v, index_q, index_k = inputs
    indexer.index_qk_proj = given(torch.cat((index_q.transpose(1, 2).flatten(2), index_k.squeeze(1)), -1))
    indexer.q_layernorm = torch.nn.Identity()
    causal, rotation = torch.ones(2, 1, 65, 65, dtype=torch.bool).tril(), torch.zeros(2, 65, 8)
    seen = indexer(torch.zeros(2, 65, 16), (rotation, rotation), causal, None) & causal
    bias = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
    torch.testing.assert_close(call.method(*inputs), dense(q, k, v, bias), rtol=0, atol=2e-6)
