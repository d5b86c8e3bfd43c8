"""Generation: by steps and anew the same tokens; what is given stays; what cannot be made says so."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.training.generation import choose, generate, write
from attnbench.training.reading import ANEW, STEP_BY_STEP, Anew, ByStep, attentions_by_length, lengths, reader_of
from attnbench.training.tasks import Alphabet
from attnbench.training.transformer import Transformer
from tests.training.conftest import PIXELS, TEXT, Make, small_cell

DECODING: list[tuple[str, dict[str, Any]]] = [
    ("softmax.sdpa", {}),
    ("linear.chunked", {"params": {"chunk": 4}}),
    # every second layer is softmax attention
    ("linear.chunked", {"softmax_every": 2}),
    ("sparse.strided", {"params": {"stride": 4}}),
    ("vq.blockwise", {"params": {"codes": 8, "block": 4}}),
    ("context.transformer_xl", {"params": {"segment": 4}}),
    ("blocks.nsa", {}),
    ("delta.ttt_linear", {"params": {"mini_batch": 4}}),
]
SMALLER = {"lsh.reformer_pytorch": {"bucket_size": 8}, "lsh.transformers": {"bucket_size": 8}}


def trained(model: Transformer) -> Transformer:
    """Weights far from 0, as training would make them, so that tokens depend on each other."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and ".attention." not in name:
                weight.mul_(12)
    return model.eval()


@pytest.mark.parametrize(("method", "fields"), DECODING)
@pytest.mark.parametrize("alphabet", [Alphabet(65, start=64), PIXELS], ids=["tokens", "pixels"])
def test_step_by_step_makes_the_tokens_that_the_whole_prefix_makes(
    model_of: Make, method: str, fields: dict[str, Any], alphabet: Alphabet
) -> None:
    model = trained(model_of(method, **fields, alphabet=alphabet, dtype="float64", N=24))
    given = torch.randint(5, (8, 5), generator=torch.Generator().manual_seed(4))
    by_step, anew = (write(reader(model, 8), 24, given) for reader in (ByStep, Anew))
    assert torch.equal(by_step, anew)
    assert len(by_step[:, 5:].unique(dim=0)) > 1, "what was given makes a difference"


@pytest.mark.parametrize(("method", "fields"), DECODING)
def test_what_is_said_is_the_same_to_rounding(model_of: Make, method: str, fields: dict[str, Any]) -> None:
    model = trained(model_of(method, **fields, dtype="float64", N=24))
    tokens = torch.randint(6, (3, 24), generator=torch.Generator().manual_seed(4))
    with torch.inference_mode():
        whole, _ = model(tokens)
        for given in (1, 5, 17):
            by_step = ByStep(model, 3)
            said = [by_step.read(tokens[:, :given]), *(by_step.read(tokens[:, t : t + 1]) for t in range(given, 24))]
            torch.testing.assert_close(torch.stack(said, dim=1), whole[:, given - 1 :], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked", "softmax.recompute", "model_cases:Picky"])
def test_what_is_given_stays_and_the_rest_goes_on_from_it(model_of: Make, method: str) -> None:
    model = trained(model_of(method, dtype="float64"))
    free = generate(model, 3, 16)
    for n in (0, 1, 9, 15, 16):
        assert torch.equal(generate(model, 3, 16, given=free[:, :n]), free), f"{n} given"
    assert torch.equal(generate(model, 3, 8), free[:, :8]), "a shorter sequence is the beginning of the longer one"
    other = (free[:, :4] + 1) % 6
    assert torch.equal(generate(model, 3, 16, given=other)[:, :4], other)


def test_the_same_generator_draws_the_same_tokens_and_another_others(model_of: Make) -> None:
    for alphabet in (TEXT, PIXELS):
        model = trained(model_of(alphabet=alphabet))
        one, again, other = (generate(model, 8, 16, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)
        assert set(one.unique().tolist()) <= set(range(5 if alphabet is PIXELS else 6)), "no token is the start"


def test_tokens_come_as_often_as_the_model_says() -> None:
    said = torch.tensor([[0.0, 1.0, -1.0, 5.0]]).expand(20_000, -1)
    alphabet = Alphabet(4, start=3)
    shares = torch.bincount(choose(said, alphabet, torch.Generator().manual_seed(1)), minlength=4) / 20_000
    torch.testing.assert_close(shares[:3], torch.tensor([0.0, 1.0, -1.0]).softmax(0), atol=0.02, rtol=0)
    assert shares[3] == 0, "the start is never said"
    assert bool((choose(said, alphabet, None) == 1).all())


@pytest.mark.parametrize(
    ("method", "way"),
    [("softmax.sdpa", STEP_BY_STEP), ("softmax.recompute", ANEW), ("lsh.reformer", ANEW), ("linear.recurrent", STEP_BY_STEP)],
)
def test_what_decodes_goes_step_by_step_and_the_rest_begins_anew(model_of: Make, method: str, way: str) -> None:
    assert reader_of(model_of(method), 2).way == way
    assert reader_of(model_of(method, softmax_every=2), 2).way == way, "a hybrid does where all of its layers do"


def test_a_sixteenth_more_is_computed_at_most() -> None:
    for N, step in {5: 1, 16: 1, 784: 49, 3072: 192}.items():
        assert lengths(N) == list(range(step, N + 1, step))
    assert lengths(100) == [*range(7, 99, 7), 100]


def test_lengths_that_the_method_refuses_or_at_which_it_is_another_function_are_left_out(model_of: Make) -> None:
    assert list(attentions_by_length(model_of("model_cases:Picky", N=64), 2)) == list(range(8, 65, 8))
    assert list(attentions_by_length(model_of("model_cases:Plain", N=64), 2)) == list(range(4, 65, 4))
    for method in ("model_cases:Wide", "model_cases:ByRoot"):
        found = attentions_by_length(model_of(method, N=64), 2)
        assert 64 in found
        assert len(found) < 3


def test_a_shorter_attention_has_the_very_weights_of_the_model(model_of: Make) -> None:
    model = model_of("context.transformer_xl", params={"segment": 4})
    for layers in attentions_by_length(model, 2).values():
        for attention, block in zip(layers, model.layers, strict=True):
            pairs = zip(attention.parameters(), block.attention.parameters(), strict=True)
            assert all(a.data_ptr() == b.data_ptr() for a, b in pairs)


def test_what_is_not_causal_or_longer_than_the_model_is_refused(model_of: Make) -> None:
    with pytest.raises(ValueError, match="set causal: true"):
        generate(model_of(causal=False), 2, 16)
    with pytest.raises(ValueError, match="positions for 16 tokens, not for 17"):
        generate(model_of(), 2, 17)


@pytest.mark.slow
def test_every_method_that_trains_makes_sequences_and_trains_on(model_of: Make) -> None:
    made: dict[str, Tensor] = {}
    for name in registry.catalogue():
        method, shape = registry.load(name), {"B": 2, "N": 32, "D": 16, "dtype": "bfloat16"}
        cell = small_cell(name, params=SMALLER.get(name), **shape)
        if registry.missing(method) or method.refusal(cell.call):
            continue
        model = model_of(name, params=SMALLER.get(name), **shape).train()
        made[name] = generate(model, 2, 32)
        assert model.training
        said, _ = model(made[name].clone())
        torch.autograd.backward(said.sum())
    assert len(made) > 40
    assert {tuple(tokens.shape) for tokens in made.values()} == {(2, 32)}
