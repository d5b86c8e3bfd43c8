"""Methods as attention implementations of transformers, and with gates, states and weights of their own in a model's layers."""

import weakref
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Causality
from attnbench.registry import MissingPackageError, UnsupportedError
from tests.hf.conftest import KINDS, LAYERS, logits, model_of, padded, tokens_of, written

pytestmark = pytest.mark.peers
EXACT = ("softmax.sdpa", "softmax.naive")
SAMPLE = ("softmax.sdpa", "softmax.mla", "linear.chunked", "delta.gated_deltanet", "gated.mamba2", "sparse.dsa", "vq.blockwise")
PARAMS = {"stride": 4, "window": 8, "block": 8, "k": 8}
"""Structure that is shorter than the sequences; and a stride, which else would follow from the length."""
ENDS = (0, LAYERS - 1)


def params_of(method: str) -> dict[str, Any]:
    return {name: value for name, value in PARAMS.items() if name in signature(registry.load(method)).parameters}


def able(put: Callable[..., Any], cannot: type[Exception] = UnsupportedError) -> list[str]:
    """The causal methods that run here and can be put into a model.

    Those that compile a kernel for each length are left out, and fla's, which speak up where they are imported.
    """
    found = []
    for method in registry.catalogue():
        if "flex" in method or "_fla" in method or "fla_" in method:
            continue
        try:
            if registry.load(method).causality is Causality.FULL:
                put(method, **params_of(method))
                found.append(method)
        except (UnsupportedError, MissingPackageError, cannot):
            continue
    return found


@pytest.mark.parametrize("kind", [*KINDS, "qwen2_moe", "jetmoe", "gemma2"])
@pytest.mark.parametrize("way", [*EXACT, "swapped"])
def test_registered_and_swapped_softmax_give_the_models_own_logits_and_tokens(kind: str, way: str, hf: Any) -> None:
    # JetMoE repeats its keys by itself; Gemma 2 has no SDPA of its own
    model, tokens = model_of(kind, attn_logit_softcapping=None), tokens_of()
    some, mask = padded(tokens, 0, 5, 9)
    there = mask.bool()
    own, own_padded = logits(model, tokens), logits(model, some, attention_mask=mask)
    wrote = written(model, some, attention_mask=mask)
    if way != "swapped":
        model.set_attn_implementation(hf.register(way))
    elif kind == "mistral":
        hf.swap(model, "sparse.window", window=8)
    else:
        hf.swap(model, "softmax.sdpa")
    torch.testing.assert_close(logits(model, tokens), own, rtol=0, atol=1e-5)
    torch.testing.assert_close(logits(model, some, attention_mask=mask)[there], own_padded[there], rtol=0, atol=1e-5)
    for cached in (True, False):
        assert torch.equal(written(model, some, attention_mask=mask, use_cache=cached), wrote)


@pytest.mark.parametrize("method", [*EXACT, "softmax.sdpa_flash"])
def test_registered_softmax_gives_the_models_own_gradients_also_where_its_name_is_changed(method: str, hf: Any) -> None:
    gradients = []
    for name in ("sdpa", hf.register(method)):
        model, (tokens, mask) = model_of(), padded(tokens_of(), 0, 5, 9)
        model.set_attn_implementation(name)
        model.train()(tokens, attention_mask=mask, labels=torch.where(mask > 0, tokens, -100)).loss.backward()
        gradients.append([x.grad for x in model.parameters()])
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


def is_causal(model: Any, method: str) -> None:
    """Insist that earlier logits do not change with later tokens."""
    tokens = tokens_of(2, 40)
    changed = tokens.clone()
    changed[:, 30:] = tokens_of(2, 10, seed=1)
    of_both = logits(model, torch.cat([tokens, changed]))
    torch.testing.assert_close(of_both[2:, :30], of_both[:2, :30], rtol=0, atol=1e-5, msg=method)


def test_every_registered_method_is_causal_and_writes_the_same_with_a_cache_and_in_a_padded_batch(hf: Any) -> None:
    model, tokens = model_of(), tokens_of(2, 40)
    some, mask = padded(tokens, 0, 7)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    methods = able(hf.register, hf.CannotError)
    assert {"linear.chunked", "sparse.window", "sparse.strided", "gated.retnet", "vq.blockwise", *EXACT} <= set(methods)
    for method in methods:
        model.set_attn_implementation(hf.register(method, **params_of(method)))
        is_causal(model, method)
        alone = logits(model, tokens[1:, 7:])[0]
        beside = logits(model, some, attention_mask=mask, position_ids=positions)[1, 7:]
        torch.testing.assert_close(beside, alone, rtol=0, atol=1e-5, msg=method)
        if registry.load(method).decodes:
            anew = written(model, some, attention_mask=mask, use_cache=False)
            assert torch.equal(written(model, some, attention_mask=mask), anew), method


