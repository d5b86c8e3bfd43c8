"""The mixture of logistics: a distribution over all levels, in both tails and for any scale."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.training.logistics import log_prob, log_probs, sample

LEVELS = [2, 5, 17, 256]


@pytest.mark.parametrize("levels", LEVELS)
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
    assert math.isfinite(float(loss.detach()))
    assert float(loss.detach()) > 1000, "the mean is 255 bins away, and a bin is ten scales wide"
    assert bool(gradient.isfinite().all())


def test_very_wide_logistics_give_half_to_either_end() -> None:
    found = log_probs(torch.tensor([0.0, 0.0, 50.0]), 17).exp()
    assert found[0] == pytest.approx(0.5, abs=1e-3)
    assert found[-1] == pytest.approx(0.5, abs=1e-3)
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


def test_a_model_can_learn_any_distribution_of_levels() -> None:
    target = torch.tensor([0, 0, 0, 7, 7, 16])
    parameters = torch.randn(1, 15).requires_grad_()
    optimiser = torch.optim.Adam([parameters], lr=0.1)
    for _ in range(400):
        loss = -log_prob(parameters.expand(6, -1), target, 17).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    entropy = -(0.5 * math.log(0.5) + math.log(1 / 3) / 3 + math.log(1 / 6) / 6)
    assert float(loss.detach()) == pytest.approx(entropy, abs=0.05)
