"""Speech: a filter bank hears tones, a rule hears every symbol of made-up speech, and a folder of sounds has what it says."""

import math
import wave
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.schema.training import MOST_SPOKEN, Task, Training
from attnbench.training.ctc import edits
from attnbench.training.tasks import Batch, task_of
from attnbench.training.tasks import filter_bank as bank
from attnbench.training.tasks.filter_bank import CHANNELS, FRAME, RATE, filter_bank, mel_of, samples_of
from attnbench.training.tasks.sound_files import SoundFiles, read_sound
from attnbench.training.tasks.speech import Tones
from tests.training.conftest import generator


def tone(hertz: float, N: int = 20, loudness: float = 0.5) -> Tensor:
    return loudness * torch.sin(2 * math.pi * hertz / RATE * torch.arange(samples_of(N)))


@pytest.mark.parametrize("channel", [5, 12, 20, 30, 39])
def test_a_tone_is_loudest_in_its_own_channel(channel: int) -> None:
    frames = filter_bank(tone(bank.hertz_of(mel_of(RATE / 2) * (channel + 1) / (CHANNELS + 1))))
    assert frames.shape == (20, CHANNELS)
    assert frames.argmax(1).tolist() == [channel] * 20


def test_a_tone_is_heard_in_the_frames_in_which_it_sounds() -> None:
    sound = 1e-3 * torch.randn(samples_of(30), generator=generator())
    # frames 10 to 19 lie in it as a whole
    begin, end = 10 * 160, 19 * 160 + FRAME
    sound[begin:end] += tone(1000, 10)
    loudest = filter_bank(sound).amax(1)
    assert float(loudest[10:20].min()) > float(loudest[torch.tensor([*range(8), *range(22, 30)])].max()) + 1


def test_frames_have_mean_0_and_deviation_1_however_loud_and_silence_is_0() -> None:
    sound = tone(700) + 0.1 * torch.randn(samples_of(20), generator=generator())
    frames = filter_bank(sound)
    torch.testing.assert_close(filter_bank(0.2 * sound), frames, atol=1e-3, rtol=1e-3)
    assert (float(frames.mean()), float(frames.std())) == pytest.approx((0, 1), abs=1e-5)
    assert filter_bank(torch.zeros(samples_of(3))).abs().max() < 1e-3