def test_every_swapped_method_is_causal_and_writes_the_same_with_its_state_in_padded_batches_and_beams(hf: Any) -> None:
    some, mask = padded(tokens_of(2, 40), 0, 7)
    methods = able(lambda method, **params: hf.swap(model_of(), method, **params))
    assert {*SAMPLE, "delta.deltaproduct", "delta.kda", "softmax.fox", "blocks.nsa", "lsh.full"} <= set(methods)
    for method in methods:
        model = hf.swap(model_of(), method, layers=ENDS, **params_of(method))
        is_causal(model, method)
        for beams in (1, 2) if registry.load(method).decodes else ():
            anew = written(model, some, attention_mask=mask, use_cache=False, num_beams=beams)
            assert torch.equal(written(model, some, attention_mask=mask, num_beams=beams), anew), (method, beams)
            # the second row has only padding at first
            assert torch.equal(written(model, some, attention_mask=mask, num_beams=beams, prefill_chunk_size=7), anew), method


def test_an_encoder_takes_methods_without_a_causal_form_and_padding_behind_its_rows(hf: Any) -> None:
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(1)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 97}
    model = AutoModel.from_config(AutoConfig.for_model("bert", **sizes)).eval()
    tokens, mask = tokens_of(2), torch.ones(2, 21, dtype=torch.int64)
    mask[1, 13:] = 0
    with torch.no_grad():
        own = model(tokens, attention_mask=mask).last_hidden_state
        for name in (hf.register("softmax.naive"), hf.register("pooling.key_value", factor=2)):
            model.set_attn_implementation(name)
            said = model(tokens, attention_mask=mask).last_hidden_state
            if name == "softmax.naive":
                torch.testing.assert_close(said[mask > 0], own[mask > 0], rtol=0, atol=1e-5)
            torch.testing.assert_close(said[1:, :13], model(tokens[1:, :13]).last_hidden_state, rtol=0, atol=1e-5)


def test_a_method_within_a_layers_window_keeps_its_own_where_that_is_shorter(hf: Any) -> None:
    near, wide = (model_of("mistral", sliding_window=w) for w in (4, 8))
    for own, window in ((near, 4), (wide, 8), (wide, 99)):
        said, model = logits(own, tokens_of()), model_of("mistral")
        model.set_attn_implementation(hf.register("sparse.window", window=window))
        torch.testing.assert_close(logits(model, tokens_of()), said, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("delta.deltanet", {}, "takes q, k, v, strength"),
        ("context.transformer_xl", {}, "learns weights of its own"),
        ("lsh.reformer", {}, "see later keys"),
        ("sparse.strided", {}, "stride follows from the length"),
        ("linformer.linformer", {"k": 8}, "its E would be"),
        ("softmax.nave", {}, "did you mean"),
        ("softmax.naive", {"windows": 3}, "windows"),
    ],
)
def test_what_is_not_of_q_k_v_is_refused(method: str, params: dict[str, Any], says: str, hf: Any) -> None:
    with pytest.raises((hf.CannotError, UnsupportedError, LookupError, TypeError), match=says):
        hf.register(method, **params)


def test_what_a_call_asks_for_beyond_a_method_is_refused_and_never_ignored(hf: Any) -> None:
    from transformers import BartForConditionalGeneration, StaticCache

    tokens = tokens_of()

    def refuses(says: str, model: Any, method: str = "softmax.naive", **given: Any) -> None:
        model.set_attn_implementation(hf.register(method))
        with pytest.raises(hf.CannotError, match=says):
            model(tokens, **given)

    refuses("read the model with attention_dropout=0", model_of(attention_dropout=0.1).train())
    for method in ("linear.chunked", "sparse.local_attention", "sparse.longformer"):
        refuses("no form with a window", (near := model_of("mistral")), method)
    near.set_attn_implementation(hf.register("linear.chunked"))
    with pytest.raises(hf.CannotError, match="no form with a window"):
        # a cache drops what lies before the window
        written(near, tokens[:, :4])
    refuses("softcap", model_of("gemma2"))
    refuses("mask of one's own", model_of(), attention_mask=torch.ones(3, 1, 21, 21))
    refuses("static cache", (model := model_of()), past_key_values=StaticCache(model.config, max_cache_len=64))
    holes = torch.ones_like(tokens)
    holes[0, 3] = 0
    refuses("between others of their row", model_of(), attention_mask=holes)
    # with a cache transformers itself takes such positions for those of one sequence
    two = torch.cat([torch.arange(10), torch.arange(11)]).expand(3, -1)
    refuses("packed into one row", model_of(), position_ids=two, use_cache=False)
    refuses("packed into one row", model_of("mistral"), position_ids=two, use_cache=False)
    refuses("no attention weights", model_of(), output_attentions=True)
    refuses("keys of another sequence", BartForConditionalGeneration(model_of("bart").config), decoder_input_ids=tokens)
    model.set_attn_implementation(hf.register("sparse.local_attention", window=8))
    with pytest.raises(UnsupportedError, match="does not decode"):
        written(model, tokens)


