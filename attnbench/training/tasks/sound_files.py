"""Sound files: speech out of a folder of WAV files, each with a text beside it."""

import hashlib
import wave
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from attnbench.training.tasks.filter_bank import CHANNELS, FRAME, RATE, filter_bank
from attnbench.training.tasks.speech import written_down
from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData, evenly_among

_SAMPLE_BYTES, _LOUDEST = 2, 2**15


class SoundFiles(TaskData):
    """The utterances of a folder: `name.wav`, 16-bit PCM of one channel, and `name.txt`, each letter of which is a symbol.

    Of the files in the order of their names, the first nine tenths are trained on, and the rest is held out. All frames are
    kept in memory. Raises FileNotFoundError where a file is missing, and ValueError where one does not fit; both name it.
    """

    def __init__(self, folder: str, N: int) -> None:
        root = Path(folder).expanduser()
        files = sorted(root.glob("*.wav"))
        if len(files) < 2:
            raise FileNotFoundError(
                f"training.data: {folder} holds {len(files)} files *.wav; name a folder of two at least, to train and to judge"
            )
        digest, self.frames, texts = hashlib.sha256(), list[Tensor](), list[str]()
        for file in files:
            sound, text = read_sound(file), read_text(file.with_suffix(".txt"))
            digest.update(file.name.encode() + sound.numpy().tobytes() + text.encode())
            frames = filter_bank(sound)
            needed = len(text) + sum(one == other for one, other in pairwise(text))
            if len(frames) > N:
                raise ValueError(f"training.data: {file} has {len(frames):,} frames; set N to that at least, it is {N:,}")
            if needed > len(frames):
                raise ValueError(
                    f"training.data: the text of {file} needs {needed:,} frames, one a letter and one more between two that "
                    f"are the same; there are {len(frames):,}"
                )
            self.frames.append(frames)
            texts.append(text)
        letters = sorted(set("".join(texts)))
        self.texts = [torch.tensor([1 + letters.index(letter) for letter in text]) for text in texts]
        self.N, self.cut = N, min(len(files) - 1, -(-len(files) * 9 // 10))
        self.alphabet = Alphabet(len(letters) + 1, channels=CHANNELS)
        self.name = f"speech of {root.resolve().name} ({digest.hexdigest()[:8]})"
        # the entropy of the held-out symbols, taken independently; who says nothing gets none of them right
        self.chance = Chance(Chance.frequent(torch.bincount(torch.cat(self.texts[self.cut :]))).loss, accuracy=0.0)

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B of the utterances to train on, with replacement."""
        return self._utterances(torch.randint(self.cut, (B,), generator=generator).tolist())

    def held_out(self, count: int) -> Batch:
        """Return utterances spread evenly over those that are held out."""
        return self._utterances((self.cut + evenly_among(count, len(self.frames) - self.cut)).tolist())

    def _utterances(self, numbers: list[int]) -> Batch:
        return written_down([self.frames[i] for i in numbers], [self.texts[i] for i in numbers], self.N)


def read_sound(file: Path) -> Tensor:
    """Read a WAV file of 16-bit PCM, one channel and our rate: float [samples], in -1 to 1. Raises ValueError."""
    try:
        with wave.open(str(file)) as stored:
            channels, width, rate = stored.getnchannels(), stored.getsampwidth(), stored.getframerate()
            count = stored.getnframes()
            samples = stored.readframes(count)
    except (OSError, EOFError, wave.Error) as error:
        reason = str(error) or "it ends early"
        raise ValueError(f"training.data: {file} cannot be read as a WAV file of PCM: {reason}") from error
    found = [
        (channels != 1, f"has {channels} channels; mix them down to one"),
        (width != _SAMPLE_BYTES, f"has samples of {8 * width} bits; write it with {8 * _SAMPLE_BYTES}"),
        (rate != RATE, f"has {rate:,} samples a second; resample it to {RATE:,}"),
        (len(samples) < count * _SAMPLE_BYTES, f"ends before the last of its {count:,} samples"),
        (len(samples) < FRAME * _SAMPLE_BYTES, f"is shorter than one frame, {FRAME * 1000 // RATE} ms"),
    ]
    if why := next((why for wrong, why in found if wrong), None):
        raise ValueError(f"training.data: {file} {why}")
    # bytearray, because torch warns of a buffer that cannot be written to
    return torch.frombuffer(bytearray(samples), dtype=torch.int16).float() / _LOUDEST


def read_text(file: Path) -> str:
    """Read a text, with one blank between its words. Raises FileNotFoundError, and ValueError where there are no words."""
    try:
        text = " ".join(file.read_text(encoding="utf-8").split())
    except OSError as error:
        raise FileNotFoundError(
            f"training.data: {file} cannot be read: {error.strerror}; each WAV file needs a text"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"training.data: {file} is no UTF-8: {error.reason}") from error
    if not text:
        raise ValueError(f"training.data: {file} is empty")
    return text
