"""The filter bank: what a model hears of each frame of a sound, the logarithms of its energy in bands of the mel scale.

N frames, F frequencies, C channels.
"""

import math
from functools import cache

import torch
from torch import Tensor

RATE = 16_000
"""Samples of a second."""
FRAME, HOP = 400, 160
"""Samples of a frame, which is 25 ms, and from the begin of one to that of the next, 10 ms."""
CHANNELS = 40
_LEAST_ENERGY, _LEAST_DEVIATION = 1e-5, 1e-2
"""Digital silence has a logarithm too, and what does not vary stays small."""


def samples_of(N: int) -> int:
    """Return the number of samples that N frames are computed from."""
    return (N - 1) * HOP + FRAME


def mel_of(hertz: float) -> float:
    """Return the pitch of a frequency in mel (O'Shaughnessy 1987)."""
    return 2595 * math.log10(1 + hertz / 700)


def hertz_of(mel: float) -> float:
    """Return the frequency of a pitch."""
    return 700 * (10 ** (mel / 2595) - 1)


@cache
def channel_weights() -> Tensor:
    """Return how much each frequency counts in each channel, [F, C]: triangles that overlap by half, evenly spaced in mel."""
    pitch = torch.tensor([mel_of(i * RATE / FRAME) for i in range(FRAME // 2 + 1)])[:, None]
    width = mel_of(RATE / 2) / (CHANNELS + 1)
    centre = width * torch.arange(1, CHANNELS + 1)
    return (1 - (pitch - centre).abs() / width).clamp(min=0)


def filter_bank(sound: Tensor) -> Tensor:
    """Return the frames of a sound, float [samples] -> [N, C], shifted and scaled to mean 0 and deviation 1 over all of it."""
    window = torch.hann_window(FRAME, dtype=sound.dtype)
    energy = torch.stft(sound, FRAME, HOP, window=window, center=False, return_complex=True).abs().square()
    logs = (energy.T @ channel_weights().to(sound.dtype)).clamp(min=_LEAST_ENERGY).log()
    return (logs - logs.mean()) / logs.std().clamp(min=_LEAST_DEVIATION)