@pytest.mark.parametrize("method", SAMPLE)
def test_a_swapped_model_trains_and_every_weight_of_its_own_gets_a_gradient(method: str, hf: Any) -> None:
    model, tokens = hf.swap(model_of(), method, layers=ENDS, **params_of(method)), tokens_of(3, 40)
    optimiser, losses = torch.optim.AdamW(model.parameters(), 1e-3), []
    before = {name: x.clone() for name, x in model.named_buffers() if ".swapped." in name}
    assert torch.equal(model(tokens).logits, model(tokens).logits), "in evaluation nothing learns"
    model.train()
    for _ in range(8):
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        lacking = [name for name, x in model.named_parameters() if ".swapped." in name and x.requires_grad and x.grad is None]
        assert not lacking
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    moved = [name for name, x in model.named_buffers() if name in before and not torch.equal(x, before[name])]
    assert bool(moved) == (method == "vq.blockwise"), "a codebook learns beside the gradients"


@pytest.mark.parametrize(
    "methods",
    [*({method: ENDS} for method in SAMPLE), {"gated.mamba2": [0], "sparse.window": [2]}],
    ids=lambda methods: " and ".join(methods),
)
def test_a_swapped_model_and_a_hybrid_say_the_same_when_read(methods: dict[str, Any], tmp_path: Path, hf: Any) -> None:
    model = model_of()
    for method, layers in methods.items():
        hf.swap(model, method, layers=layers, **params_of(method))
    model.save_pretrained(tmp_path)
    read = hf.load(tmp_path, config=model.config)
    assert torch.equal(logits(read, tokens_of()), logits(model, tokens_of()))
    with pytest.raises(hf.CannotError, match="leave it out"):
        hf.load(tmp_path, output_loading_info=True)
    # by itself transformers leaves the methods out
    hf.swap(type(model).from_pretrained(tmp_path), "gated.retnet").save_pretrained(tmp_path / "again")
    assert len(hf.load(tmp_path / "again").config.attnbench) == 1
    if all(registry.load(method).decodes for method in methods):
        assert torch.equal(written(read, tokens_of()), written(model, tokens_of()))


@pytest.mark.parametrize("kind", KINDS)
def test_unswap_restores_the_logits_bit_for_bit(kind: str, tmp_path: Path, hf: Any) -> None:
    model, names = model_of(kind), set(model_of(kind).state_dict())
    own = logits(model, tokens_of())
    hf.swap(model, "delta.gated_deltanet", reuse="vo", rotary=False)
    assert not torch.equal(logits(model, tokens_of()), own)
    hf.unswap(model)
    assert torch.equal(logits(model, tokens_of()), own)
    assert set(model.state_dict()) == names
    model.save_pretrained(tmp_path)
    with pytest.raises(hf.CannotError, match="holds no swapped model"):
        hf.load(tmp_path)


def test_projections_left_out_of_reuse_are_made_anew_and_learn(hf: Any) -> None:
    model = hf.swap(model_of(), "gated.retnet", layers=[1], reuse="vo").train()
    tokens = tokens_of()
    model(tokens, labels=tokens).loss.backward()
    attention = model.model.layers[1].self_attn
    assert set(attention.swapped.into) == {"q_proj", "k_proj"}
    projections = attention.swapped.into.q_proj, attention.q_proj, attention.v_proj
    assert [each.weight.grad is not None for each in projections] == [True, False, True]