def test_between_the_middles_of_the_outermost_channels_every_frequency_counts_once() -> None:
    pitch = torch.tensor([mel_of(i * RATE / FRAME) for i in range(FRAME // 2 + 1)])
    width = mel_of(RATE / 2) / (CHANNELS + 1)
    inside = (pitch >= width) & (pitch <= CHANNELS * width)
    torch.testing.assert_close(bank.channel_weights().sum(1)[inside], torch.ones(int(inside.sum())))
    assert bool((bank.channel_weights().sum(0) > 0).all()), "no channel is deaf"


HEARD = 2.0
"""How far above the median of a frame a tone is, in deviations of the utterance."""


def heard(frames: Tensor, tones: int) -> list[int]:
    """The tones one after the other, each by the loudest of the channels around it."""
    middles = [round((CHANNELS + 1) * (tone + 1) / (tones + 1)) - 1 for tone in range(tones)]
    loudness, tone = torch.stack([frames[:, middle - 1 : middle + 2].amax(1) for middle in middles], dim=1).max(1)
    sounding = torch.where(loudness - frames.median(1).values > HEARD, tone, -1).tolist()
    return [int(each) for each, _ in groupby(sounding) if each >= 0]


def error_rate(batch: Batch, write: Callable[[Tensor], list[int]]) -> float:
    texts = [row[judged].tolist() for row, judged in zip(batch.targets, batch.judged, strict=True)]
    return sum(edits(write(frames), text) for frames, text in zip(batch.tokens, texts, strict=True)) / sum(map(len, texts))


@pytest.mark.parametrize(("N", "symbols"), [(24, 2), (64, 6), (128, 12), (200, 30), (100, MOST_SPOKEN)])
def test_who_follows_the_rule_is_almost_always_right(N: int, symbols: int) -> None:
    task = Tones(N, symbols)

    def by_rule(frames: Tensor) -> list[int]:
        """The symbol of each two tones that follow each other and are one."""
        return [1 + task.pairs.index(pair) for pair in pairwise(heard(frames, len(task.pitches))) if pair in task.pairs]

    assert error_rate(task.batch(64, generator()), by_rule) < 0.02


def test_who_hears_one_tone_of_two_is_mostly_wrong() -> None:
    task = Tones(128, 12)
    # for each high tone any symbol that ends in it
    of_high = {high: 1 + i for i, (_, high) in enumerate(task.pairs)}
    batch, tones = task.batch(64, generator()), len(task.pitches)
    assert error_rate(batch, lambda frames: [of_high[tone] for tone in heard(frames, tones) if tone in of_high]) > 0.5


def test_who_says_nothing_makes_as_many_errors_as_the_task_says_and_who_guesses_makes_most_of_them() -> None:
    task, source = Tones(128, 12), generator(7)
    batch = task.batch(64, generator())
    assert error_rate(batch, lambda frames: []) == 1 - task.chance.accuracy == 1
    guess = [1 + int(torch.randint(12, (), generator=source)) for _ in range(4)]
    assert error_rate(batch, lambda frames: guess) > 0.7


def test_chance_knows_how_many_symbols_there_are_and_nothing_else() -> None:
    assert Tones(128, 12).chance.loss == pytest.approx(math.log(12))
    batch = Tones(64, 12).batch(400, generator())
    shares = torch.bincount(batch.targets[batch.judged], minlength=13)[1:].double() / int(batch.judged.sum())
    assert shares.tolist() == pytest.approx([1 / 12] * 12, abs=0.045)


def test_targets_stand_from_the_left_on_and_are_as_many_as_the_name_says() -> None:
    batch = Tones(128, 12).batch(200, generator())
    counts = batch.judged.sum(1)
    assert (int(counts.min()), int(counts.max())) == (2, 5)
    assert torch.equal(batch.judged, torch.arange(128) < counts[:, None])
    assert bool((batch.targets[batch.judged] >= 1).all())
    assert bool((batch.targets[~batch.judged] == 0).all())


def test_utterances_begin_anywhere_so_that_a_place_tells_nothing() -> None:
    batch = Tones(128, 12).batch(100, generator())
    begins = (batch.tokens.amax(2) > 3).int().argmax(1)
    assert int(begins.min()) < 10
    assert int(begins.max()) > 50


def test_a_symbol_is_a_low_tone_and_a_high_one_and_no_two_are_the_same() -> None:
    assert [len(Tones(64, symbols).pitches) for symbols in (2, 4, 6, 12, MOST_SPOKEN)] == [3, 4, 5, 7, 13]
    for symbols in range(2, MOST_SPOKEN + 1):
        task = Tones(64, symbols)
        assert len(set(task.pairs)) == symbols
        assert {low for low, _ in task.pairs}.isdisjoint(high for _, high in task.pairs)
        assert all(task.pitches[low] < task.pitches[high] for low, high in task.pairs)


def record(file: Path, text: str | None = "ab", frames: int = 20, seed: int = 0, **fields: Any) -> None:
    about = {"nchannels": 1, "sampwidth": 2, "framerate": 16_000, **fields}
    samples = (8000 * torch.randn(samples_of(frames), generator=generator(seed))).clamp(-32768, 32767).to(torch.int16)
    with wave.open(str(file), "wb") as stored:
        stored.setparams((about["nchannels"], about["sampwidth"], about["framerate"], 0, "NONE", ""))
        stored.writeframes(samples.numpy().tobytes())
    if text is not None:
        file.with_suffix(".txt").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(20):
        record(tmp_path / f"utterance_{i:02}.wav", "a b" if i % 2 else "bc ", frames=20 + i, seed=i)
    return tmp_path


def test_a_folder_is_read_by_its_name(folder: Path) -> None:
    task = task_of(Training(task=Task.SPEECH, data=str(folder)), 64)
    assert isinstance(task, SoundFiles)
    assert task.name.startswith(f"speech of {folder.name} (")
    assert str(folder.parent) not in task.name
    assert task.alphabet.vocabulary == 1 + len(" abc")


def test_frames_are_those_of_the_file_and_zeros_behind_its_end(folder: Path) -> None:
    batch = SoundFiles(str(folder), 64).held_out(1)
    assert batch.tokens.shape == (1, 64, 40)
    torch.testing.assert_close(batch.tokens[0, :38], filter_bank(read_sound(folder / "utterance_18.wav")))
    assert not batch.tokens[0, 38:].any()
    assert "".join(" abc"[symbol - 1] for symbol in batch.targets[batch.judged].tolist()) == "bc"


def test_a_sound_reads_back_as_it_was_written(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "x.wav"), "wb") as stored:
        stored.setparams((1, 2, 16_000, 0, "NONE", ""))
        stored.writeframes(torch.tensor([0, 16384, -32768] * 200, dtype=torch.int16).numpy().tobytes())
    assert read_sound(tmp_path / "x.wav")[:3].tolist() == [0.0, 0.5, -1.0]


def test_the_last_tenth_by_name_is_held_out_and_never_drawn(folder: Path) -> None:
    task = SoundFiles(str(folder), 64)
    held_out = task.held_out(100)
    drawn = task.batch(300, generator())
    assert len(held_out.tokens) == 2
    assert (drawn.tokens.abs().sum(2) > 0).sum(1).unique().tolist() == list(range(20, 38))
    assert (held_out.tokens.abs().sum(2) > 0).sum(1).tolist() == [38, 39]


def test_chance_is_by_the_letters_that_are_held_out(folder: Path) -> None:
    # "bc" and "a b": b twice, and three others once
    assert SoundFiles(str(folder), 64).chance.loss == pytest.approx(1.332, abs=1e-3)


def test_another_sound_or_another_text_is_another_name(folder: Path) -> None:
    names = [SoundFiles(str(folder), 64).name]
    record(folder / "utterance_00.wav", "bc ", seed=99)
    names.append(SoundFiles(str(folder), 64).name)
    (folder / "utterance_00.txt").write_text("cb")
    names.append(SoundFiles(str(folder), 64).name)
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"nchannels": 2}, "has 2 channels; mix them down to one"),
        ({"framerate": 8_000}, "has 8,000 samples a second; resample it to 16,000"),
        ({"sampwidth": 1}, "has samples of 8 bits; write it with 16"),
        ({"text": None}, r"bad\.txt cannot be read: No such file or directory; each WAV file needs a text"),
        ({"text": " \n"}, r"bad\.txt is empty"),
        ({"text": "abcabcabca", "frames": 9}, r"bad\.wav needs 10 frames.* there are 9"),
        ({"text": "aabb", "frames": 5}, r"bad\.wav needs 6 frames.* there are 5"),
        ({"frames": 65}, r"bad\.wav has 65 frames; set N to that at least, it is 64"),
        ({"frames": 0}, r"bad\.wav is shorter than one frame, 25 ms"),
    ],
)
def test_a_file_that_does_not_fit_is_named_with_what_would_be_right(folder: Path, fields: dict[str, Any], words: str) -> None:
    record(folder / "bad.wav", **fields)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"training\.data: .*bad.*{words.removeprefix('bad')}"):
        SoundFiles(str(folder), 64)


