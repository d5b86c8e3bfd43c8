"""The filter bank: a pure tone is loudest in the channel that is nearest to it, however loud it is; silence has frames too."""

import math

import pytest
import torch
from torch import Tensor

from attnbench.training.tasks.filter_bank import (
    CHANNELS,
    FRAME,
    RATE,
    channel_weights,
    filter_bank,
    hertz_of,
    mel_of,
    samples_of,
)
from tests.training.conftest import generator


def tone(hertz: float, N: int = 20, loudness: float = 0.5) -> Tensor:
    return loudness * torch.sin(2 * math.pi * hertz / RATE * torch.arange(samples_of(N)))


@pytest.mark.parametrize("channel", [5, 12, 20, 30, 39])
def test_a_tone_is_loudest_in_its_own_channel(channel: int) -> None:
    frames = filter_bank(tone(hertz_of(mel_of(RATE / 2) * (channel + 1) / (CHANNELS + 1))))
    assert frames.shape == (20, CHANNELS)
    assert frames.argmax(1).tolist() == [channel] * 20


def test_a_tone_is_heard_in_the_frames_in_which_it_sounds() -> None:
    sound = 1e-3 * torch.randn(samples_of(30), generator=generator())
    # frames 10 to 19 lie in it as a whole
    begin, end = 10 * 160, 19 * 160 + FRAME
    sound[begin:end] += tone(1000, 10)
    loudest = filter_bank(sound).amax(1)
    assert float(loudest[10:20].min()) > float(loudest[torch.tensor([*range(8), *range(22, 30)])].max()) + 1


def test_loudness_changes_nothing() -> None:
    sound = tone(700) + 0.1 * torch.randn(samples_of(20), generator=generator())
    torch.testing.assert_close(filter_bank(0.2 * sound), filter_bank(sound), atol=1e-3, rtol=1e-3)


def test_frames_have_mean_0_and_deviation_1_and_silence_is_0() -> None:
    frames = filter_bank(tone(700) + 0.1 * torch.randn(samples_of(20), generator=generator()))
    assert (float(frames.mean()), float(frames.std())) == pytest.approx((0, 1), abs=1e-5)
    assert filter_bank(torch.zeros(samples_of(3))).abs().max() < 1e-3


def test_between_the_middles_of_the_outermost_channels_every_frequency_counts_once() -> None:
    pitch = torch.tensor([mel_of(i * RATE / FRAME) for i in range(FRAME // 2 + 1)])
    width = mel_of(RATE / 2) / (CHANNELS + 1)
    inside = (pitch >= width) & (pitch <= CHANNELS * width)
    torch.testing.assert_close(channel_weights().sum(1)[inside], torch.ones(int(inside.sum())))
    assert bool((channel_weights().sum(0) > 0).all()), "no channel is deaf"
