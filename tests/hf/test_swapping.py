"""Methods with gates, states and weights of their own in the layers of a model."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Causality
from attnbench.registry import MissingPackageError, UnsupportedError
from tests.hf.models import KINDS, LAYERS, logits, model_of, padded, tokens_of, written
from tests.hf.test_registering import candidates, params_of

pytestmark = pytest.mark.peers
SEVERAL = (
    "softmax.sdpa",
    "softmax.mla",
    "linear.chunked",
    "delta.gated_deltanet",
    "gated.mamba2",
    "sparse.dsa",
    "vq.blockwise",
)
ENDS = (0, LAYERS - 1)


def swappable(hf: Any) -> list[str]:
    """The causal methods that run here and are one function for all lengths."""
    kinds = {method: _loaded(method) for method in candidates()}
    causal = [method for method, kind in kinds.items() if kind and kind.causality is Causality.FULL]
    return [method for method in causal if _runs(hf, method)]


def _loaded(method: str) -> Any:
    try:
        return registry.load(method)
    except MissingPackageError:
        return None


def _runs(hf: Any, method: str) -> bool:
    try:
        hf.swap(model_of(), method, **params_of(method))
    except (UnsupportedError, MissingPackageError):
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_swapped_softmax_gives_the_models_own_logits_and_tokens(kind: str, hf: Any) -> None:
    model, (tokens, mask) = model_of(kind), padded(tokens_of(), 0, 5, 9)
    own, wrote = logits(model, tokens, attention_mask=mask), written(model, tokens, attention_mask=mask)
    if kind == "mistral":
        hf.swap(model, "sparse.window", window=8)
    else:
        hf.swap(model, "softmax.sdpa")
    there = mask.bool()
    torch.testing.assert_close(logits(model, tokens, attention_mask=mask)[there], own[there], rtol=0, atol=1e-5)
    for cached in (True, False):
        assert torch.equal(written(model, tokens, attention_mask=mask, use_cache=cached), wrote)


def test_every_swapped_method_is_causal_and_writes_the_same_with_its_state_in_padded_batches_and_beams(hf: Any) -> None:
    tokens = tokens_of(2, 40)
    changed = tokens.clone()
    changed[:, 30:] = tokens_of(2, 10, seed=1)
    some, mask = padded(tokens, 0, 7)
    methods = swappable(hf)
    assert {*SEVERAL, "delta.deltaproduct", "delta.kda", "softmax.fox", "blocks.nsa", "lsh.full"} <= set(methods)
    for method in methods:
        model = hf.swap(model_of(), method, layers=ENDS, **params_of(method))
        of_both = logits(model, torch.cat([tokens, changed]))
        torch.testing.assert_close(of_both[2:, :30], of_both[:2, :30], rtol=0, atol=1e-5, msg=method)
        if registry.load(method).decodes:
            for beams in (1, 2):
                anew = written(model, some, attention_mask=mask, use_cache=False, num_beams=beams)
                assert torch.equal(written(model, some, attention_mask=mask, num_beams=beams), anew), (method, beams)


@pytest.mark.parametrize("method", SEVERAL)
def test_a_swapped_model_trains_and_every_weight_of_its_own_gets_a_gradient(method: str, hf: Any) -> None:
    model, tokens = hf.swap(model_of(), method, layers=ENDS, **params_of(method)).train(), tokens_of(3, 40)
    optimiser, losses = torch.optim.AdamW(model.parameters(), 1e-3), []
    for _ in range(8):
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        lacking = [name for name, x in model.named_parameters() if ".swapped." in name and x.requires_grad and x.grad is None]
        assert not lacking
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


def test_a_codebook_learns_beside_the_gradients(hf: Any) -> None:
    model, tokens = hf.swap(model_of(), "vq.blockwise", block=8).train(), tokens_of(3, 40)
    before = {name: x.clone() for name, x in model.state_dict().items() if ".swapped." in name}
    for _ in range(2):
        model(tokens, labels=tokens).loss.backward()
    after = model.state_dict()
    assert before
    assert any(not torch.equal(x, after[name]) for name, x in before.items())


@pytest.mark.parametrize("method", SEVERAL)
def test_a_swapped_model_is_saved_and_read_and_says_the_same(method: str, tmp_path: Path, hf: Any) -> None:
    model = hf.swap(model_of(), method, layers=ENDS, **params_of(method))
    model.save_pretrained(tmp_path)
    read = hf.load(tmp_path).eval()
    assert torch.equal(logits(read, tokens_of()), logits(model, tokens_of()))
    if registry.load(method).decodes:
        assert torch.equal(written(read, tokens_of()), written(model, tokens_of()))


def test_hybrids_are_swapped_method_by_method_and_read_again(tmp_path: Path, hf: Any) -> None:
    model = hf.swap(hf.swap(model_of(), "gated.mamba2", layers=[0]), "sparse.window", layers=[2], window=8)
    model.save_pretrained(tmp_path)
    assert torch.equal(written(hf.load(tmp_path).eval(), tokens_of()), written(model, tokens_of()))


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
    assert attention.swapped.into.q_proj.weight.grad is not None
    assert attention.q_proj.weight.grad is None
    assert attention.v_proj.weight.grad is not None


def test_without_a_rotary_embedding_a_layer_that_has_no_order_of_its_own_forgets_positions(hf: Any) -> None:
    tokens = tokens_of(1, 12)
    turned = tokens.clone()
    turned[:, :11] = tokens[:, :11].flip(1)
    model = hf.swap(model_of(num_hidden_layers=1), "softmax.sdpa", rotary=False)
    torch.testing.assert_close(logits(model, turned)[:, -1], logits(model, tokens)[:, -1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", SEVERAL)
def test_gradient_checkpointing_changes_no_gradient(method: str, hf: Any) -> None:
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(2)
        model = hf.swap(model_of(), method, **params_of(method)).train()
        if checkpointing:
            model.activation_checkpointing_enable()
        model(tokens_of(), labels=tokens_of(), use_cache=False).loss.backward()
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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "linear.full"}, "is not causal"),
        ({"method": "softmax.sdpa", "layers": [3]}, "no layer 3: the model has attention in layers 0, 1, 2"),
        ({"method": "softmax.sdpa", "reuse": "qk"}, "and o, which always is"),
        ({"method": "softmax.sdpa", "reuse": "qkvox"}, "and o, which always is"),
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
    from transformers import DynamicCache

    model, tokens = model_of(), tokens_of()
    before = DynamicCache(config=model.config)
    logits(model, tokens, past_key_values=before)
    hf.swap(model, "linear.chunked")
    with pytest.raises(hf.CannotError, match="swapped already"):
        hf.swap(model, "linear.chunked", layers=[0])
    with pytest.raises(hf.CannotError, match="from before it was swapped"):
        logits(model, tokens, past_key_values=before)
    cache = DynamicCache(config=model.config)
    model(tokens, past_key_values=cache)
    with pytest.raises(hf.CannotError, match="keeps no state under gradients"):
        model(tokens[:, :1], past_key_values=cache)
    with pytest.raises(hf.CannotError, match="mask of one's own"):
        model(tokens, attention_mask=torch.ones(3, 1, 21, 21))
    with pytest.raises(hf.CannotError, match="packed into one row"):
        model(tokens, position_ids=torch.cat([torch.arange(10), torch.arange(11)]).expand(3, -1))
    hf.swap(hf.unswap(model), "sparse.local_attention", window=8)
    with pytest.raises(hf.CannotError, match="use_cache=False"):
        written(model, tokens)


def test_parameters_of_layers_are_told_to_methods_that_ask(hf: Any) -> None:
    model = hf.swap(model_of(), "gated.lightning")
    asked = signature(registry.load("gated.lightning")).parameters
    told = [module.swapped.attention.params for module in (layer.self_attn for layer in model.model.layers)]
    assert "layer" in asked
    assert [each["layer"] for each in told] == [0, 1, 2]
