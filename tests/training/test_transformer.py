"""The model: every method drops in and trains, whatever it takes; weights start alike wherever models are alike."""

import copy
import math
from functools import partial

import pytest
import torch

from attnbench import registry
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.schema.cell import Cell
from attnbench.schema.training import Training
from attnbench.training.block import Learns
from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.transformer import Transformer, sinusoids
from attnbench.training.update import losses_of, optimiser_of, take
from tests.training.conftest import PIXELS, SYMBOLS, TEXT, Make, following, generator, small_cell

# what a default needs that a small problem has not
SMALLER = {"lsh.reformer_pytorch": {"bucket_size": 16}, "lsh.transformers": {"bucket_size": 16}}
FAMILIES = {"softmax", "linear", "lsh", "sparse", "vq", "blocks", "delta", "gated", "context"}


def batch_of(model: Transformer) -> Batch:
    return following(model.cell.problem.B, generator(), model.cell.problem.N)


def cell_of(name: str) -> Cell:
    return small_cell(name, params=SMALLER.get(name), B=2, N=64, D=16)


def why_not(cell: Cell) -> str | None:
    method = registry.load(cell.method)
    return ", ".join(registry.missing(method)) or method.refusal(cell.call)


def test_every_family_with_a_causal_form_has_methods_that_train_on_a_cpu() -> None:
    trains = [name for name in registry.catalogue() if not why_not(cell_of(name))]
    assert {name.partition(".")[0] for name in trains} == FAMILIES
    assert len(trains) > 40


@pytest.mark.parametrize("name", list(registry.catalogue()))
def test_every_causal_method_takes_an_update_and_all_weights_get_a_gradient(name: str) -> None:
    cell = cell_of(name)
    if why_not(cell):
        return
    torch.manual_seed(2)
    model = Transformer(cell, TEXT, seed=1).train()
    loss, penalty = losses_of(model, batch_of(model))
    assert loss.detach() == pytest.approx(math.log(SYMBOLS + 1), rel=0.1), "a model that has learnt nothing guesses"
    torch.autograd.backward(loss + penalty)
    lacking = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.isfinite().all())]
    assert lacking == []
    before = model.head.weight.detach().clone()
    take(model, optimiser_of(model), batch_of(model))
    assert not torch.equal(before, model.head.weight)


@pytest.mark.parametrize(("alphabet", "outputs"), [(TEXT, 7), (PIXELS, 30)])
def test_there_is_a_weight_for_each_token_or_three_numbers_a_logistic(model_of: Make, alphabet: Alphabet, outputs: int) -> None:
    model = model_of(alphabet=alphabet)
    said, penalty = model(batch_of(model).tokens.clamp(max=4))
    assert said.shape == (4, 16, outputs)
    assert float(penalty) == 0


def test_weights_start_as_gpt_2_s(model_of: Make) -> None:
    weights = dict(model_of(H=8, D=16, layers=8).named_parameters())
    for name, std in {"embedding": 0.02, "blocks.3.into": 0.02, "blocks.3.out": 0.02 / 4, "blocks.3.down": 0.02 / 4}.items():
        assert float(weights[f"{name}.weight"].detach().std()) == pytest.approx(std, rel=0.05)
    assert {float(p.detach().abs().max()) for name, p in weights.items() if name.endswith(".bias")} == {0}
    assert bool((weights["norm.weight"] == 1).all())


def test_a_model_that_hears_takes_frames_as_large_as_tokens_and_says_a_weight_for_each_symbol(model_of: Make) -> None:
    model = model_of("linear.full", alphabet=Alphabet(7, channels=40), task="speech", causal=False, H=8, D=32)
    x = torch.randn(4, 16, 40, dtype=torch.float64)
    with torch.no_grad():
        said, _ = model(x.float())
        heard = model.embed(x) - model.positions
    assert said.shape == (4, 16, 7)
    assert torch.equal(model.embed(x), model.embed(x.float())), "frames are taken in the dtype of the weights"
    assert float(heard.std()) == pytest.approx(0.02, rel=0.1)
    assert float(model.positions.detach().square().mean().sqrt()) == pytest.approx(0.02 / math.sqrt(2))


def test_positions_of_frames_begin_alike_where_they_are_near() -> None:
    x = sinusoids(200, 64)
    far = (x[100] - x).norm(dim=1)
    assert far[95:106].argmin() == 5
    assert far[100:104].tolist() == sorted(far[100:104].tolist())
    assert float(far[:80].min()) > float(far[98:103].max())
    torch.testing.assert_close(x[:, 0], torch.arange(200).sin())
    assert sinusoids(3, 5).shape == (3, 5)


def test_models_around_different_attentions_start_with_the_same_weights(model_of: Make) -> None:
    one, other = (dict(model_of(name).named_parameters()) for name in ("softmax.naive", "delta.deltanet"))
    assert one["blocks.0.into.weight"].shape != other["blocks.0.into.weight"].shape, "this one has a gate more"
    same = [name for name in one if name in other and one[name].shape == other[name].shape]
    assert len(same) == len(one) - 4
    assert all(torch.equal(one[name], other[name]) for name in same)


