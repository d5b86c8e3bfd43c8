"""One update: only judged tokens count, each alike; codebooks follow the keys, and keys are drawn towards them."""

import math

import pytest
import torch

from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.update import loss_of, losses_of, nats, optimiser_of, right, take
from tests.training.conftest import PIXELS, TEXT, Make, following

METHODS = [("vq.blockwise", {"codes": 8, "block": 4}), ("vq.gau", {"codes": 8, "block": 4}), ("vq.quantised", {"codes": 8})]


def sequences(vocabulary: int) -> Batch:
    source = torch.Generator().manual_seed(1)
    targets = torch.randint(vocabulary, (3, 8), generator=source)
    return Batch(targets, targets, torch.rand(3, 8, generator=source) < 0.5)


@pytest.mark.parametrize(("alphabet", "outputs", "values"), [(TEXT, 7, 7), (PIXELS, 9, 5)])
def test_what_is_not_judged_counts_for_nothing(alphabet: Alphabet, outputs: int, values: int) -> None:
    batch = sequences(values)
    said = torch.randn(3, 8, outputs, requires_grad=True)
    loss = loss_of(said, batch, alphabet)
    (gradient,) = torch.autograd.grad(loss, said)
    assert bool((gradient[~batch.judged] == 0).all())
    assert bool((gradient[batch.judged].abs().sum(-1) > 0).all())
    assert bool((nats(said, batch, alphabet)[~batch.judged] == 0).all())
    # nor does a target that is no pixel do any harm there
    strange = Batch(batch.tokens, batch.targets.masked_fill(~batch.judged, values), batch.judged)
    assert torch.equal(loss_of(said, strange, alphabet), loss)


def test_hits_are_counted_where_they_are_judged() -> None:
    batch = sequences(7)
    said = torch.nn.functional.one_hot(batch.targets, 7).float()
    assert int(right(said, batch)) == int(batch.judged.sum())
    assert int(right(-said, batch)) == 0


def test_half_precision_is_widened_before_it_is_summed() -> None:
    said = torch.full((3, 8, 7), 300.0, dtype=torch.float16)
    loss = loss_of(said, sequences(7), TEXT)
    assert loss.dtype is torch.float32
    assert float(loss) == pytest.approx(math.log(7))


@pytest.mark.parametrize(("method", "params"), METHODS)
def test_codebooks_follow_the_keys(model_of: Make, method: str, params: dict[str, int]) -> None:
    model = model_of(method, params=params).train()
    batch = following(4, torch.Generator().manual_seed(1))
    before = {name: x.clone() for name, x in model.named_buffers()}
    take(model, optimiser_of(model), batch)
    moved = [name for name, x in model.named_buffers() if not torch.equal(before[name], x)]
    assert len(moved) == 2 * 2, "sums and counts of both layers"


def test_the_commitment_loss_comes_on_top_and_draws_keys_to_their_codes(model_of: Make) -> None:
    model = model_of("vq.blockwise", params={"codes": 8, "block": 4}).train()
    batch = following(4, torch.Generator().manual_seed(1))
    _, penalty = losses_of(model, batch)
    assert 0 < float(penalty.detach()) < 0.1
    (gradient,) = torch.autograd.grad(penalty, model.layers[-1].into.weight)
    assert bool((gradient[16:32] != 0).any()), "the rows that make keys"
    assert bool((gradient[32:] == 0).all())