@pytest.mark.parametrize("content", [b"", b"no sound at all", b"RIFF"])
def test_what_is_no_wav_file_is_named(folder: Path, content: bytes) -> None:
    (folder / "bad.wav").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.wav cannot be read as a WAV file of PCM: \w"):
        SoundFiles(str(folder), 64)


def test_a_sound_that_was_cut_off_and_a_text_that_is_none_are_named(folder: Path) -> None:
    sound, text = folder / "utterance_03.wav", folder / "utterance_02.txt"
    sound.write_bytes(sound.read_bytes()[:-101])
    with pytest.raises(ValueError, match=r"utterance_03\.wav ends before the last of its 3,920 samples"):
        SoundFiles(str(folder), 64)
    text.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match=r"utterance_02\.txt is no UTF-8"):
        SoundFiles(str(folder), 64)


@pytest.mark.parametrize("count", [0, 1])
def test_a_folder_without_two_sounds_says_how_many_it_holds(tmp_path: Path, count: int) -> None:
    for i in range(count):
        record(tmp_path / f"{i}.wav")
    with pytest.raises(FileNotFoundError, match=rf"holds {count} files \*\.wav; name a folder of two at least"):
        SoundFiles(str(tmp_path), 64)
    with pytest.raises(FileNotFoundError, match="nowhere holds 0 files"):
        SoundFiles(str(tmp_path / "nowhere"), 64)
