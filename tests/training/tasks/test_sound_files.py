"""Sound files: sounds and texts out of a folder, parts that never meet, and what is said of files that do not fit."""

import wave
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.schema.training import Task, Training
from attnbench.training.tasks import task_of
from attnbench.training.tasks.filter_bank import filter_bank, samples_of
from attnbench.training.tasks.sound_files import SoundFiles, read_sound
from tests.training.conftest import generator


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
    task = SoundFiles(str(folder), 64)
    batch = task.held_out(1)
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


def test_a_file_that_was_cut_off_is_named(folder: Path) -> None:
    file = folder / "utterance_03.wav"
    file.write_bytes(file.read_bytes()[:-101])
    with pytest.raises(ValueError, match=r"utterance_03\.wav ends before the last of its 3,920 samples"):
        SoundFiles(str(folder), 64)


def test_a_text_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "utterance_03.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match=r"utterance_03\.txt is no UTF-8"):
        SoundFiles(str(folder), 64)


@pytest.mark.parametrize("count", [0, 1])
def test_a_folder_without_two_sounds_says_how_many_it_holds(tmp_path: Path, count: int) -> None:
    for i in range(count):
        record(tmp_path / f"{i}.wav")
    with pytest.raises(FileNotFoundError, match=rf"holds {count} files \*\.wav; name a folder of two at least"):
        SoundFiles(str(tmp_path), 64)
    with pytest.raises(FileNotFoundError, match="nowhere holds 0 files"):
        SoundFiles(str(tmp_path / "nowhere"), 64)