def test_without_a_rotary_embedding_a_layer_that_has_no_order_of_its_own_forgets_positions(hf: Any) -> None:
    tokens = tokens_of(1, 12)
    turned = tokens.clone()
    turned[:, :11] = tokens[:, :11].flip(1)
    model = hf.swap(model_of(num_hidden_layers=1), "softmax.sdpa", rotary=False)
    torch.testing.assert_close(logits(model, turned)[:, -1], logits(model, tokens)[:, -1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", SAMPLE)
def test_gradient_checkpointing_changes_no_gradient_also_of_several_batches(method: str, hf: Any) -> None:
    (tokens, mask), found = padded(tokens_of(), 0, 5, 9), []
    masks = mask, None, mask.roll(1, 0)
    for checkpointing in (False, True):
        torch.manual_seed(2)
        model = hf.swap(model_of(), method, **params_of(method)).train()
        if checkpointing:
            model.activation_checkpointing_enable()
        sum(model(tokens, attention_mask=each, labels=tokens, use_cache=False).loss for each in masks).backward()
        found.append({name: x.grad for name, x in model.named_parameters() if x.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=1e-6)


def test_in_half_precision_a_swapped_model_computes_what_it_does_in_float32_nearly(hf: Any) -> None:
    torch.manual_seed(2)
    model = hf.swap(model_of(), "gated.mamba2")
    own, wrote = logits(model, tokens_of()), written(model, tokens_of()).shape
    model.to(torch.bfloat16)
    torch.testing.assert_close(logits(model, tokens_of()).float(), own, rtol=0, atol=0.05)
    assert written(model, tokens_of()).shape == wrote
    model.float()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(logits(model, tokens_of()).float(), own, rtol=0, atol=0.05)


@pytest.mark.parametrize("kept", [lambda x: torch.nn.Parameter(x, requires_grad=False), torch.nn.Buffer, lambda _: None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_swapped_layer_of_quantised_weights_has_the_dtype_of_its_model(kept: Any, dtype: torch.dtype, hf: Any) -> None:
    model = model_of().to(dtype)
    for each in (getattr(layer.self_attn, f"{name}_proj") for layer in model.model.layers for name in "qkvo"):
        scale = each.weight.abs().max() / 127
        whole = (each.weight / scale).round().to(torch.int8)
        each.forward = partial(lambda x, whole, scale: x @ (whole * scale).T.to(x.dtype), whole=whole, scale=scale)
        del each.weight
        each.weight = kept(whole)
    own = logits(model, tokens_of())
    assert torch.equal(logits(hf.swap(model, "softmax.sdpa"), tokens_of()), own)
    hf.swap(hf.unswap(model), "delta.gated_deltanet")
    assert {x.dtype for name, x in model.named_parameters() if ".swapped." in name} == {logits(model, tokens_of()).dtype}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "linear.full"}, "is not causal"),
        ({"method": "softmax.sdpa", "layers": [3]}, "no layer 3: the model has attention in layers 0, 1, 2"),
        ({"method": "softmax.sdpa", "reuse": "qk"}, "and o, which always is"),
        ({"method": "softmax.sdpa", "reuse": "qkvox"}, "and o, which always is"),
        ({"method": "softmax.sdpa", "capacity": 0}, "capacity=0: a state has room for 1 token at least"),
        ({"method": "sparse.strided"}, "stride follows from the length"),
        ({"method": "softmax.sdpq"}, "did you mean"),
    ],
)
def test_what_cannot_be_swapped_is_refused_and_leaves_the_model_as_it_was(given: dict[str, Any], says: str, hf: Any) -> None:
    model = model_of()
    own = logits(model, tokens_of())
    with pytest.raises((hf.CannotError, UnsupportedError, LookupError), match=says):
        hf.swap(model, **given)
    assert torch.equal(logits(model, tokens_of()), own)


def test_what_a_state_cannot_do_is_refused(hf: Any) -> None:
    from transformers import DynamicCache, EncoderDecoderCache

    def refuses(says: str, call: Callable[..., object], *given: object, **named: object) -> None:
        with pytest.raises(hf.CannotError, match=says):
            call(*given, **named)

    model, tokens = model_of(), tokens_of()
    before, cache = (DynamicCache(config=model.config) for _ in range(2))
    logits(model, tokens, past_key_values=before)
    hf.swap(model, "linear.chunked")
    refuses("swapped already", hf.swap, model, "linear.chunked", layers=[0])
    refuses("from before it was swapped", logits, model, tokens, past_key_values=before)
    model(tokens, past_key_values=cache)
    refuses("keeps no state under gradients", model, tokens[:, :1], past_key_values=cache)
    refuses("mask of one's own", model, tokens, attention_mask=torch.ones(3, 1, 21, 21))
    packed = torch.cat([torch.arange(10), torch.arange(11)]).expand(3, -1)
    refuses("packed into one row", model, tokens, position_ids=packed)
    behind = padded(tokens, 0, 4)[1].flip(1)
    model(tokens, attention_mask=behind, past_key_values=(cache := DynamicCache(config=model.config)))
    after = torch.cat([behind, torch.ones(3, 1)], 1)
    refuses("between others of their row", logits, model, tokens[:, :1], attention_mask=after, past_key_values=cache)
    of_two = EncoderDecoderCache(DynamicCache(), DynamicCache())
    refuses("take a DynamicCache", logits, hf.swap(model_of("bart"), "linear.chunked"), tokens, past_key_values=of_two)
    hf.swap(hf.unswap(model), "sparse.local_attention", window=8)
    refuses("use_cache=False", written, model, tokens)


def test_a_state_ends_with_its_cache(hf: Any) -> None:
    from transformers import DynamicCache

    model, cache = hf.swap(model_of(), "linear.chunked"), DynamicCache()
    logits(model, tokens_of(), past_key_values=cache)
    state = weakref.ref(cache.layers[0])
    del cache
    assert state() is None


def test_attentions_that_cannot_be_replaced_or_whose_inputs_are_not_known_are_refused(hf: Any) -> None:
    for kind in ("gptj", "falcon", "bert"):
        with pytest.raises(hf.CannotError, match="has no causal attention that transformers lets one replace"):
            hf.swap(model_of(kind), "linear.chunked")
    for kind, says in (("diffllama", "attends twice in one call"), ("deepseek_v3", "other heads or widths than its config")):
        model = hf.swap(model_of(kind), "linear.chunked")
        with pytest.raises(hf.CannotError, match=says):
            logits(model, tokens_of())
    doubled = SimpleNamespace(update=lambda k, v, _: (k.repeat(1, 1, 2, 1), v.repeat(1, 1, 2, 1)))
    attention = hf.swap(model_of("gpt_bigcode"), "linear.chunked").transformer.h[0].attn
    with pytest.raises(hf.CannotError, match="keys of a cache or of tokens that are not known here"):
        attention(torch.randn(1, 3, 64), layer_past=doubled)
    model = model_of()
    model.another = model_of()
    with pytest.raises(hf.CannotError, match="several layers of one number"):
        hf.swap(model, "linear.chunked")


def test_a_mask_may_be_given_by_place(hf: Any) -> None:
    base, (tokens, mask) = hf.swap(model_of(), "linear.chunked").model, padded(tokens_of(), 0, 5, 9)
    by_place, by_name = base(tokens, mask), base(tokens, attention_mask=mask)
    assert torch.equal(by_place.last_hidden_state, by_name.last_hidden_state)


def test_gates_are_projected_before_the_attention_whose_time_is_a_share(hf: Any) -> None:
    from attnbench.hf.recording import attention_called_through

    model, heard = hf.swap(model_of(num_hidden_layers=1), "delta.kda", reuse="vo"), list[str]()
    into = model.model.layers[0].self_attn.swapped.into
    for each in into.values():
        each.register_forward_hook(lambda *_: heard.append("projected"))

    def around(attend: Callable[..., Any], *args: Any, **given: Any) -> Any:
        heard.append("attention")
        return attend(*args, **given)

    with attention_called_through(around):
        logits(model, tokens_of())
    assert heard == ["projected"] * len(into) + ["attention"]


def test_the_penalty_of_a_padded_batch_is_the_mean_over_its_rows(hf: Any) -> None:
    model = hf.swap(model_of(), "sparse.dsa", **params_of("sparse.dsa")).train()
    tokens, mask = padded(tokens_of(2, 40), 0, 7)

    def slopes(tokens: torch.Tensor, **given: Any) -> list[Any]:
        model.zero_grad()
        (0 * model(tokens, **given).logits.sum()).backward()
        return [x.grad.clone() for x in model.parameters() if x.grad is not None]

    both = slopes(tokens, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0))
    for mine, first, second in zip(both, slopes(tokens[:1]), slopes(tokens[1:, 7:]), strict=True):
        torch.testing.assert_close(mine, (first + second) / 2, rtol=1e-4, atol=1e-7)
    assert any(bool(x.any()) for x in both)


def test_parameters_of_layers_are_told_to_methods_that_ask(hf: Any) -> None:
    model = hf.swap(model_of(), "gated.lightning")
    assert [layer.self_attn.swapped.attention.params["layer"] for layer in model.model.layers] == [0, 1, 2]
