"""What others wrote down of the same method, in plain torch: a second opinion of our definitions."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnbench import Problem
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import PEER, Variant

pytestmark = list(PEER)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_forgetting_attention_is_that_of_flash_linear_attention(kv_heads: int) -> None:
    from fla.ops.forgetting_attn.naive import naive_forgetting_attn

    call = Call(Variant("softmax.fox", {}), Problem(B=2, H=4, kv_heads=kv_heads, N=97, D=16, causal=True))
    theirs = naive_forgetting_attn(*(x.detach().transpose(1, 2) for x in call.inputs))
    torch.testing.assert_close(call.forward(), theirs.transpose(1, 2), rtol=0, atol=2e-5)


def test_a_window_with_sinks_is_that_of_gpt_oss() -> None:
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    call = Call(Variant("sparse.window_sinks", {"window": 9}), Problem(B=2, H=4, kv_heads=2, N=65, D=16, causal=True))
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