def test_another_seed_is_another_model_and_a_method_s_own_weights_stay_as_it_drew_them(model_of: Make) -> None:
    first, again, other = (dict(model_of(seed=seed).named_parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
    assert not torch.equal(first["blocks.0.up.weight"], first["blocks.1.up.weight"])
    assert bool((dict(model_of("model_cases:Wide").named_parameters())["blocks.0.attention.weight"] == 1).all())


def test_a_method_is_told_its_layer_unless_the_suite_says_it_and_patterns_alternate_by_it(model_of: Make) -> None:
    places = [vars(block.attention)["place"] for block in model_of("model_cases:Told", layers=3).layers]
    assert places == [(0, 3), (1, 3), (2, 3)]
    places = [vars(block.attention)["place"] for block in model_of("model_cases:Told", params={"layer": 5}).layers]
    assert places == [(5, 2), (5, 2)]
    model = model_of("sparse.strided", params={"mode": "by_layer", "stride": 4})
    assert [vars(block.attention)["pattern"].layer for block in model.layers] == [0, 1]


def test_in_a_hybrid_the_last_of_every_n_layers_has_softmax_attention(model_of: Make) -> None:
    model = model_of("linear.chunked", params={"chunk": 8}, layers=4, softmax_every=2)
    assert [type(block.attention).__name__ for block in model.layers] == ["ChunkedLinear", "SdpaSoftmax"] * 2
    assert {type(block.attention).__name__ for block in model_of("linear.chunked").layers} == {"ChunkedLinear"}


@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked", "lsh.reformer", "model_cases:Draws"])
def test_gradient_checkpointing_gives_the_same_gradients(model_of: Make, method: str) -> None:
    found = []
    for recompute in (False, True):
        model = model_of(method, recompute=recompute, dtype="float64").train()
        torch.manual_seed(5)
        loss, _ = losses_of(model, batch_of(model))
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("method", ["softmax.sdpa", "sparse.strided", "linear.chunked"])
def test_gradient_checkpointing_lessens_the_peak_of_an_update_of_many_layers(method: str) -> None:
    peaks = []
    for recompute in (False, True):
        model = Transformer(small_cell(method, N=128, D=16, layers=8, recompute=recompute), TEXT, seed=1).train()
        optimiser, batch = optimiser_of(model), batch_of(model)
        # the optimiser's state is made by the first update, and is no part of the peak of others
        take(model, optimiser, batch)
        peaks.append(torch_profiler_peak(partial(take, model, optimiser, batch)).bytes or 0)
    assert 0 < peaks[1] < 0.5 * peaks[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("method", ["softmax.sdpa", "gated.mamba2", "delta.gated_deltanet", "vq.blockwise"])
def test_in_half_precision_the_attention_is_half_and_the_weights_are_not(model_of: Make, method: str, dtype: str) -> None:
    seen: list[torch.dtype] = []
    model = model_of(method, dtype=dtype).train()
    model.layers[0].attention.register_forward_pre_hook(lambda _, inputs: seen.extend(x.dtype for x in inputs))
    loss = take(model, optimiser_of(model), batch_of(model))
    assert set(seen) == {getattr(torch, dtype)}
    own = {name for name, _ in model.named_parameters() if ".attention." not in name}
    assert {p.dtype for name, p in model.named_parameters() if name in own} == {torch.float32}
    assert bool(loss.isfinite())


def test_what_no_gradient_reaches_moves_once_an_update_adds_to_the_loss_and_rests_while_one_looks(model_of: Make) -> None:
    for recompute in (False, True):
        model = model_of("model_cases:Moves", recompute=recompute).train()
        attention = model.layers[0].attention
        assert isinstance(attention, Learns)
        by_hand = copy.deepcopy(model)
        _, penalty = losses_of(by_hand, batch_of(model))
        assert float(penalty.detach()) > 0
        take(model, optimiser_of(model), batch_of(model))
        seen: list[torch.Tensor] = []
        by_hand.layers[0].attention.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[2]))
        by_hand.eval()(batch_of(model).tokens)
        expected = 0.1 * seen[0].detach().mean((0, 2)).unsqueeze(1)
        torch.testing.assert_close(dict(attention.named_buffers())["centre"], expected)
    looked_at = model_of("model_cases:Moves").eval()
    _, penalty = looked_at(batch_of(looked_at).tokens)
    looked_at.learn()
    assert float(penalty) == 0
    assert float(dict(looked_at.named_buffers())["blocks.0.attention.centre"].abs().sum()) == 0


def test_an_alphabet_without_data_is_that_of_the_task() -> None:
    def alphabet(N: int, **fields: str) -> Alphabet:
        return Alphabet.without_data(Training.model_validate(fields), N)

    assert alphabet(64, task="pixels") == Alphabet(18, 17, start=17)
    assert alphabet(784, task="pixels", data="mnist") == Alphabet(257, 256, start=256)
    assert alphabet(3072, task="pixels", data="mnist") == Alphabet(257, 256, start=256), "no image has so many pixels"
    assert alphabet(100, task="bytes") == Alphabet(257, start=256)
    assert alphabet(100, task="copy") == Alphabet(11, start=10)
