"""Speech: write down what was said, from the frames of its sound.

B utterances, N frames, n of them, C channels, L symbols of an utterance.
"""

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from attnbench.training.tasks.filter_bank import CHANNELS, RATE, filter_bank, hertz_of, mel_of, samples_of
from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData

LASTS = [tuple(RATE * ms // 1000 for ms in part) for part in ((30, 60), (30, 40), (30, 60), (60, 90))]
"""Samples of the low tone, the silence behind it, the high tone and the pause of a symbol, each the fewest and the most."""
LONGEST = sum(most for _, most in LASTS)
_SOFTEST, _LOUDEST, _NOISE = 0.3, 1.0, 0.1
"""Amplitudes of tones, and the deviation of the noise."""


class Tones(TaskData):
    """Sounds of symbols, each a low tone, then a high one, and a pause, in noise and silence; symbols are 1 to `symbols`.

    The form of Katharopoulos et al. 2020, arXiv:2006.16236, section 4.3 (40 channels, CTC), on sounds that are made up. From 9
    symbols on a tone belongs to several, and no frame reaches over the silence between two: it takes both to tell a symbol.
    Lengths, loudness and the begin are drawn.
    """

    def __init__(self, N: int, symbols: int) -> None:
        self.N, self.symbols, self.room = N, symbols, samples_of(N)
        self.most = self.room // LONGEST
        self.least = max(1, self.most // 2)
        if not self.most:
            raise ValueError(f"a symbol lasts up to {LONGEST * 1000 // RATE} ms, which N={N} frames are too short for")
        low = math.isqrt(symbols)
        tones = low + -(-symbols // low)
        self.pitches = [hertz_of(mel_of(RATE / 2) * (tone + 1) / (tones + 1)) for tone in range(tones)]
        self.pairs = list(product(range(low), range(low, tones)))[:symbols]
        self.alphabet = Alphabet(symbols + 1, channels=CHANNELS)
        self.name = f"speech of {self.least} to {self.most} symbols out of {symbols}"
        # the loss of who knows how many symbols were said; who says nothing gets none of them right
        self.chance = Chance(Chance.uniform(symbols).loss, accuracy=0.0)

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B utterances, the symbols of each independently."""
        frames, texts = zip(*(self._utterance(generator) for _ in range(B)), strict=True)
        return written_down(frames, texts, self.N)

    def _utterance(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw an utterance: its frames [N, C], and its symbols [L]."""
        count = int(torch.randint(self.least, self.most + 1, (), generator=generator))
        symbols = torch.randint(self.symbols, (count,), generator=generator)
        # each symbol has four parts, [L, 4], of which the second and the last are silent
        pitch = torch.tensor(self.pitches)[torch.tensor(self.pairs)[symbols]].repeat_interleave(2, dim=1)
        loudness = _SOFTEST + (_LOUDEST - _SOFTEST) * torch.rand(count, 4, generator=generator)
        loudness[:, 1::2] = 0
        parts = [torch.randint(least, most + 1, (count,), generator=generator) for least, most in LASTS]
        lasts = torch.stack(parts, dim=1)
        pitch, loudness = (part.flatten().repeat_interleave(lasts.flatten()) for part in (pitch, loudness))
        phase = (2 * math.pi / RATE * pitch.double()).cumsum(0).float()
        sound = _NOISE * torch.randn(self.room, generator=generator)
        begin = int(torch.randint(self.room - len(phase) + 1, (), generator=generator))
        sound[begin : begin + len(phase)] += loudness * phase.sin()
        return filter_bank(sound), symbols + 1


def written_down(frames: Sequence[Tensor], texts: Sequence[Tensor], N: int) -> Batch:
    """Return the utterances, [n, C] each, with zeros behind their ends; targets are their symbols, [L] each, from the left."""
    tokens = torch.stack([torch.nn.functional.pad(each, (0, 0, 0, N - len(each))) for each in frames])
    targets = torch.stack([torch.nn.functional.pad(each, (0, N - len(each))) for each in texts])
    return Batch(tokens, targets, targets > 0)
