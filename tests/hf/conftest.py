"""What the tests share: small models without a download, of a fixed seed, three layers, four heads of 16; and attnbench.hf."""

from typing import Any

import pytest
import torch
from torch import Tensor

KINDS = ("llama", "qwen3", "gpt2", "mistral", "gpt_bigcode", "bart")
"""Plain and grouped heads with a rotary embedding; norms of q and k; learnt positions and one product for q, k, v; a window;
one head of k and v, and another name for the cache; attention to an encoder that is not there."""
VOCABULARY, PAD, LAYERS = 97, 0, 3
SIZES: dict[str, Any] = {
    **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": LAYERS, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "max_position_embeddings": 128},
}
_NO_DROPOUT = {"attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}
_OF_GPT2 = {"n_embd": 64, "n_layer": LAYERS, "n_head": 4, "n_positions": 128} | _NO_DROPOUT
_OF_BART = {"d_model": 64, "decoder_ffn_dim": 96, "max_position_embeddings": 128} | {
    f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (("layers", LAYERS), ("attention_heads", 4))
}
_OWN = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "gptj"), _OF_GPT2),
    "qwen3": SIZES | {"head_dim": 16},
    "mistral": SIZES | {"sliding_window": 8},
    "bart": _OF_BART,
    "qwen2_moe": SIZES | {"num_experts": 4, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 96},
    "gemma2": SIZES | {"head_dim": 16},
    "jetmoe": SIZES | {"kv_channels": 16, "num_local_experts": 4},
    # all layers dense
    "deepseek_v3": SIZES | {"num_key_value_heads": 4, "first_k_dense_replace": LAYERS},
}


def model_of(kind: str = "llama", **options: Any) -> Any:
    """A model with random weights, always the same, in evaluation mode."""
    from transformers import AutoConfig, AutoModelForCausalLM

    own: dict[str, Any] = _OWN.get(kind, SIZES)
    tokens = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": None}
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **own | tokens | options)).eval()


def tokens_of(B: int = 3, N: int = 21, seed: int = 0) -> Tensor:
    """Tokens that are not padding, int64 [B, N]."""
    return torch.randint(2, VOCABULARY, (B, N), generator=torch.Generator().manual_seed(seed))


def padded(tokens: Tensor, *begins: int) -> tuple[Tensor, Tensor]:
    """The tokens with padding before the first of each row, and the mask that says so."""
    mask = torch.ones_like(tokens)
    for row, begin in enumerate(begins):
        mask[row, :begin] = 0
    return torch.where(mask > 0, tokens, PAD), mask


def logits(model: Any, tokens: Tensor, **given: Any) -> Tensor:
    """What a model says at each position, without gradients."""
    with torch.no_grad():
        said: Tensor = model(tokens, **given).logits
    return said


def written(model: Any, tokens: Tensor, new: int = 9, **given: Any) -> Tensor:
    """The tokens and the likeliest ones after them."""
    made: Tensor = model.generate(tokens, max_new_tokens=new, do_sample=False, **given)
    return made


@pytest.fixture
def hf() -> Any:
    """Of attnbench: imported only where a test asks for it, since it imports transformers."""
    from attnbench import hf

    return hf
