"""Methods of (q, k, v) as attention implementations of transformers."""

from inspect import signature
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Causality
from attnbench.registry import MissingPackageError, UnsupportedError
from tests.hf.models import KINDS, logits, model_of, padded, tokens_of, written

pytestmark = pytest.mark.peers
EXACT = ("softmax.sdpa", "softmax.naive")
PARAMS = {"stride": 4, "window": 8, "block": 8, "k": 8}
"""Structure that is shorter than the sequences; and a stride, which else would follow from the length."""


def registrable(hf: Any) -> list[str]:
    """The methods of (q, k, v) without weights that run here, causally, at any length."""
    found = []
    for method in candidates():
        try:
            hf.register(method, **params_of(method))
        except (hf.CannotError, UnsupportedError, MissingPackageError):
            continue
        if registry.load(method).causality is Causality.FULL:
            found.append(method)
    return found


def candidates() -> list[str]:
    """All methods but those that compile a kernel for each length, and fla's, which speak up where they are imported."""
    return [method for method in registry.catalogue() if "flex" not in method and "_fla" not in method and "fla_" not in method]


def params_of(method: str) -> dict[str, Any]:
    return {name: value for name, value in PARAMS.items() if name in signature(registry.load(method)).parameters}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", EXACT)
def test_registered_softmax_gives_the_models_own_logits_and_tokens(kind: str, method: str, hf: Any) -> None:
    model, tokens = model_of(kind), tokens_of()
    some, mask = padded(tokens, 0, 5, 9)
    own, own_padded = logits(model, tokens), logits(model, some, attention_mask=mask)
    wrote = written(model, some, attention_mask=mask)
    model.set_attn_implementation(hf.register(method))
    torch.testing.assert_close(logits(model, tokens), own, rtol=0, atol=1e-5)
    there = mask.bool()
    torch.testing.assert_close(logits(model, some, attention_mask=mask)[there], own_padded[there], rtol=0, atol=1e-5)
    for cached in (True, False):
        assert torch.equal(written(model, some, attention_mask=mask, use_cache=cached), wrote)


@pytest.mark.parametrize("method", EXACT)
def test_registered_softmax_gives_the_models_own_gradients(method: str, hf: Any) -> None:
    gradients = []
    for name in ("sdpa", hf.register(method)):
        model, (tokens, mask) = model_of(), padded(tokens_of(), 0, 5, 9)
        model.set_attn_implementation(name)
        model.train()(tokens, attention_mask=mask, labels=torch.where(mask > 0, tokens, -100)).loss.backward()
        gradients.append([x.grad for x in model.parameters()])
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


def test_every_registered_method_is_causal_and_writes_the_same_with_a_cache_and_in_a_padded_batch(hf: Any) -> None:
    model, tokens = model_of(), tokens_of(2, 40)
    changed = tokens.clone()
    changed[:, 30:] = tokens_of(2, 10, seed=1)
    some, mask = padded(tokens, 0, 7)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    methods = registrable(hf)
    assert {"linear.chunked", "sparse.window", "sparse.strided", "gated.retnet", "vq.blockwise", *EXACT} <= set(methods)
    for method in methods:
        model.set_attn_implementation(hf.register(method, **params_of(method)))
        of_both = logits(model, torch.cat([tokens, changed]))
        torch.testing.assert_close(of_both[2:, :30], of_both[:2, :30], rtol=0, atol=1e-5, msg=method)
        alone = logits(model, tokens[1:, 7:])[0]
        beside = logits(model, some, attention_mask=mask, position_ids=positions)[1, 7:]
        torch.testing.assert_close(beside, alone, rtol=0, atol=1e-5, msg=method)
        if registry.load(method).decodes:
            anew = written(model, some, attention_mask=mask, use_cache=False)
            assert torch.equal(written(model, some, attention_mask=mask), anew), method


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
            alone = model(tokens[1:, :13]).last_hidden_state
            torch.testing.assert_close(said[1:, :13], alone, rtol=0, atol=1e-5)


def test_a_method_within_a_layers_window_keeps_its_own_where_that_is_shorter(hf: Any) -> None:
    near, wide = (model_of("mistral", sliding_window=w) for w in (4, 8))
    name = hf.register("sparse.window", window=4)
    wide.set_attn_implementation(name)
    torch.testing.assert_close(logits(wide, tokens_of()), logits(near, tokens_of()), rtol=0, atol=1e-5)


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
def test_what_cannot_be_a_function_of_q_k_v_is_refused_at_registration(
    method: str, params: dict[str, Any], says: str, hf: Any
) -> None:
    with pytest.raises((hf.CannotError, UnsupportedError, LookupError, TypeError), match=says):
        hf.register(method, **params)


@pytest.mark.parametrize("name", ["my-flash", "me/mine", "paged|mine"])
def test_a_name_that_transformers_would_read_as_a_kernel_is_refused(name: str, hf: Any) -> None:
    with pytest.raises(hf.CannotError, match="read as a kernel"):
        hf.register("softmax.naive", name=name)


def test_a_method_whose_name_transformers_would_read_as_a_kernel_gets_another(hf: Any) -> None:
    model, tokens = model_of(), tokens_of()
    own = logits(model, tokens)
    model.set_attn_implementation(hf.register("softmax.sdpa_flash"))
    torch.testing.assert_close(logits(model, tokens), own, rtol=0, atol=1e-5)


def test_what_a_call_asks_for_beyond_a_method_is_refused_and_never_ignored(hf: Any) -> None:
    from transformers import StaticCache

    tokens = tokens_of()

    def refuses(says: str, model: Any, method: str = "softmax.naive", **given: Any) -> None:
        model.set_attn_implementation(hf.register(method))
        with pytest.raises(hf.CannotError, match=says):
            model(tokens, **given)

    refuses("attention_dropout", model_of(attention_dropout=0.1).train())
    refuses("no form with a window", model_of("mistral"), "linear.chunked")
    refuses("softcap", model_of("gemma2", head_dim=16))
    refuses("mask of one's own", model_of(), attention_mask=torch.ones(3, 1, 21, 21))
    refuses("static cache", (model := model_of()), past_key_values=StaticCache(model.config, max_cache_len=64))
    holes = torch.ones_like(tokens)
    holes[0, 3] = 0
    refuses("between others of their row", model_of(), attention_mask=holes)
    # with a cache transformers itself takes such positions for those of one sequence
    two = torch.cat([torch.arange(10), torch.arange(11)]).expand(3, -1)
    refuses("packed into one row", model_of(), position_ids=two, use_cache=False)
    refuses("no attention weights", model_of(), output_attentions=True)


def test_a_method_that_does_not_decode_says_so_when_a_cache_asks_it_to(hf: Any) -> None:
    model, tokens = model_of(), tokens_of()
    model.set_attn_implementation(hf.register("sparse.local_attention", window=8))
    assert written(model, tokens, use_cache=False).shape == (3, 30)
    with pytest.raises(UnsupportedError, match="does not decode"):
        written(model, tokens)
