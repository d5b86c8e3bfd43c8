"""Recorded inputs: what a file may hold, what is taken of it, and what is said of one that does not fit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attnbench.schema.problem import Problem
from attnbench.workloads.recording import NAMES, Recording, RecordingError

Shapes = dict[str, tuple[int, ...]]
WHOLE: Shapes = dict.fromkeys(NAMES, (3, 8, 64, 16))


def write(path: Path, shapes: Shapes, dtype: torch.dtype = torch.float32) -> str:
    """A file whose numbers count up, so that each tells where it stood."""
    tensors = {name: torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype) for name, shape in shapes.items()}
    save_file(tensors, path / "made.safetensors")
    return str(path / "made.safetensors")


def problem(**fields: object) -> Problem:
    return Problem(**{"B": 2, "H": 8, "N": 64, "D": 16, **fields})


def test_it_takes_the_first_tokens_of_the_sequences_that_are_asked_for(tmp_path: Path) -> None:
    recording = Recording.read(write(tmp_path, WHOLE))
    cut = recording.cut(problem(N=5), torch.tensor([2, 0]))
    assert set(cut) == set(NAMES)
    for name, x in cut.items():
        assert torch.equal(x, getattr(recording, name)[[2, 0], :, :5])


def test_fewer_heads_are_spread_over_all_of_them(tmp_path: Path) -> None:
    recording = Recording.read(write(tmp_path, WHOLE))
    cut = recording.cut(problem(H=4, kv_heads=2), torch.tensor([1, 2]))
    assert torch.equal(cut["q"], recording.q[1:, [0, 2, 4, 6]])
    assert torch.equal(cut["k"], recording.k[1:, [0, 4]])
    assert torch.equal(cut["v"], recording.v[1:, [0, 4]])
    # values may be wider than keys
    wide = Recording.read(write(tmp_path, {**WHOLE, "v": (3, 8, 64, 24)}))
    assert wide.cut(problem(M=24), torch.tensor([0, 1]))["v"].shape == (2, 8, 64, 24)


@pytest.mark.parametrize(("shape", "sequences"), [((8, 64, 16), 1), ((3, 8, 64, 16), 3), ((2, 3, 8, 64, 16), 6)])
def test_three_dimensions_are_one_sequence_and_more_than_four_are_many(
    shape: tuple[int, ...], sequences: int, tmp_path: Path
) -> None:
    assert Recording.read(write(tmp_path, dict.fromkeys(NAMES, shape))).sequences == sequences


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_floating_point_type_will_do(dtype: torch.dtype, tmp_path: Path) -> None:
    assert Recording.read(write(tmp_path, WHOLE, dtype)).q.dtype is dtype


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"N": 128}, "set N at most 64"),
        ({"B": 4}, "set B at most 3"),
        ({"H": 16}, "set H at most 8"),
        ({"D": 32, "M": 16}, "set D to 16"),
        ({"D": 16, "M": 8}, "set M to 16"),
        ({"N": 65, "D": 64}, "set N at most 64, D to 16, M to 16"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(fields: dict[str, object], words: str, tmp_path: Path) -> None:
    file = write(tmp_path, WHOLE)
    with pytest.raises(RecordingError) as raised:
        Recording.read(file).cut(problem(**fields), torch.tensor([0]))
    assert str(raised.value).startswith(f"{file}: holds 3 sequences of 8 heads and 64 tokens, keys 16 wide and values 16,")
    assert str(raised.value).endswith(words)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"q": (3, 8, 64, 16), "k": (3, 8, 64, 16)}, "holds k, q; recorded inputs need q, k and v, and v is missing"),
        ({**WHOLE, "v": (3, 8, 63, 16)}, "v [3, 8, 63, 16]; they must be of the same sequences"),
        ({**WHOLE, "k": (3, 8, 64, 8)}, "q as wide as k"),
        ({**WHOLE, "q": (64, 16)}, "q is torch.float32 [64, 16]; floating-point numbers [sequences, heads, tokens, width]"),
        (dict.fromkeys(NAMES, (0, 8, 64, 16)), "must be of the same sequences"),
    ],
)
def test_a_file_of_something_else_says_what_it_holds(shapes: Shapes, words: str, tmp_path: Path) -> None:
    file = write(tmp_path, shapes)
    with pytest.raises(RecordingError) as raised:
        Recording.read(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert words in str(raised.value)


def test_whole_numbers_are_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"q is torch\.int64"):
        Recording.read(write(tmp_path, WHOLE, torch.int64))


def test_no_file_and_no_safetensors_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"not at all")
    for name in ("absent", "other"):
        with pytest.raises(RecordingError, match=f"{name}: cannot be read as safetensors: "):
            Recording.read(str(tmp_path / name))
