"""What a model is judged by: the loss of tokens, of pixels by a mixture of logistics and of speech by CTC; and codebooks."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.training import ctc
from attnbench.training.ctc import edits, errors, written
from attnbench.training.logistics import log_prob, log_probs, sample
from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.tasks.speech import written_down
from attnbench.training.update import judge, loss_of, losses_of, nats, optimiser_of, right, take
from tests.training.conftest import PIXELS, TEXT, Make, following, generator

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


def test_hits_are_counted_where_they_are_judged_and_of_pixels_there_are_none(model_of: Make) -> None:
    batch = sequences(7)
    said = torch.nn.functional.one_hot(batch.targets, 7).float()
    assert int(right(said, batch)) == int(batch.judged.sum())
    assert int(right(-said, batch)) == 0
    values = torch.randint(5, (10, 16), generator=generator())
    loss, accuracy = judge(model_of(alphabet=PIXELS), Batch(values, values, torch.ones(10, 16, dtype=torch.bool)))
    assert math.isfinite(loss)
    assert math.isnan(accuracy)


def test_half_precision_is_widened_before_it_is_summed() -> None:
    loss = loss_of(torch.full((3, 8, 7), 300.0, dtype=torch.float16), sequences(7), TEXT)
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
    _, penalty = losses_of(model, following(4, torch.Generator().manual_seed(1)))
    assert 0 < float(penalty.detach()) < 0.1
    (gradient,) = torch.autograd.grad(penalty, model.layers[-1].into.weight)
    assert bool((gradient[16:32] != 0).any()), "the rows that make keys"
    assert bool((gradient[32:] == 0).all())


@pytest.mark.parametrize("levels", [2, 5, 17, 256])
@given(st.lists(st.floats(-12, 12, width=32), min_size=6, max_size=6))
@settings(max_examples=30, deadline=None)
def test_the_probabilities_of_all_levels_add_up_to_one(levels: int, numbers: list[float]) -> None:
    found = log_probs(torch.tensor([numbers]), levels)
    assert found.shape == (1, levels)
    assert float(found.double().exp().sum()) == pytest.approx(1, abs=1e-4)
    assert bool((found <= 1e-6).all())


def test_it_is_what_the_paper_defines() -> None:
    logits, means, scales = torch.tensor([0.3, -0.7]), torch.tensor([-0.4, 0.5]), torch.tensor([0.2, 0.6])
    parameters = torch.cat([logits, means, scales.log()]).double()
    half = 1 / 4

    def share(level: int) -> float:
        x = 2 * level / 4 - 1
        upper = torch.sigmoid((x + half - means) / scales) if level < 4 else torch.ones(2)
        lower = torch.sigmoid((x - half - means) / scales) if level > 0 else torch.zeros(2)
        return float((logits.softmax(0) * (upper - lower)).sum())

    assert log_probs(parameters, 5).exp().tolist() == pytest.approx([share(level) for level in range(5)], abs=1e-6)


def test_a_level_far_from_every_mean_has_a_finite_loss_and_a_finite_gradient() -> None:
    parameters = torch.tensor([0.0, 1.0, -30.0], requires_grad=True)
    loss = -log_prob(parameters, torch.tensor(0), 256)
    (gradient,) = torch.autograd.grad(loss, parameters)
    assert 1000 < float(loss.detach()) < math.inf, "the mean is 255 bins away, and a bin is ten scales wide"
    assert bool(gradient.isfinite().all())


def test_very_wide_logistics_give_half_to_either_end() -> None:
    found = log_probs(torch.tensor([0.0, 0.0, 50.0]), 17).exp()
    assert found[[0, -1]].tolist() == pytest.approx([0.5, 0.5], abs=1e-3)
    assert bool(found.isfinite().all())


@pytest.mark.parametrize("levels", [2, 5, 17])
def test_samples_come_as_often_as_the_probabilities_say(levels: int) -> None:
    parameters = torch.tensor([0.5, -0.5, -0.6, 0.4, -1.5, -0.5])
    count = 40_000
    drawn = sample(parameters.expand(count, -1), levels, torch.Generator().manual_seed(3))
    shares = torch.bincount(drawn, minlength=levels).double() / count
    expected = log_probs(parameters, levels).double().exp()
    # five standard deviations of a share
    assert bool(((shares - expected).abs() < 5 * (expected / count).sqrt() + 1e-4).all())


TEXTS = st.lists(st.integers(1, 3), max_size=6)
SPEECH = Alphabet(4, channels=5)


def utterances(*texts: list[int], N: int = 4) -> Batch:
    frames = torch.randn(len(texts), N, 5, generator=generator())
    return written_down(list(frames), [torch.tensor(text, dtype=torch.int64) for text in texts], N)


def saying(*rows: list[int]) -> torch.Tensor:
    """Be sure of one thing at each frame."""
    return 50.0 * torch.nn.functional.one_hot(torch.tensor(rows), 4).float()


def of_all_alignments(log_p: torch.Tensor, text: list[int]) -> float:
    """By the definition: every path through the frames that is written down as the text."""
    N, symbols = log_p.shape
    paths = itertools.product(range(symbols), repeat=N)
    fitting = [path for path in paths if [s for s, _ in itertools.groupby(path) if s != 0] == text]
    return math.log(sum(math.exp(sum(float(log_p[n, s]) for n, s in enumerate(path))) for path in fitting))


@pytest.mark.parametrize("text", [[1], [1, 2], [2, 2], [3, 1, 3], [1, 2, 3, 1]])
def test_the_loss_is_that_of_all_alignments(text: list[int]) -> None:
    said = torch.randn(1, 4, 4, generator=generator(), dtype=torch.float64)
    assert float(ctc.nats(said, utterances(text))) == pytest.approx(-of_all_alignments(said[0].log_softmax(-1), text))


def test_the_loss_is_a_mean_over_symbols_and_not_over_utterances() -> None:
    said, batch = torch.randn(2, 4, 4, generator=generator()), utterances([1, 2, 3], [2])
    assert float(loss_of(said, batch, SPEECH)) == pytest.approx(float(ctc.nats(said, batch).sum()) / 4)


def test_an_utterance_that_only_fills_the_batch_counts_for_nothing() -> None:
    said, batch = torch.randn(2, 4, 4, generator=generator(), requires_grad=True), utterances([1, 2], [2])
    one = Batch(batch.tokens, batch.targets, batch.judged & torch.tensor([[True], [False]]))
    assert ctc.nats(said, one)[1] == 0
    (gradient,) = torch.autograd.grad(ctc.nats(said, one).sum(), said)
    assert bool((gradient[1] == 0).all())
    assert errors(saying([1, 0, 2, 0], [3, 3, 3, 3]), one) == 0


def test_what_is_said_again_right_away_is_written_once_and_the_blank_never_and_all_errors_are_counted() -> None:
    assert written(saying([0, 1, 1, 2], [1, 0, 1, 1], [0, 0, 0, 0])) == [[1, 2], [1, 1], []]
    assert errors(saying([0, 1, 1, 2], [3, 0, 3, 0]), utterances([1, 2], [3])) == 1


@pytest.mark.parametrize(
    ("text", "reference", "count"),
    [([], [1, 2], 2), ([1, 2], [], 2), ([1, 2, 3], [1, 3], 1), ([2, 1], [1, 2], 2), ([1, 2, 3], [1, 3, 3], 1), ([1], [1], 0)],
)
def test_symbols_inserted_left_out_or_replaced_count_one_each(text: list[int], reference: list[int], count: int) -> None:
    assert edits(text, reference) == count


@given(TEXTS, TEXTS, TEXTS)
def test_edits_are_a_distance(one: list[int], other: list[int], third: list[int]) -> None:
    assert (edits(one, other) == 0) == (one == other)
    assert edits(one, other) == edits(other, one) >= abs(len(one) - len(other))
    assert edits(one, other) <= edits(one, third) + edits(third, other)


def test_each_held_out_utterance_counts_once_whatever_the_batch(model_of: Make) -> None:
    batch = utterances([1, 2, 3], [2], [3, 3], N=16)
    found = []
    for B in (1, 2, 3, 5):
        model = model_of("softmax.naive", alphabet=SPEECH, task="speech", causal=False, B=B, dtype="float64")
        found.append(judge(model, batch))
        if B == 3:
            with torch.no_grad():
                said, _ = model(batch.tokens)
            assert found[-1] == pytest.approx((float(ctc.nats(said, batch).sum()) / 6, errors(said, batch) / 6), rel=1e-6)
    assert all(each == pytest.approx(found[0], rel=1e-9) for each in found)
